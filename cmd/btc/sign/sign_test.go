// SPDX-License-Identifier: Apache-2.0

package sign

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"btc/internal/signature"
)

var object = []byte("the bytes of an object")

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func password(text string) func() ([]byte, error) {
	return func() ([]byte, error) { return []byte(text), nil }
}

var errAsked = errors.New("asked for a password")

func noPassword() ([]byte, error) { return nil, errAsked }

// verify verifies a signature by a key.
func verify(t *testing.T, k *Key, text []byte) *signature.Signer {
	t.Helper()
	keys, err := signature.ParseKeys(k.Trusted())
	if err != nil {
		t.Fatal(err)
	}
	signers, err := signature.Verify("x.o", object, []signature.File{{Path: "x.o" + k.Extension, Text: text}}, [][]signature.Key{keys}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return &signers[0]
}

// Keys that minisign and ssh-keygen made sign.
func TestSign(t *testing.T) {
	for _, c := range []struct{ file, password, key string }{
		{"plain.key", "", "minisign:A45D2C783812D68C"},
		{"mini.key", "pass", "minisign:8F53BF274C22A786"}, // scrypt takes 1 GB of memory
		{"ssh.ed25519", "", "SHA256:"},
		{"ssh.locked", "pass", "SHA256:"},
	} {
		ask := noPassword
		if c.password != "" {
			if testing.Short() && c.file == "mini.key" {
				continue
			}
			if _, err := ParseKey(read(t, c.file), noPassword, ""); err != errAsked {
				t.Errorf("%s: %v", c.file, err)
			}
			ask = password(c.password)
		}
		k, err := ParseKey(read(t, c.file), ask, "")
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
			continue
		}
		text, err := k.Sign(object, Options{File: "x.o", Now: time.Unix(1800000000, 0)})
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
			continue
		}
		if s := verify(t, k, text); !strings.HasPrefix(s.Key, c.key) || k.Extension == ".minisig" && s.Comment != "timestamp:1800000000\tfile:x.o\thashed" {
			t.Errorf("%s: %+v", c.file, s)
		}
	}
	if _, err := ParseKey(read(t, "ssh.locked"), password("wrong"), ""); err != ErrPassword {
		t.Errorf("%v", err)
	}
	// With less memory than minisign's keys, the wrong password is found in a moment.
	lines := strings.Split(string(read(t, "mini.key")), "\n")
	b, err := base64.StdEncoding.DecodeString(lines[1])
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint64(b[38:], 1<<15)
	binary.LittleEndian.PutUint64(b[46:], 1<<24)
	lines[1] = base64.StdEncoding.EncodeToString(b)
	if _, err := ParseKey([]byte(strings.Join(lines, "\n")), password("pass"), ""); err != ErrPassword {
		t.Errorf("%v", err)
	}
}

// A key in PKCS#8, as openssl genpkey -algorithm ed25519 writes it, signs as a key of OpenSSH.
func TestPKCS8(t *testing.T) {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	k, err := ParseKey(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), noPassword, "")
	if err != nil {
		t.Fatal(err)
	}
	text, err := k.Sign(object, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s := verify(t, k, text); !strings.HasPrefix(s.Key, "SHA256:") {
		t.Errorf("%+v", s)
	}
}

