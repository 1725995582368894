// SPDX-License-Identifier: Apache-2.0

// Package sign makes signatures of objects, as minisign and ssh-keygen -Y sign do, with the keys of these programs.
//
// It takes the content of a file with a secret key, a function that asks for its password, and the bytes of the object, and
// returns the content of the signature file. It reads and writes no files, except the socket of ssh-agent.
package sign

import (
	"bytes"
	"crypto/ed25519"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
	"unicode"

	"golang.org/x/crypto/scrypt"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"btc/internal/signature"
)

// Key signs objects.
type Key struct {
	// Extension is the end of the name of its signature files.
	Extension string
	public    ed25519.PublicKey
	id        [8]byte // of a minisign key
	sign      func(data []byte) ([]byte, error)
}

// Options are what a signature says besides whose it is.
type Options struct {
	File    string    // base name of the object
	Now     time.Time // when it is signed
	Expires string    // minisign: when it is no longer valid, as signature.ParseTime reads; "": never
	Comment string    // minisign: further text
}

// ErrPassword means that the password is wrong.
var ErrPassword = errors.New("wrong password")

// ParseKey parses a secret key of minisign or OpenSSH, or an OpenSSH public key whose secret key ssh-agent has at the socket. It
// calls password, which may fail, only if the key is encrypted.
func ParseKey(text []byte, password func() ([]byte, error), socket string) (*Key, error) {
	line, rest, _ := strings.Cut(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
	switch {
	case strings.HasPrefix(line, signature.Untrusted):
		return parseMinisign(strings.TrimSpace(rest), password)
	case strings.HasPrefix(line, "-----BEGIN"):
		return parseSSH(text, password)
	case strings.HasPrefix(line, "ssh-"), strings.HasPrefix(line, "sk-"), strings.HasPrefix(line, "ecdsa-"):
		return fromAgent(text, socket)
	}
	return nil, errors.New("neither a secret key of minisign nor a key of OpenSSH")
}

// A secret key of minisign: three algorithms of two bytes, the salt, the limits of scrypt, and what it encrypts: the ID, the
// key, and the checksum.
const (
	saltSize   = 32
	headSize   = 6 + saltSize + 8 + 8
	secretSize = 8 + ed25519.PrivateKeySize + 32
)

func parseMinisign(text string, password func() ([]byte, error)) (*Key, error) {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(b) != headSize+secretSize || string(b[:2]) != "Ed" || string(b[4:6]) != "B2" {
		return nil, errors.New("not a secret key of minisign, or damaged")
	}
	secret := b[headSize:]
	signed := len(secret) - 32
	switch kdf := string(b[2:4]); kdf {
	case "\x00\x00": // minisign -W writes no checksum
	case "Sc":
		p, err := password()
		if err != nil {
			return nil, err
		}
		n, r, parallel, err := scryptParams(binary.LittleEndian.Uint64(b[6+saltSize:]), binary.LittleEndian.Uint64(b[6+saltSize+8:]))
		if err != nil {
			return nil, err
		}
		stream, err := scrypt.Key(p, b[6:6+saltSize], n, r, parallel, secretSize)
		if err != nil {
			return nil, err
		}
		subtle.XORBytes(secret, secret, stream)
		if !bytes.Equal(signature.BLAKE2b(append([]byte("Ed"), secret[:signed]...), 32), secret[signed:]) {
			return nil, ErrPassword
		}
	default:
		return nil, fmt.Errorf("unsupported encryption %q of the key", kdf)
	}
	private := ed25519.PrivateKey(secret[8:signed])
	return &Key{
		Extension: ".minisig", public: private.Public().(ed25519.PublicKey), id: [8]byte(secret),
		sign: func(data []byte) ([]byte, error) { return ed25519.Sign(private, data), nil },
	}, nil
}

// scryptParams returns N, r and p for limits of operations and memory, as libsodium's pickparams does.
func scryptParams(operations, memory uint64) (n, r, p int, err error) {
	const maxMemory = 2 << 30
	operations = max(operations, 32768)
	r, p = 8, 1
	most := operations / 32
	if operations >= memory/32 {
		most = memory / 1024
	}
	log := 1
	for log < 63 && uint64(1)<<log <= most/2 {
		log++
	}
	if operations >= memory/32 {
		p = int(min(operations/4>>log, 0x3fffffff)) / r
	}
	if memory > maxMemory || log > 21 || p < 1 || p > 1<<10 {
		return 0, 0, 0, errors.New("the encryption of the key needs too much memory or time, or is damaged")
	}
	return 1 << log, r, p, nil
}

func parseSSH(text []byte, password func() ([]byte, error)) (*Key, error) {
	raw, err := ssh.ParseRawPrivateKey(text)
	var missing *ssh.PassphraseMissingError
	if errors.As(err, &missing) {
		p, err := password()
		if err != nil {
			return nil, err
		}
		if raw, err = ssh.ParseRawPrivateKeyWithPassphrase(text, p); err != nil {
			return nil, ErrPassword
		}
	} else if err != nil {
		return nil, fmt.Errorf("not a private key of OpenSSH, or damaged: %w", err)
	}
	var private ed25519.PrivateKey
	switch k := raw.(type) {
	case *ed25519.PrivateKey:
		private = *k
	case ed25519.PrivateKey: // of PKCS#8, as openssl genpkey writes it
		private = k
	default:
		return nil, fmt.Errorf("a key of type %s: only %s is supported", strings.TrimPrefix(strings.ToLower(strings.TrimSuffix(fmt.Sprintf("%T", raw), ".PrivateKey")), "*"), signature.SSHEd25519)
	}
	return &Key{
		Extension: ".sig", public: private.Public().(ed25519.PublicKey),
		sign: func(data []byte) ([]byte, error) { return ed25519.Sign(private, data), nil },
	}, nil
}

// fromAgent returns the key of ssh-agent with a public key.
func fromAgent(text []byte, socket string) (*Key, error) {
	public, _, _, _, err := ssh.ParseAuthorizedKey(text)
	if err != nil {
		return nil, fmt.Errorf("not a public key of OpenSSH: %w", err)
	}
	key, is := public.(ssh.CryptoPublicKey)
	var edwards ed25519.PublicKey
	if is {
		edwards, is = key.CryptoPublicKey().(ed25519.PublicKey)
	}
	switch {
	case !is || public.Type() != signature.SSHEd25519:
		return nil, fmt.Errorf("a key of type %s: only %s is supported", public.Type(), signature.SSHEd25519)
	case socket == "":
		return nil, errors.New("a public key: its secret key is needed, as a file or in ssh-agent (SSH_AUTH_SOCK is not set)")
	}
	return &Key{Extension: ".sig", public: edwards, sign: func(data []byte) ([]byte, error) {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			return nil, fmt.Errorf("ssh-agent: %w", err)
		}
		defer conn.Close()
		s, err := agent.NewClient(conn).Sign(public, data)
		if err != nil {
			return nil, fmt.Errorf("ssh-agent: %w", err)
		}
		return s.Blob, nil
	}}, nil
}

