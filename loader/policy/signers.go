// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"strings"

	"btc/internal/signature"
	"btc/loader/object"
	"btc/loader/permit"
)

// trust adds the keys of an entry of "signers": a file that only root can change, or a key itself.
func (p *Policy) trust(entry string) error {
	text, path := entry, ""
	if strings.HasPrefix(entry, "/") {
		path = entry + ":"
		real, err := trusted(entry)
		if err != nil {
			return err
		}
		data, err := read(real)
		if err != nil {
			return err
		}
		text = string(data)
	} else if strings.Contains(entry, "\n") {
		return errors.New("expected one key, or the absolute path of a file with keys")
	}
	keys, err := signature.ParseKeys(text)
	if err != nil {
		if path == "" {
			_, reason, _ := strings.Cut(err.Error(), ": ")
			return errors.New(reason + ", or the absolute path of a file with keys")
		}
		return fmt.Errorf("%s%w", path, err)
	}
	p.signers = append(p.signers, keys...)
	return nil
}

// Signed reports whether the policy demands that an object is signed.
func (p *Policy) Signed() bool { return p != nil && p.signers != nil }

// Verify verifies the signatures of an object if the policy demands one, or the caller: by one of keys, unless they are nil. It
// returns the signers.
func (p *Policy) Verify(o *object.Object, keys []signature.Key) ([]signature.Signer, error) {
	var demands [][]signature.Key
	if keys != nil {
		demands = append(demands, keys)
	}
	if p.Signed() {
		demands = append(demands, p.signers)
	}
	if demands == nil {
		return nil, nil
	}
	signers, err := o.Verify(demands)
	if err != nil && p.Signed() {
		err = fmt.Errorf("%w (%s demands a signature)", err, p.At("signers"))
	}
	return signers, err
}

// Signatures describes the signature files of an object, each verified by itself if there are keys: of the policy, or of the
// caller.
func (p *Policy) Signatures(o *object.Object, keys []signature.Key) (all []permit.SignatureText) {
	demanded := keys != nil
	if p.Signed() {
		keys, demanded = append(p.signers[:len(p.signers):len(p.signers)], keys...), true
	}
	for _, f := range o.Signatures() {
		x := permit.SignatureText{File: f.Path, State: "not verified"}
		if s, err := signature.Parse(f.Text); f.Err == nil && err == nil {
			x.Key = s.Key()
		}
		if demanded {
			signers, err := o.VerifyOne(f, keys)
			if err != nil {
				x.State = err.Error()
			} else {
				x.Name, x.Comment, x.State = signers[0].Name, signers[0].Comment, "verified"
			}
		}
		all = append(all, x)
	}
	return all
}
