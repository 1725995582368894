// SPDX-License-Identifier: Apache-2.0

package signature

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Key is a trusted public key.
type Key struct {
	id         string // minisign: the 8 bytes of the key ID; SSH: the key itself
	public     []byte
	Principals string // SSH: the patterns of names as in the file

	// Limits of SSH keys: a list of patterns, and times (zero: none).
	namespaces    *string // nil: all
	after, before time.Time
}

// String names the key as Signer.Key does.
func (k *Key) String() string { return keyName(k.id) }

// valid returns why a signature that the key has made is not accepted.
func (k *Key) valid(s *Signature, now time.Time) *Error {
	reason, text, at := Expired, "", s.expires
	switch {
	case k.namespaces != nil && !matchList(*k.namespaces, Namespace):
		return &Error{Reason: Unknown, Text: "the key may not sign objects: its namespaces do not include " + Namespace}
	case !at.IsZero() && !now.Before(at):
		text = "the signature expired on "
	case !k.before.IsZero() && now.After(k.before):
		text, at = "the key expired on ", k.before
	case now.Before(k.after):
		reason, text, at = NotYetValid, "the key is valid only from ", k.after
	default:
		return nil
	}
	return &Error{Reason: reason, Text: text + at.Format(time.RFC3339)}
}

// ParseKeys parses trusted keys: minisign's public keys, each with or without its comment line, and lines of OpenSSH's
// allowed_signers (ssh-keygen(1)). There must be at least one. Errors begin with the line: "3: ...".
func ParseKeys(text string) ([]Key, error) {
	if len(text) > MaxKeysBytes {
		return nil, errors.New("1: too large")
	}
	var keys []Key
	none := errors.New("1: no public keys")
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || strings.HasPrefix(line, Untrusted) && !strings.Contains(line, "secret key") {
			continue
		}
		k, kind, err := parseKey(line)
		if kind != "" {
			err = fmt.Errorf("unsupported type of key %.64q: expected %s", kind, SSHEd25519)
		}
		if err != nil {
			err = fmt.Errorf("%d: %w", i+1, err)
		}
		switch {
		case err == nil:
			keys = append(keys, *k)
		case kind == "":
			return nil, err
		default: // other lines of the file may be of use
			none = err
		}
	}
	if len(keys) == 0 {
		return nil, none
	}
	return keys, nil
}

// parseKey parses the line of a key; kind is the type of one that is not supported. A line of allowed_signers is
// PRINCIPALS [OPTIONS] TYPE KEY [COMMENT].
func parseKey(line string) (k *Key, kind string, err error) {
	word, rest := cutWord(line)
	if b := decode(word, 2+8+publicSize); b != nil && string(b[:2]) == "Ed" && rest == "" {
		return &Key{id: string(b[2:10]), public: b[10:]}, "", nil
	}
	k = &Key{Principals: strings.Trim(word, `"`)}
	options, isNamed := "", false
	for p := range strings.SplitSeq(k.Principals, ",") {
		isNamed = isNamed || p != "" && p[0] != '!'
	}
	if kind, rest = cutWord(rest); !isKeyType(kind) {
		options = kind
		kind, rest = cutWord(rest)
	}
	if !isNamed || !isKeyType(kind) {
		return nil, "", fmt.Errorf("%.40q: not a public key of minisign, nor a line of OpenSSH's allowed_signers: NAME [OPTIONS] %s KEY", line, SSHEd25519)
	}
	if err := k.options(options); err != nil {
		return nil, "", err
	}
	if kind != SSHEd25519 {
		return nil, kind, nil
	}
	word, _ = cutWord(rest)
	blob, _ := base64.StdEncoding.Strict().DecodeString(word)
	if _, k.id = ed25519Of(string(blob)); len(k.id) != publicSize {
		return nil, "", errors.New("the key is damaged")
	}
	k.public = []byte(k.id)
	return k, "", nil
}

// cutWord returns the first word, up to a space outside quotes, and what follows it.
func cutWord(line string) (word, rest string) {
	isQuoted := false
	for i := range len(line) {
		switch line[i] {
		case '"':
			isQuoted = !isQuoted
		case ' ', '\t':
			if !isQuoted {
				return line[:i], strings.TrimLeft(line[i:], " \t")
			}
		}
	}
	return line, ""
}

// isKeyType reports whether a word is the name of a type of SSH keys. Names of signers can begin like one.
func isKeyType(word string) bool {
	word = strings.TrimPrefix(word, "sk-")
	return word == "ssh-rsa" || word == "ssh-dss" || strings.HasPrefix(word, SSHEd25519) || strings.HasPrefix(word, "ecdsa-sha2-") ||
		strings.HasSuffix(word, "-cert-v01@openssh.com")
}

// options parses the options of a line: NAME="VALUE",...
func (k *Key) options(text string) error {
	for text != "" {
		name, rest, _ := strings.Cut(text, `="`)
		name = strings.ToLower(name)
		if strings.Contains(name, "cert-authority") {
			return errors.New("cert-authority is not supported: list the keys of the signers")
		}
		value, rest, isClosed := strings.Cut(rest, `"`)
		var to *time.Time
		switch name {
		case "namespaces":
			if k.namespaces == nil {
				k.namespaces = &value
			} else {
				isClosed = false
			}
		case "valid-after":
			to = &k.after
		case "valid-before":
			to = &k.before
		default:
			isClosed = false
		}
		if text = strings.TrimPrefix(rest, ","); !isClosed || len(text) == len(rest) && text != "" || to != nil && !to.IsZero() {
			return fmt.Errorf("option %.80q: expected each at most once: namespaces=\"NAMES\",valid-after=\"TIME\",valid-before=\"TIME\"", name)
		}
		if to != nil {
			digits, isUTC := strings.CutSuffix(value, "Z")
			zone := time.Local
			if isUTC {
				zone = time.UTC
			}
			if *to = timeOf(digits, zone); to.IsZero() {
				return notTime(value, "YYYYMMDD[Z] or YYYYMMDDHHMM[SS][Z]")
			}
		}
	}
	return nil
}

// matchList reports whether a list of patterns as in ssh_config(5) matches a word: one does, and no negated one does.
func matchList(list, word string) bool {
	isMatched := false
	for p := range strings.SplitSeq(list, ",") {
		p, isNegated := strings.CutPrefix(p, "!")
		if glob(p, word) {
			if isNegated {
				return false
			}
			isMatched = true
		}
	}
	return isMatched
}

// glob reports whether a pattern with * and ? matches a word.
func glob(pattern, word string) bool {
	star, from := -1, 0 // the last *, and where the part of the word after it begins
	p, w := 0, 0
	for w < len(word) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, w
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == word[w]):
			p++
			w++
		case star >= 0:
			from++
			p, w = star+1, from
		default:
			return false
		}
	}
	return strings.TrimLeft(pattern[p:], "*") == ""
}
