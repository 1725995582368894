// SPDX-License-Identifier: Apache-2.0

package object

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"btc/internal/signature"
)

// signer signs as minisign -l does.
type signer struct{ private ed25519.PrivateKey }

var testSigner = signer{ed25519.NewKeyFromSeed(make([]byte, 32))}

const keyID = "Ed12345678"

func (s signer) sign(data []byte) []byte {
	sig := ed25519.Sign(s.private, data)
	encode := base64.StdEncoding.EncodeToString
	global := ed25519.Sign(s.private, append(slices.Clone(sig), "test"...))
	return []byte("untrusted comment: \n" + encode(append([]byte(keyID), sig...)) + "\ntrusted comment: test\n" + encode(global) + "\n")
}

func (s signer) keys(t *testing.T) [][]signature.Key {
	t.Helper()
	k, err := signature.ParseKeys(base64.StdEncoding.EncodeToString(append([]byte(keyID), s.private.Public().(ed25519.PublicKey)...)))
	if err != nil {
		t.Fatal(err)
	}
	return [][]signature.Key{k}
}

// reason is why an object that was read is refused; "": it is accepted.
func reason(t *testing.T, o *Object, err error) signature.Reason {
	t.Helper()
	if err == nil {
		_, err = o.Verify(testSigner.keys(t))
	}
	var e *signature.Error
	switch {
	case err == nil:
		return ""
	case !errors.As(err, &e):
		t.Fatal(err)
	}
	return e.Reason
}

