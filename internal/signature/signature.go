// SPDX-License-Identifier: Apache-2.0

// Package signature verifies signatures of objects: those of minisign, and those of OpenSSH (SSHSIG) with ed25519 keys.
//
// It takes the bytes of the object, of the signature files beside it, and of the files with trusted keys, and returns
// who signed the object, or an *Error with the reason why the object is refused. All of them are hostile input, and have
// bounds. It reads no files, and knows no private keys: cmd/btc/sign makes signatures.
package signature

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of files. minisign's own bounds of its comments are 1024 and 8192 bytes.
const (
	MaxBytes     = 16 << 10 // of a signature
	MaxKeysBytes = 1 << 20  // of a file with keys
)

// Extensions are the ends of the names of signature files, next to the object: x.o.minisig and x.o.sig. Which form a file has is
// decided by its content.
var Extensions = []string{".minisig", ".sig"}

// Namespace is the namespace of OpenSSH signatures of objects (ssh-keygen -n).
const Namespace = "btc"

// Reason is why an object is refused.
type Reason string

// The reasons.
const (
	Unsigned    Reason = "unsigned"      // no signature, or none by a key of one of the demands
	Altered     Reason = "altered"       // of the object, or of the signature, or the signature is of another object
	Unknown     Reason = "unknown"       // the key is not a trusted one
	Expired     Reason = "expired"       // the key, or the signature
	NotYetValid Reason = "not yet valid" // the key
	Malformed   Reason = "malformed"     // the signature file has errors, or is too large
	Unsupported Reason = "unsupported"   // another kind of key, hash or namespace
	Uncovered   Reason = "uncovered"     // the manifest is a file of its own
)

// Error is an error about a signature.
type Error struct {
	Reason Reason
	Path   string // of the signature file; for Unsigned and Uncovered, of the object
	Key    string // Signer.Key of the signature, if it is known
	Text   string
}

func (e *Error) Error() string { return e.Path + ": " + e.Text }

// File is a signature file that has been read, or why that failed.
type File struct {
	Path string
	Text []byte
	Err  error
}

// Signer is whose key made a signature.
type Signer struct {
	Path    string // of the signature file
	Key     string // "minisign:" and the key ID, or the fingerprint of the SSH key: SHA256:...
	Name    string // principals of the SSH key; else ""
	Comment string // minisign's trusted comment; else ""
	Expires time.Time
}

// String returns the name and the key.
func (s *Signer) String() string {
	if s.Name != "" {
		return s.Name + " (" + s.Key + ")"
	}
	return s.Key
}

// Signature is a parsed signature file.
type Signature struct {
	id      string // as in Key
	hash    string // "": the signature is over the object itself
	sig     []byte // 64 bytes
	comment string // minisign: trusted comment
	global  []byte // minisign: signature of sig and comment
	expires time.Time
}

// Key returns the name of the key as in Signer.Key. An altered signature may name any key.
func (s *Signature) Key() string { return keyName(s.id) }

func keyName(id string) string {
	if isSSH(id) {
		sum := sha256.Sum256(AppendStrings(nil, SSHEd25519, id))
		return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
	}
	return fmt.Sprintf("minisign:%016X", binary.LittleEndian.Uint64([]byte(id)))
}

// isSSH reports whether the ID of a key is that of an SSH key.
func isSSH(id string) bool { return len(id) == publicSize }

// Verify verifies all signature files of an object, each of which must be valid and made by a key of one of the demands, and each
// demand must have a signature. It returns the signers.
func Verify(object string, data []byte, files []File, demands [][]Key, now time.Time) ([]Signer, error) {
	if len(files) == 0 {
		return nil, &Error{Reason: Unsigned, Path: object, Text: "not signed"}
	}
	var signers []Signer
	met := make([]bool, len(demands))
	for i := range files {
		signer, err := files[i].verify(object, data, demands, met, now)
		if err != nil {
			err.Path = files[i].Path
			return nil, err
		}
		signers = append(signers, *signer)
	}
	if slices.Contains(met, false) {
		return nil, &Error{
			Reason: Unsigned, Path: object, Key: signers[0].Key,
			Text: "not signed by everyone who must: " + signers[0].String() + " alone is not sufficient",
		}
	}
	return signers, nil
}