func TestComment(t *testing.T) {
	k, err := ParseKey(read(t, "plain.key"), noPassword, "")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	text, err := k.Sign(object, Options{File: "x.o", Now: now, Expires: "2100-01-01", Comment: "for all hosts"})
	if err != nil {
		t.Fatal(err)
	}
	if s := verify(t, k, text); s.Comment != "timestamp:1767225600\tfile:x.o\thashed\texpires:2100-01-01\tfor all hosts" || s.Expires.Year() != 2100 {
		t.Errorf("%+v", s)
	}
	for _, o := range []Options{
		{Now: now, Expires: "2025-12-31"}, {Now: now, Expires: "20300101"}, {Now: now, Comment: "two\nlines"}, {Now: now, Comment: strings.Repeat("x", 9000)},
		{Now: now, File: "x\x1b.o"}, {Now: now, Comment: "expires:2100-01-01"}, {Now: now, Comment: "for ann expires:soon"},
	} {
		if _, err := k.Sign(object, o); err == nil {
			t.Errorf("%.80q is signed", o)
		}
	}
	if k, err = ParseKey(read(t, "ssh.ed25519"), noPassword, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Sign(object, Options{Expires: "2100-01-01"}); err == nil {
		t.Error("an SSH signature that expires")
	}
}

func TestRefusedKeys(t *testing.T) {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	plain := string(read(t, "plain.key"))
	for _, c := range []struct{ what, text, message string }{
		{"RSA", string(pem.EncodeToMemory(block)), "a key of type rsa: only ssh-ed25519 is supported"},
		{"empty", "", "neither a secret key"},
		{"an object", "\x7fELF", "neither a secret key"},
		{"cut", plain[:len(plain)-20], "not a secret key of minisign, or damaged"},
		{"public key", "untrusted comment: minisign public key\nRWSM1hI4eCxdpGD6fOMy5QCEoZJZ378YKgwTZeaJjJIdXxCd9sxMapU7\n", "not a secret key of minisign"},
		{"damaged SSH key", "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n", "not a private key of OpenSSH"},
		{"public key without ssh-agent", publicKey(t), "SSH_AUTH_SOCK is not set"},
	} {
		if _, err := ParseKey([]byte(c.text), noPassword, ""); err == nil || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// publicKey returns the public key of ssh.ed25519.
func publicKey(t *testing.T) string {
	t.Helper()
	s, err := ssh.ParsePrivateKey(read(t, "ssh.ed25519"))
	if err != nil {
		t.Fatal(err)
	}
	return string(ssh.MarshalAuthorizedKey(s.PublicKey()))
}

func TestAgent(t *testing.T) {
	raw, err := ssh.ParseRawPrivateKey(read(t, "ssh.ed25519"))
	if err != nil {
		t.Fatal(err)
	}
	ring := agent.NewKeyring()
	socket := filepath.Join(t.TempDir(), "agent")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			agent.ServeAgent(ring, conn)
			conn.Close()
		}
	}()
	k, err := ParseKey([]byte(publicKey(t)), noPassword, socket)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Sign(object, Options{}); err == nil {
		t.Error("an agent without the key signs")
	}
	if err := ring.Add(agent.AddedKey{PrivateKey: raw}); err != nil {
		t.Fatal(err)
	}
	text, err := k.Sign(object, Options{})
	if err != nil {
		t.Fatal(err)
	}
	verify(t, k, text)
}

// libsodium's parameters for the limits of minisign, and for others (crypto_pwhash_scryptsalsa208sha256).
func TestScryptParams(t *testing.T) {
	for _, c := range []struct {
		operations, memory uint64
		n, p               int
	}{
		{33554432, 1073741824, 1 << 20, 1}, // SENSITIVE
		{524288, 16777216, 1 << 14, 1},     // INTERACTIVE
		{33554432, 16777216, 1 << 14, 64},
		{0, 16777216, 1 << 10, 1},
	} {
		if n, r, p, err := scryptParams(c.operations, c.memory); n != c.n || r != 8 || p != c.p || err != nil {
			t.Errorf("%d, %d: %d, %d, %d, %v", c.operations, c.memory, n, r, p, err)
		}
	}
	for _, c := range [][2]uint64{{1 << 40, 1 << 40}, {1 << 63, 16777216}, {1 << 20, 0}, {^uint64(0), ^uint64(0)}} {
		if n, _, p, err := scryptParams(c[0], c[1]); err == nil {
			t.Errorf("%d: %d, %d", c, n, p)
		}
	}
}

// minisign and ssh-keygen accept the signatures, and the other way round: those of keys that they make now.
func TestTools(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, text []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(t *testing.T, in []byte, args ...string) []byte {
		t.Helper()
		if _, err := exec.LookPath(args[0]); err != nil {
			t.Skip("skipped: no " + args[0])
		}
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir, cmd.Stdin = dir, bytes.NewReader(in)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v %s", args, err, out)
		}
		return out
	}
	get := func(name string) []byte {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	write("x.o", object)
	t.Run("minisign", func(t *testing.T) {
		run(t, nil, "minisign", "-G", "-W", "-p", "a.pub", "-s", "a.key")
		k, err := ParseKey(get("a.key"), noPassword, "")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(get("a.pub")), k.Trusted()) {
			t.Errorf("%s is not in %s", k.Trusted(), get("a.pub"))
		}
		text, err := k.Sign(object, Options{File: "x.o", Now: time.Now(), Expires: "2100-01-01", Comment: "more"})
		if err != nil {
			t.Fatal(err)
		}
		write("x.o.minisig", text)
		if out := run(t, nil, "minisign", "-Vm", "x.o", "-p", "a.pub"); !strings.Contains(string(out), "file:x.o\thashed\texpires:2100-01-01\tmore") {
			t.Errorf("%s", out)
		}
		for _, more := range [][]string{{}, {"-l"}, {"-t", "expires:2100-01-01"}} {
			run(t, nil, append([]string{"minisign", "-S", "-W", "-s", "a.key", "-m", "x.o"}, more...)...)
			verify(t, k, get("x.o.minisig"))
		}
	})
	t.Run("ssh-keygen", func(t *testing.T) {
		run(t, nil, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "k")
		k, err := ParseKey(get("k"), noPassword, "")
		if err != nil {
			t.Fatal(err)
		}
		text, err := k.Sign(object, Options{})
		if err != nil {
			t.Fatal(err)
		}
		write("x.o.sig", text)
		write("allowed", []byte(k.Trusted()+"\n"))
		run(t, object, "ssh-keygen", "-Y", "verify", "-n", "btc", "-f", "allowed", "-I", "ann", "-s", "x.o.sig")
		for _, hash := range []string{"sha256", "sha512"} {
			os.Remove(filepath.Join(dir, "x.o.sig"))
			run(t, nil, "ssh-keygen", "-q", "-Y", "sign", "-n", "btc", "-O", "hashalg="+hash, "-f", "k", "x.o")
			verify(t, k, get("x.o.sig"))
		}
	})
}