// The signature files next to an object are read with it; what is there but cannot be read is an error.
func TestVerifyFiles(t *testing.T) {
	data, err := os.ReadFile("testdata/joined.o")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what   string
		change func(t *testing.T, path string) error
		reason signature.Reason
	}{
		{"signed", func(*testing.T, string) error { return nil }, ""},
		{"the other name", func(_ *testing.T, path string) error { return os.Rename(path+".minisig", path+".sig") }, ""},
		{"both", func(_ *testing.T, path string) error { return os.Link(path+".minisig", path+".sig") }, ""},
		{"none", func(_ *testing.T, path string) error { return os.Remove(path + ".minisig") }, signature.Unsigned},
		{"a second that is wrong", func(_ *testing.T, path string) error {
			return os.WriteFile(path+".sig", testSigner.sign([]byte("other")), 0o600)
		}, signature.Altered},
		{"a second one that is empty", func(_ *testing.T, path string) error { return os.WriteFile(path+".sig", nil, 0o600) }, signature.Malformed},
		{"a directory", func(_ *testing.T, path string) error { return os.Mkdir(path+".sig", 0o700) }, signature.Malformed},
		{"too large", func(_ *testing.T, path string) error {
			return os.Truncate(path+".minisig", signature.MaxBytes+1)
		}, signature.Malformed},
	} {
		path := filepath.Join(t.TempDir(), "x.o")
		for name, text := range map[string][]byte{path: data, path + ".minisig": testSigner.sign(data)} {
			if err := os.WriteFile(name, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.change(t, path); err != nil {
			t.Fatal(err)
		}
		o, err := Read(path)
		if got := reason(t, o, err); got != c.reason {
			t.Errorf("%s: %q, not %q", c.what, got, c.reason)
		}
	}
}

// What was verified is what was parsed: a file that is replaced meanwhile has no effect.
func TestVerifyIsOfWhatWasRead(t *testing.T) {
	data, err := os.ReadFile("testdata/joined.o")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.o")
	os.WriteFile(path, data, 0o600)
	o, err := Read(path)
	os.WriteFile(path+".minisig", testSigner.sign(data), 0o600)
	if got := reason(t, o, err); got != signature.Unsigned {
		t.Errorf("signed later: %q", got)
	}
	o, err = Read(path)
	os.WriteFile(path, []byte("another"), 0o600)
	os.WriteFile(path+".minisig", []byte("another"), 0o600)
	if got := reason(t, o, err); got != "" {
		t.Errorf("replaced later: %q", got)
	}
}

// A signature of an object does not cover a manifest next to it.
func TestVerifyUncovered(t *testing.T) {
	f, err := ReadFiles("testdata/count.o")
	if err != nil {
		t.Fatal(err)
	}
	f.Signatures = []signature.File{{Text: testSigner.sign(f.Data)}}
	o, err := f.Parse()
	if got := reason(t, o, err); got != signature.Uncovered {
		t.Errorf("%q", got)
	}
}

// Each changed byte of an object is refused: by its digest, which a signature need not be asked for, and by the signature alone.
func TestVerifyEachByte(t *testing.T) {
	data, err := os.ReadFile("testdata/joined.o")
	if err != nil {
		t.Fatal(err)
	}
	sig := []signature.File{{Text: testSigner.sign(data)}}
	keys := testSigner.keys(t)
	for i := range data {
		data[i] ^= 1
		f := NewFiles("x.o", data, nil)
		if _, err := f.Parse(); err == nil {
			t.Errorf("byte %d: parsed", i)
		}
		if i%16 == 0 {
			if _, err := signature.Verify("x.o", data, sig, keys, time.Now()); err == nil {
				t.Errorf("byte %d: verified", i)
			}
		}
		data[i] ^= 1
	}
}

// In a stream, signatures are before the object.
func TestVerifyStream(t *testing.T) {
	data, err := os.ReadFile("testdata/joined.o")
	if err != nil {
		t.Fatal(err)
	}
	good := testSigner.sign(data)
	armored := []byte(signature.ArmorBegin + "AAAA\n" + signature.ArmorEnd)
	for _, c := range []struct {
		what   string
		parts  [][]byte
		reason signature.Reason
	}{
		{"signed", [][]byte{good, data}, ""},
		{"twice", [][]byte{good, []byte("\n"), good, data}, ""},
		{"not signed", [][]byte{data}, signature.Unsigned},
		{"after it", [][]byte{data, good}, signature.Unsigned},
		{"SSH, malformed", [][]byte{armored, data}, signature.Malformed},
		{"SSH and a good one", [][]byte{armored, []byte("\n"), good, data}, signature.Malformed},
		{"of another object", [][]byte{testSigner.sign(nil), data}, signature.Altered},
	} {
		o, err := parseStream(bufio.NewReader(bytes.NewReader(bytes.Join(c.parts, nil))))
		if got := reason(t, o, err); got != c.reason {
			t.Errorf("%s: %q, not %q", c.what, got, c.reason)
		}
	}
	for what, stream := range map[string]io.Reader{
		"too large":       strings.NewReader("untrusted comment: " + strings.Repeat("x", 1<<20)),
		"many":            bytes.NewReader(append(bytes.Repeat(good, 1000), data...)),
		"ends":            strings.NewReader("-----BEGIN SSH SIGNATURE-----\n"),
		"only signatures": bytes.NewReader(good),
	} {
		if _, err := parseStream(bufio.NewReader(stream)); err == nil || !strings.HasPrefix(err.Error(), StreamName+": ") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Stream has what readStream reads back, and refuses what it would not.
func TestStream(t *testing.T) {
	data, err := os.ReadFile("testdata/joined.o")
	if err != nil {
		t.Fatal(err)
	}
	good := testSigner.sign(data)
	file := func(text []byte) signature.File { return signature.File{Path: "x.o.sig", Text: text} }
	for what, signatures := range map[string][]signature.File{
		"none": nil, "one": {file(good)}, "without a newline": {file(bytes.TrimSpace(good))},
		"several": {file(good), file(bytes.ReplaceAll(good, []byte("\n"), []byte("\r\n"))), file(good), file(good)},
	} {
		f := NewFiles("x.o", data, nil)
		f.Signatures = signatures
		stream, err := f.Stream()
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		back, err := FromStream("x.o", stream)
		if err != nil || !bytes.Equal(back.Data, data) || len(back.Signatures) != len(signatures) {
			t.Errorf("%s: %v", what, err)
			continue
		}
		for i := range signatures {
			if !bytes.Equal(bytes.TrimSpace(back.Signatures[i].Text), bytes.TrimSpace(signatures[i].Text)) {
				t.Errorf("%s: signature %d is %q", what, i, back.Signatures[i].Text)
			}
		}
	}
	for _, c := range []struct {
		data       []byte
		signatures []signature.File
		says       string
	}{
		{data, []signature.File{file([]byte("\x89\x02\x33\x04\x00"))}, "x.o.sig: malformed signature: neither a signature of minisign nor"}, // gpg --detach-sign
		{data, []signature.File{{Path: "x.o.sig", Err: errors.New("is a directory")}}, "x.o.sig: is a directory"},
		{data, slices.Repeat([]signature.File{file(good)}, maxSignatures+1), "x.o: more than 4 signatures"},
		{make([]byte, MaxBytes), []signature.File{file(good)}, "x.o: larger than 67108864 bytes with its signatures"},
	} {
		f := NewFiles("x.o", c.data, nil)
		f.Signatures = c.signatures
		if _, err := f.Stream(); err == nil || !strings.HasPrefix(err.Error(), c.says) {
			t.Errorf("%q: %v", c.says, err)
		}
	}
	old, err := ReadFiles("testdata/count.o") // with its manifest in a second file
	if err != nil {
		t.Fatal(err)
	}
	stream, err := old.Stream()
	if err == nil {
		_, err = FromStream("x.o", stream)
	}
	if err != nil {
		t.Error(err)
	}
}

// An object without a signature says what to do, which depends on where it is from.
func TestUnsigned(t *testing.T) {
	data, err := os.ReadFile("testdata/joined.o")
	if err != nil {
		t.Fatal(err)
	}
	read := func(f *Files, err error) *Files {
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for want, f := range map[string]*Files{
		"testdata/joined.o: not signed: sign it: btc sign --key FILE testdata/joined.o": read(ReadFiles("testdata/joined.o")),
		"standard input: not signed: send its signature before it":                      read(ReadStream(bufio.NewReader(bytes.NewReader(data)))),
		"x.o: not signed: sign the object, then bundle it":                              read(FromStream("x.o", data)),
		"object: not signed": NewFiles("object", data, nil),
	} {
		o, err := f.Parse()
		if err != nil {
			t.Fatal(err)
		}
		if _, err = o.Verify(testSigner.keys(t)); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