// verify verifies one signature, and marks the demands that it meets.
func (f *File) verify(object string, data []byte, demands [][]Key, met []bool, now time.Time) (signer *Signer, err *Error) {
	if f.Err != nil {
		return nil, &Error{Reason: Malformed, Text: f.Err.Error()}
	}
	s, err := Parse(f.Text)
	if err != nil {
		return nil, err
	}
	name := s.Key()
	err = &Error{Reason: Unknown, Text: "signed by an unknown signer: " + name + " is not a trusted key"}
	for d, keys := range demands {
		for i := range keys {
			k := &keys[i]
			if k.id != s.id {
				continue
			}
			e := s.verify(object, data, k)
			if e == nil {
				e = k.valid(s, now)
			}
			if e != nil {
				err = e // unless another key has the same ID
				continue
			}
			met[d], signer = true, &Signer{f.Path, name, k.Principals, s.comment, s.expires}
		}
	}
	if signer != nil {
		return signer, nil
	}
	err.Key = name
	return nil, err
}

// verify verifies that a key made the signature for an object.
func (s *Signature) verify(object string, data []byte, k *Key) *Error {
	message := data
	switch {
	case isSSH(s.id):
		message = SSHMessage(s.hash, data)
	case s.hash != "":
		message = BLAKE2b(data, 64)
	}
	good := verifyEd25519(k.public, message, s.sig)
	intact := isSSH(s.id) || verifyEd25519(k.public, append(bytes.Clone(s.sig), s.comment...), s.global)
	text := "not a signature of this object: " + object + " was altered after it was signed, the signature was altered, or it is of another object"
	switch {
	case good && intact:
		return nil
	case good:
		text = "its trusted comment was altered"
	case intact && !isSSH(s.id): // the file is as minisign wrote it
		text = "a signature of another object, or " + object + " was altered after it was signed"
		if s.comment != "" {
			text += "; its comment is: " + s.comment
		}
	}
	return &Error{Reason: Altered, Text: text}
}

// Parse parses a signature file. The error has no path.
func Parse(text []byte) (*Signature, *Error) {
	all := strings.ReplaceAll(string(text[:min(len(text), MaxBytes)]), "\r\n", "\n")
	switch {
	case len(text) > MaxBytes:
		return nil, malformed("too large")
	case strings.HasPrefix(all, Untrusted):
		return parseMinisign(all)
	case strings.HasPrefix(all, ArmorBegin):
		return parseSSH(all)
	}
	return nil, malformed("neither a signature of minisign nor one of ssh-keygen -Y sign")
}

func malformed(text string) *Error {
	return &Error{Reason: Malformed, Text: "malformed signature: " + text}
}

func unsupported(what, found, expected string) *Error {
	return &Error{Reason: Unsupported, Text: fmt.Sprintf("unsupported %s %.64q: expected %s", what, found, expected)}
}

// Parts of signatures of minisign: what is before the comments.
const (
	Untrusted = "untrusted comment: "
	Trusted   = "trusted comment: "
)

// parseMinisign parses four lines: a comment, the signature, the trusted comment and the signature of these two.
func parseMinisign(text string) (*Signature, *Error) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) != 4 {
		return nil, malformed("expected 4 lines")
	}
	first, global := decode(lines[1], 2+8+signatureSize), decode(lines[3], signatureSize)
	comment, is := strings.CutPrefix(lines[2], Trusted)
	if first == nil || global == nil || !is {
		return nil, malformed("expected a comment, a signature, a trusted comment and another signature")
	}
	s := &Signature{id: string(first[2:10]), sig: first[10:], comment: comment, global: global}
	switch algorithm := string(first[:2]); algorithm {
	case "Ed":
	case "ED":
		s.hash = "blake2b"
	default:
		return nil, unsupported("algorithm", algorithm, "ED or Ed")
	}
	for word := range strings.FieldsSeq(s.comment) {
		if text, is := strings.CutPrefix(word, Expires); is {
			at, err := ParseTime(text)
			if err != nil {
				return nil, malformed(err.Error())
			}
			if s.expires.IsZero() || at.Before(s.expires) {
				s.expires = at
			}
		}
	}
	return s, nil
}

// Expires is before the time in a word of minisign's trusted comment from which on the signature is not valid.
const Expires = "expires:"

// ParseTime parses the time of an expiry: seconds since 1970 (at least 10 digits, so that they are not taken for a date), a date, which
// means its begin in UTC, or a time in UTC such as 2030-12-31T12:00:00Z.
func ParseTime(text string) (time.Time, error) {
	if n, err := strconv.ParseUint(text, 10, 40); err == nil && len(text) >= 10 {
		return time.Unix(int64(n), 0).UTC(), nil
	}
	digits := strings.Map(func(c rune) rune {
		if c < '0' || c > '9' {
			return -1
		}
		return c
	}, text)
	if at := timeOf(digits, time.UTC); !at.IsZero() && (text == at.Format(time.DateOnly) || text == at.Format(time.RFC3339)) {
		return at, nil
	}
	return time.Time{}, notTime(text, "2030-12-31, 2030-12-31T12:00:00Z or seconds since 1970")
}

