// SPDX-License-Identifier: Apache-2.0

package object

import (
	"bufio"
	"errors"
	"io/fs"
	"strings"
	"time"

	"btc/internal/safefile"
	"btc/internal/signature"
)

// readSignatures reads the signature files next to the object at path.
func readSignatures(path string) (all []signature.File) {
	for _, ext := range signature.Extensions {
		f := signature.File{Path: path + ext}
		f.Text, f.Err = safefile.Read(f.Path, signature.MaxBytes)
		if errors.Is(f.Err, fs.ErrNotExist) {
			continue
		}
		var failed *fs.PathError
		if errors.As(f.Err, &failed) {
			f.Err = failed.Err // File.Path names the file
		}
		all = append(all, f)
	}
	return all
}

// maxSignatures bounds the number of signatures in a stream.
const maxSignatures = 4

// streamSignature reads a signature from a stream, up to its last line.
func streamSignature(r *bufio.Reader) (f signature.File, err error) {
	lines := 0
	for end := false; !end; {
		c, err := r.ReadByte()
		if err != nil {
			return f, ended(err, "within a signature")
		}
		if f.Text = append(f.Text, c); len(f.Text) > signature.MaxBytes {
			return f, errors.New("a signature that is too large")
		}
		if c == '\n' {
			lines++
		}
		if f.Text[0] == '-' {
			end = strings.HasSuffix(string(f.Text[max(0, len(f.Text)-40):]), signature.ArmorEnd)
		} else {
			end = lines == 4
		}
	}
	f.Path = "the signature of " + StreamName
	return f, nil
}

// Signatures returns the signature files of the object.
func (o *Object) Signatures() []signature.File {
	if o.files == nil {
		return nil
	}
	return o.files.Signatures
}

// Verify verifies the signatures of the object, of which each of the demands needs one. The bytes that are verified are
// those that were parsed.
func (o *Object) Verify(demands [][]signature.Key) ([]signature.Signer, error) {
	return o.verify(o.Signatures(), demands)
}

// VerifyOne verifies one of Signatures.
func (o *Object) VerifyOne(s signature.File, keys []signature.Key) ([]signature.Signer, error) {
	return o.verify([]signature.File{s}, [][]signature.Key{keys})
}

func (o *Object) verify(all []signature.File, demands [][]signature.Key) ([]signature.Signer, error) {
	f := o.files
	if f == nil {
		f = &Files{Path: o.Path}
	}
	if len(f.Data) > 0 && !f.Joined() {
		return nil, &signature.Error{
			Reason: signature.Uncovered, Path: f.Path,
			Text: "its manifest is a file of its own, which a signature of the object does not cover: compile it again, so that the object contains it",
		}
	}
	signers, err := signature.Verify(f.Path, f.Data, all, demands, time.Now())
	var e *signature.Error
	if len(all) == 0 && f.unsigned != "" && errors.As(err, &e) {
		e.Text += ": " + f.unsigned
	}
	return signers, err
}