// Sign returns the content of a signature file for an object.
func (k *Key) Sign(object []byte, o Options) ([]byte, error) {
	if k.Extension == ".sig" {
		if o.Expires != "" || o.Comment != "" {
			return nil, errors.New("signatures of OpenSSH have no comment and do not expire: limit the key in allowed_signers (valid-before)")
		}
		return k.signSSH(object)
	}
	return k.signMinisign(object, o)
}

func (k *Key) signMinisign(object []byte, o Options) ([]byte, error) {
	comment := fmt.Sprintf("timestamp:%d\tfile:%s\thashed", o.Now.Unix(), o.File)
	if o.Expires != "" {
		at, err := signature.ParseTime(o.Expires)
		if err != nil {
			return nil, err
		}
		if !at.After(o.Now) {
			return nil, fmt.Errorf("it would have expired already, on %s", at.Format(time.RFC3339))
		}
		comment += "\t" + signature.Expires + o.Expires
	}
	if o.Comment != "" {
		isExpiry := func(word string) bool { return strings.HasPrefix(word, signature.Expires) }
		if slices.ContainsFunc(strings.Fields(o.Comment), isExpiry) { // Options.Expires is checked
			return nil, fmt.Errorf("the comment has %q: use --expires", signature.Expires)
		}
		comment += "\t" + o.Comment
	}
	if strings.ContainsFunc(strings.ReplaceAll(comment, "\t", ""), unicode.IsControl) || len(comment) > 8000 {
		return nil, errors.New("the comment is too long or has control characters")
	}
	sig, err := k.sign(signature.BLAKE2b(object, 64))
	if err != nil {
		return nil, err
	}
	global, err := k.sign(append(bytes.Clone(sig), comment...))
	if err != nil {
		return nil, err
	}
	first := base64.StdEncoding.EncodeToString(append(append([]byte("ED"), k.id[:]...), sig...))
	return fmt.Appendf(nil, "%ssignature from btc sign\n%s\n%s%s\n%s\n", signature.Untrusted, first, signature.Trusted, comment,
		base64.StdEncoding.EncodeToString(global)), nil
}

func (k *Key) signSSH(object []byte) ([]byte, error) {
	const hash = "sha512"
	sig, err := k.sign(signature.SSHMessage(hash, object))
	if err != nil {
		return nil, err
	}
	encoded := func(value []byte) string {
		return string(signature.AppendStrings(nil, signature.SSHEd25519, string(value)))
	}
	blob := binary.BigEndian.AppendUint32([]byte(signature.SSHMagic), 1)
	blob = signature.AppendStrings(blob, encoded(k.public), signature.Namespace, "", hash, encoded(sig))
	out := []byte(signature.ArmorBegin)
	for text := base64.StdEncoding.EncodeToString(blob); text != ""; {
		n := min(len(text), 70)
		out = append(append(out, text[:n]...), '\n')
		text = text[n:]
	}
	return append(out, signature.ArmorEnd+"\n"...), nil
}

// Trusted returns the key as a file of trusted keys has it: the public key of minisign, or a line of allowed_signers for
// everyone.
func (k *Key) Trusted() string {
	if k.Extension == ".sig" {
		blob := signature.AppendStrings(nil, signature.SSHEd25519, string(k.public))
		return "* " + signature.SSHEd25519 + " " + base64.StdEncoding.EncodeToString(blob)
	}
	return base64.StdEncoding.EncodeToString(append(append([]byte("Ed"), k.id[:]...), k.public...))
}