func notTime(text, expected string) error {
	return fmt.Errorf("%.80q is not a time: expected %s", text, expected)
}

// timeOf parses YYYYMMDD, with HHMM and SS; it returns the zero time if they are not a time. time.Parse is 13 KB in btrun.
func timeOf(digits string, zone *time.Location) (at time.Time) {
	switch len(digits) {
	case 8, 12, 14:
		digits = (digits + "000000")[:14]
		n, _ := strconv.Atoi(digits)
		at = time.Date(n/1e10, time.Month(n/1e8%100), n/1e6%100, n/1e4%100, n/100%100, n%100, 0, zone)
		if at.Format("20060102150405") != digits { // such as February 30, or not a number
			at = time.Time{}
		}
	}
	return at
}

// decode decodes base64 of n bytes; nil: text is something else.
func decode(text string, n int) []byte {
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != n || strings.ContainsAny(text, "\r\n") {
		return nil
	}
	return b
}

// Parts of signatures of OpenSSH. ArmorEnd is the last line.
const (
	ArmorEnd   = "-----END SSH SIGNATURE-----"
	ArmorBegin = "-----BEGIN SSH SIGNATURE-----\n"
	SSHMagic   = "SSHSIG"
	SSHEd25519 = "ssh-ed25519"
)

// parseSSH parses the armored signature of OpenSSH's PROTOCOL.sshsig.
func parseSSH(text string) (*Signature, *Error) {
	body, isWhole := strings.CutSuffix(strings.TrimSuffix(text[len(ArmorBegin):], "\n"), "\n"+ArmorEnd)
	blob, err := base64.StdEncoding.Strict().DecodeString(body)
	if err != nil || !isWhole || strings.Contains(body, "\r") {
		return nil, malformed("expected base64 between two lines")
	}
	r := reader{blob}
	magic, version := string(r.bytes(len(SSHMagic))), r.uint32()
	key, namespace, reserved, hash, sig := r.string(), r.string(), r.string(), r.string(), r.string()
	kind, public := ed25519Of(key)
	sigKind, inner := ed25519Of(sig)
	switch {
	case magic != SSHMagic || version != 1 || r.b == nil || len(r.b) > 0 || reserved != "":
		return nil, malformed("damaged, or of another version")
	case kind != SSHEd25519:
		return nil, unsupported("type of key", kind, SSHEd25519)
	case len(public) != publicSize || sigKind != SSHEd25519 || len(inner) != signatureSize:
		return nil, malformed("damaged")
	case namespace != Namespace:
		return nil, unsupported("namespace", namespace, Namespace+", as in ssh-keygen -Y sign -n "+Namespace)
	case hash != "sha512" && hash != "sha256":
		return nil, unsupported("hash", hash, "sha512 or sha256")
	}
	return &Signature{id: public, hash: hash, sig: []byte(inner)}, nil
}

// ed25519Of returns the type in an SSH key or signature and, if it is ssh-ed25519, the value.
func ed25519Of(blob string) (kind, value string) {
	r := reader{[]byte(blob)}
	kind, value = r.string(), r.string()
	if kind != SSHEd25519 || r.b == nil || len(r.b) > 0 {
		value = ""
	}
	return kind, value
}

// SSHMessage returns what is signed for an object.
func SSHMessage(hash string, data []byte) []byte {
	sum := sha512.Sum512(data)
	signed := string(sum[:])
	if hash == "sha256" {
		sum := sha256.Sum256(data)
		signed = string(sum[:])
	}
	return AppendStrings([]byte(SSHMagic), Namespace, "", hash, signed)
}

// AppendStrings appends strings in the encoding of RFC 4251.
func AppendStrings(b []byte, all ...string) []byte {
	for _, s := range all {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
	}
	return b
}

// reader reads the encoding of RFC 4251. b is the rest; nil: the data ended too early.
type reader struct{ b []byte }

func (r *reader) bytes(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.b = nil
		return nil
	}
	x := r.b[:n]
	r.b = r.b[n:]
	return x
}

func (r *reader) uint32() uint32 {
	if x := r.bytes(4); x != nil {
		return binary.BigEndian.Uint32(x)
	}
	return 0
}

func (r *reader) string() string { return string(r.bytes(int(r.uint32()))) }
