// SPDX-License-Identifier: Apache-2.0

package signature

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	standard "golang.org/x/crypto/blake2b"
)

// The vector of RFC 7693, appendix A, and the hashes of inputs of all lengths around the size of a block.
func TestBLAKE2b(t *testing.T) {
	want := "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d17d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923"
	if got := fmt.Sprintf("%x", BLAKE2b([]byte("abc"), 64)); got != want {
		t.Errorf("abc: %s", got)
	}
	data := make([]byte, 600)
	for i := range data {
		data[i] = byte(i * i)
		sum64, sum32 := standard.Sum512(data[:i]), standard.Sum256(data[:i])
		if !bytes.Equal(BLAKE2b(data[:i], 64), sum64[:]) || !bytes.Equal(BLAKE2b(data[:i], 32), sum32[:]) {
			t.Errorf("%d bytes: the hash differs", i)
		}
	}
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func keys(t testing.TB, text string) []Key {
	t.Helper()
	k, err := ParseKeys(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// signerLine returns a line of allowed_signers for a key of testdata.
func signerLine(t testing.TB, name, options, key string) string {
	kind, rest, _ := strings.Cut(string(read(t, key)), " ")
	blob, _, _ := strings.Cut(rest, " ")
	return strings.Join(strings.Fields(name+" "+options+" "+kind+" "+blob), " ") + "\n"
}

// trustedKeys are all keys of testdata that the package supports.
func trustedKeys(t testing.TB) []Key {
	return keys(t, string(read(t, "mini.pub"))+string(read(t, "plain.pub"))+signerLine(t, "ann@example.com", "", "ssh.ed25519.pub"))
}

var now = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// verify verifies files of testdata.
func verify(t testing.TB, demands [][]Key, names ...string) ([]Signer, error) {
	var files []File
	for _, name := range names {
		files = append(files, File{Path: name, Text: read(t, name)})
	}
	return Verify("dir/object.bin", read(t, "object.bin"), files, demands, now)
}

// valid are the signatures of testdata that are accepted, with their signers.
var valid = []struct{ file, signer, comment string }{
	{"object.prehashed.minisig", "minisign:8F53BF274C22A786", "expires:2100-01-01 for tests"},
	{"object.default.minisig", "minisign:A45D2C783812D68C", "timestamp:1795857582\tfile:object.bin\thashed"},
	{"object.legacy.minisig", "minisign:A45D2C783812D68C", "timestamp:1795857582\tfile:object.bin"},
	{"object.ed25519.sig", "ann@example.com (SHA256:SozNPL3hhLBbX4RwyaowvbPI0EC/1L34Y+v3FTj31K4)", ""},
	{"object.sha256.sig", "ann@example.com (SHA256:SozNPL3hhLBbX4RwyaowvbPI0EC/1L34Y+v3FTj31K4)", ""},
}

// Signatures that minisign and ssh-keygen made are accepted.
func TestAccepted(t *testing.T) {
	for _, v := range valid {
		signers, err := verify(t, [][]Key{trustedKeys(t)}, v.file)
		if err != nil || len(signers) != 1 || signers[0].String() != v.signer || signers[0].Comment != v.comment || signers[0].Path != v.file {
			t.Errorf("%s: %+v, %v", v.file, signers, err)
		}
	}
	// Line ends of other systems, and a missing one.
	for _, change := range []func([]byte) []byte{
		func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n")) },
		func(b []byte) []byte { return bytes.TrimSuffix(b, []byte("\n")) },
	} {
		for _, v := range valid {
			f := File{Path: v.file, Text: change(read(t, v.file))}
			if _, err := Verify("object.bin", read(t, "object.bin"), []File{f}, [][]Key{trustedKeys(t)}, now); err != nil {
				t.Error(err)
			}
		}
	}
}

// Each changed, removed and added byte of a signature is refused, except in minisign's untrusted comment and line ends in the
// base64 of SSH signatures, and so is each of an object.
func TestEachByte(t *testing.T) {
	object, trusted := read(t, "object.bin"), [][]Key{trustedKeys(t)}
	for _, v := range valid {
		text := read(t, v.file)
		free := 0 // bytes up to the end of the untrusted comment, without its beginning
		if bytes.HasPrefix(text, []byte(Untrusted)) {
			free = bytes.IndexByte(text, '\n')
		}
		try := func(what string, at int, signature, object []byte) {
			t.Helper()
			_, err := Verify("object.bin", object, []File{{Path: v.file, Text: signature}}, trusted, now)
			if isFree := at >= len(Untrusted) && at < free; (err == nil) != isFree {
				t.Errorf("%s, %s of byte %d: %v", v.file, what, at, err)
			}
			var e *Error
			if err != nil && (!errors.As(err, &e) || e.Reason == "" || e.Path == "" || e.Reason == Unsigned) {
				t.Errorf("%s, %s of byte %d: %#v", v.file, what, at, err)
			}
		}
		for i, c := range text {
			for _, other := range []byte{c ^ 1, c ^ 0x20, c ^ 0x80, 0, ' ', '\t', '\r', '=', 'A'} {
				if other != c {
					try(fmt.Sprintf("change to %q", other), i, splice(text, i, 1, other), object)
				}
			}
			if c != '\n' {
				// A line end in the comment makes another line of it.
				if _, err := Verify("o", object, []File{{Text: splice(text, i, 1, '\n')}}, trusted, now); err == nil {
					t.Errorf("%s: line end in place of byte %d", v.file, i)
				}
			}
			if c != '\n' || free > 0 && i != len(text)-1 { // line ends in the base64 of SSH signatures have no meaning
				try("removal", i, splice(text, i, 1), object)
			}
			if i != free && i != len(Untrusted)-1 || free == 0 { // else it belongs to the comment
				try("space before", i, splice(text, i, 0, ' '), object)
			}
			try("cut", -1, text[:min(i, len(text)-2)], object)
		}
		try("more", -1, append(bytes.Clone(text), "\n\n"...), object)
		try("more", -1, append(bytes.Clone(text), text...), object)
		if !testing.Short() {
			for i := range object {
				try("object", -1, text, splice(object, i, 1, object[i]^1))
			}
		}
		try("shorter object", -1, text, object[:len(object)-1])
		try("longer object", -1, text, append(bytes.Clone(object), 0))
	}
}

// splice replaces bytes.
func splice(b []byte, at, n int, by ...byte) []byte {
	return append(append(bytes.Clone(b[:at]), by...), b[at+n:]...)
}

func TestRefused(t *testing.T) {
	all := trustedKeys(t)
	minisignOnly, sshOnly := all[:2], all[2:]
	line := func(options string) []Key { return keys(t, signerLine(t, "ann", options, "ssh.ed25519.pub")) }
	other := keys(t, signerLine(t, "bob", "", "ssh.locked.pub"))
	for _, c := range []struct {
		what    string
		demands [][]Key
		files   string // separated by spaces
		reason  Reason // "": accepted
		text    string // part of the message
	}{
		{"no signature", [][]Key{all}, "", Unsigned, "dir/object.bin: not signed"},
		{"nobody is trusted", [][]Key{{}}, "object.default.minisig", Unknown, "signed by an unknown signer: minisign:A45D2C783812D68C is not a trusted key"},
		{"minisign, key not trusted", [][]Key{sshOnly}, "object.default.minisig", Unknown, "minisign:A45D2C783812D68C"},
		{"SSH, key not trusted", [][]Key{minisignOnly, other}, "object.ed25519.sig", Unknown, "SHA256:"},
		{"expired signature", [][]Key{all}, "object.expired.minisig", Expired, "the signature expired on 2020-09-13T12:26:41Z"},
		{"another namespace", [][]Key{all}, "object.namespace.sig", Unsupported, `unsupported namespace "file": expected btc, as in ssh-keygen -Y sign -n btc`},
		{"RSA", [][]Key{all}, "object.rsa.sig", Unsupported, `unsupported type of key "ssh-rsa": expected ssh-ed25519`},
		{"ECDSA", [][]Key{all}, "object.ecdsa.sig", Unsupported, `"ecdsa-sha2-nistp256"`},
		{"two good ones", [][]Key{all}, "object.default.minisig object.ed25519.sig", "", ""},
		{"two, one of an unknown signer", [][]Key{sshOnly}, "object.default.minisig object.ed25519.sig", Unknown, "object.default.minisig: "},
		{"two, one expired", [][]Key{all}, "object.ed25519.sig object.expired.minisig", Expired, "object.expired.minisig: "},
		{"two, one malformed", [][]Key{all}, "object.ed25519.sig README.md", Malformed, "README.md: malformed signature: neither"},
		{"two demands, one signature", [][]Key{minisignOnly, sshOnly}, "object.ed25519.sig", Unsigned, "not signed by everyone who must: ann@example.com ("},
		{"two demands, two signatures", [][]Key{minisignOnly, sshOnly}, "object.ed25519.sig object.default.minisig", "", ""},
		{"two demands, one key", [][]Key{all, sshOnly}, "object.ed25519.sig", "", ""},
		{"namespace", [][]Key{line(`namespaces="git,b*"`)}, "object.ed25519.sig", "", ""},
		{"no namespace", [][]Key{line(`namespaces="git,file"`)}, "object.ed25519.sig", Unknown, "may not sign objects"},
		{"namespace excluded", [][]Key{line(`namespaces="*,!bt?"`)}, "object.ed25519.sig", Unknown, "may not sign objects"},
		{"not yet valid", [][]Key{line(`valid-after="20261102Z"`)}, "object.ed25519.sig", NotYetValid, "the key is valid only from 2026-11-02T00:00:00Z"},
		{"valid from now on", [][]Key{line(`valid-after="202611010000Z"`)}, "object.ed25519.sig", "", ""},
		{"valid up to now", [][]Key{line(`valid-before="20261101000000Z"`)}, "object.ed25519.sig", "", ""},
		{"expired key", [][]Key{line(`valid-before="20261031235959Z",namespaces="btc"`)}, "object.ed25519.sig", Expired, "the key expired on 2026-10-31T23:59:59Z"},
		{"expired line, and one that is not", [][]Key{append(line(`valid-before="20200101"`), line("")...)}, "object.ed25519.sig", "", ""},
	} {
		signers, err := verify(t, c.demands, strings.Fields(c.files)...)
		var e *Error
		switch {
		case c.reason == "" && (err != nil || len(signers) != len(strings.Fields(c.files))):
			t.Errorf("%s: %v, %v", c.what, signers, err)
		case c.reason != "" && (!errors.As(err, &e) || e.Reason != c.reason || !strings.Contains(e.Error(), c.text)):
			t.Errorf("%s: %#v, expected %s: %s", c.what, err, c.reason, c.text)
		}
	}
}

// What was altered is named where that is known.
func TestAltered(t *testing.T) {
	minisig, sig, object := read(t, "object.default.minisig"), read(t, "object.ed25519.sig"), read(t, "object.bin")
	changed := append(bytes.Clone(object), 'x')
	for _, c := range []struct {
		what              string
		signature, object []byte
		text              string
	}{
		{"object", minisig, changed, "a signature of another object, or object.bin was altered after it was signed; its comment is: timestamp:1795857582\tfile:object.bin\thashed"},
		{"object, SSH", sig, changed, "not a signature of this object: object.bin was altered after it was signed, the signature was altered, or it is of another object"},
		{"comment", bytes.Replace(minisig, []byte("file:o"), []byte("file:p"), 1), object, "its trusted comment was altered"},
		{"signature", bytes.Replace(minisig, []byte("pOxrwd3y"), []byte("pOxrwd3z"), 1), object, "not a signature of this object"},
	} {
		_, err := Verify("object.bin", c.object, []File{{Path: "f", Text: c.signature}}, [][]Key{trustedKeys(t)}, now)
		var e *Error
		if !errors.As(err, &e) || e.Reason != Altered || e.Text != c.text && !strings.HasPrefix(e.Text, c.text) || e.Key == "" {
			t.Errorf("%s: %#v", c.what, err)
		}
	}
}

func TestMalformed(t *testing.T) {
	minisig := string(read(t, "object.default.minisig"))
	lines := strings.SplitAfter(minisig, "\n")
	for _, c := range []struct{ what, text, message string }{
		{"empty", "", "neither a signature of minisign"},
		{"too large", minisig + strings.Repeat(" ", MaxBytes), "too large"},
		{"three lines", strings.Join(lines[:3], ""), "expected 4 lines"},
		{"five lines", minisig + "more\n", "expected 4 lines"},
		{"no trusted comment", strings.Replace(minisig, "trusted comment: t", "trusted comment t", 1), "expected a comment"},
		{"algorithm", strings.Replace(minisig, "RUSM1", "RXSM1", 1), `unsupported algorithm "Et": expected ED or Ed`},
		{"expiry", lines[0] + lines[1] + "trusted comment: expires:soon\n" + lines[3], `"soon" is not a time`},
		{"expiry without a time", lines[0] + lines[1] + "trusted comment: expires: 2030-01-01\n" + lines[3], `"" is not a time`},
		{"SSH, no end", ArmorBegin + "AAAA\n", "expected base64 between two lines"},
		{"SSH, nothing", ArmorBegin, "expected base64"},
		{"SSH, not base64", ArmorBegin + "???\n" + ArmorEnd, "expected base64"},
		{"SSH, another magic", ArmorBegin + "AAAA\n" + ArmorEnd, "damaged, or of another version"},
	} {
		if _, err := Parse([]byte(c.text)); err == nil || !strings.Contains(err.Text, c.message) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

func TestParseTime(t *testing.T) {
	for text, want := range map[string]string{
		"1893456000":           "2030-01-01T00:00:00Z",
		"2030-01-01":           "2030-01-01T00:00:00Z",
		"2030-12-31T23:59:58Z": "2030-12-31T23:59:58Z",
		"2028-02-29":           "2028-02-29T00:00:00Z",
	} {
		if at, err := ParseTime(text); err != nil || at.Format(time.RFC3339) != want {
			t.Errorf("%s: %v, %v", text, at, err)
		}
	}
	for _, text := range []string{
		"", "0", "20300101", "193456000", "2030-02-30", "2030-13-01", "2030-1-1", "20-300101", "2030-12-31T24:00:00Z", "2030-12-31T23:60:00Z",
		"2030-12-31T23:59:58", "2030-12-31 23:59:58Z", "2030-12-31T23:59:58+01:00", "-1893456000", "99999999999999999999", "tomorrow", "２０３０-01-01",
	} {
		if at, err := ParseTime(text); err == nil {
			t.Errorf("%q: %v", text, at)
		}
	}
}

func TestParseKeys(t *testing.T) {
	ssh := signerLine(t, "ann@example.com,*@example.org", "", "ssh.ed25519.pub")
	rsa := signerLine(t, "rose", "", "ssh.rsa.pub")
	mini, blob := string(read(t, "mini.pub")), strings.Fields(ssh)[2]
	bare := strings.Split(mini, "\n")[1]
	for _, c := range []struct {
		what, text string
		n          int
		message    string
	}{
		{"minisign", mini, 1, ""},
		{"the line alone", bare, 1, ""},
		{"two files in one, and a comment", mini + "# more\n\n" + string(read(t, "plain.pub")), 2, ""},
		{"line ends of Windows", strings.ReplaceAll(mini+ssh, "\n", "\r\n"), 2, ""},
		{"SSH", ssh, 1, ""},
		{"both forms", mini + ssh, 2, ""},
		{"comment after the key", strings.TrimSpace(ssh) + " ann's key\n", 1, ""},
		{"spaces and tabs", "\t ann \t ssh-ed25519\t" + blob, 1, ""},
		{"quoted names", `"ann smith,bob" ssh-ed25519 ` + blob, 1, ""},
		{"a name like a type", "ssh-bot@example.com ssh-ed25519 " + blob, 1, ""},
		{"options in capitals", `ann NameSpaces="btc",VALID-AFTER="20200101" ssh-ed25519 ` + blob, 1, ""},
		{"all times", `ann valid-after="202001010102",valid-before="20300101010203Z" ssh-ed25519 ` + blob, 1, ""},
		{"RSA is skipped", rsa + ssh, 1, ""},
		{"only RSA", "\n" + rsa, 0, `2: unsupported type of key "ssh-rsa": expected ssh-ed25519`},
		{"security key", "ann sk-ssh-ed25519@openssh.com AAAA", 0, `1: unsupported type of key "sk-ssh-ed25519@openssh.com"`},
		{"certificate", "ann ssh-ed25519-cert-v01@openssh.com AAAA", 0, `1: unsupported type of key "ssh-ed25519-cert-v01@openssh.com"`},
		{"authority", mini + "*@example.com cert-authority ssh-ed25519 " + blob, 0, "3: cert-authority is not supported: list the keys of the signers"},
		{"authority with a namespace", `* namespaces="btc",cert-authority ssh-ed25519 ` + blob, 0, "1: cert-authority is not supported"},
		{"authority with an RSA key", "* cert-authority " + strings.Join(strings.Fields(rsa)[1:], " "), 0, "1: cert-authority is not supported"},
		{"empty", "# nobody\n", 0, "1: no public keys"},
		{"secret key", "untrusted comment: minisign encrypted secret key\n" + bare, 0, "1: "},
		{"SSH private key", "-----BEGIN OPENSSH PRIVATE KEY-----\n", 0, "1: "},
		{"public key without a name", "ssh-ed25519 " + blob + " ann@example.com", 0, "1: "},
		{"damaged minisign key", bare[:20] + "\n", 0, "not a public key of minisign"},
		{"another algorithm", "RUSGpyJMJ79Tj+Hg5YhAtpnYPHNgWa3bnAGCGc34+pP6ohCropEz+a4/", 0, "not a public key of minisign"},
		{"damaged SSH key", "ann ssh-ed25519 AAAA", 0, "1: the key is damaged"},
		{"no SSH key", "ann ssh-ed25519", 0, "1: the key is damaged"},
		{"key of another type", "ann ssh-ed25519 " + strings.Fields(rsa)[2], 0, "1: the key is damaged"},
		{"only exclusions", "!ann,!bob ssh-ed25519 " + blob, 0, "1: "},
		{"no names", `"" ssh-ed25519 ` + blob, 0, "1: "},
		{"unknown option", `ann verify-required ssh-ed25519 ` + blob, 0, `option "verify-required"`},
		{"option twice", `ann namespaces="a",namespaces="b" ssh-ed25519 ` + blob, 0, `option "namespaces"`},
		{"time twice", `ann valid-after="20200101",valid-after="20200101" ssh-ed25519 ` + blob, 0, `option "valid-after"`},
		{"option without quotes", `ann namespaces=btc ssh-ed25519 ` + blob, 0, `option "namespaces=btc"`},
		{"option without end", `ann namespaces="btc ssh-ed25519 ` + blob, 0, "1: "},
		{"no comma", `ann namespaces="a"valid-after="20200101" ssh-ed25519 ` + blob, 0, `option "namespaces"`},
		{"no date", `ann valid-after="20200230" ssh-ed25519 ` + blob, 0, `1: "20200230" is not a time: expected YYYYMMDD[Z] or YYYYMMDDHHMM[SS][Z]`},
		{"too large", strings.Repeat("#", MaxKeysBytes+1), 0, "too large"},
	} {
		k, err := ParseKeys(c.text)
		if len(k) != c.n || (err == nil) != (c.message == "") || err != nil && !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: %d keys, %v", c.what, len(k), err)
		}
	}
}

// Times without Z are in the time zone of the host.
func TestTimeZone(t *testing.T) {
	zone := time.Local
	defer func() { time.Local = zone }()
	time.Local = time.FixedZone("test", 3600)
	k := keys(t, signerLine(t, "ann", `valid-after="20200101",valid-before="20300101Z"`, "ssh.ed25519.pub"))[0]
	if after, before := k.after.UTC().Format(time.RFC3339), k.before.UTC().Format(time.RFC3339); after != "2019-12-31T23:00:00Z" || before != "2030-01-01T00:00:00Z" {
		t.Errorf("from %s to %s", after, before)
	}
}

func TestMatchList(t *testing.T) {
	for list, want := range map[string]bool{
		"btc": true, "*": true, "b?c": true, "git,btc": true, "b*": true, "*c": true, "*t*": true, "**": true, "b**c": true, "btc*": true,
		"": false, "git": false, "BTC": false, "b?": false, "b*t": false, "!btc": false, "*,!btc": false, "!git": false, "!git,btc": true, "btcc": false, "?": false, "????": false,
	} {
		if matchList(list, Namespace) != want {
			t.Errorf("%q: not %v", list, want)
		}
	}
}

// seeds adds the files of testdata to a fuzz target.
func seeds(f *testing.F, add func([]byte)) {
	entries, err := os.ReadDir("testdata")
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range entries {
		if !e.IsDir() && e.Name() != "object.bin" {
			add(read(f, e.Name()))
		}
	}
}

// Parse accepts no signature that could be written in another way: its parts give the same file again.
func FuzzParse(f *testing.F) {
	seeds(f, func(b []byte) { f.Add(b) })
	demands := [][]Key{trustedKeys(f)}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Parse(text)
		if err != nil {
			if err.Reason == "" || err.Text == "" {
				t.Errorf("%#v", err)
			}
			return
		}
		if len(s.sig) != signatureSize || s.Key() == "" || isSSH(s.id) != (s.global == nil) {
			t.Errorf("%#v", s)
		}
		Verify("x.o", []byte("x"), []File{{Text: text}}, demands, now)
	})
}

// Keys that are parsed are whole.
func FuzzParseKeys(f *testing.F) {
	seeds(f, func(b []byte) { f.Add(string(b)) })
	f.Add(signerLine(f, "ann@example.com", `namespaces="btc,*",valid-after="20200101",valid-before="20300101010203Z"`, "ssh.ed25519.pub"))
	f.Fuzz(func(t *testing.T, text string) {
		all, err := ParseKeys(text)
		if (len(all) == 0) != (err != nil) {
			t.Errorf("%d keys, %v", len(all), err)
		}
		for i := range all {
			if k := &all[i]; len(k.public) != publicSize || k.String() == "" || isSSH(k.id) != (k.Principals != "") {
				t.Errorf("%#v", k)
			}
		}
	})
}

// Objects of the usual size: 20 to 100 KB.
func BenchmarkVerify(b *testing.B) {
	trusted := [][]Key{trustedKeys(b)}
	for _, v := range valid {
		for _, size := range []int{20_000, 100_000} {
			data := make([]byte, size) // another object: the work is the same
			files := []File{{Text: read(b, v.file)}}
			b.Run(fmt.Sprintf("%s/%d", v.file, size), func(b *testing.B) {
				for b.Loop() {
					Verify("x.o", data, files, trusted, now)
				}
			})
		}
	}
}
