// SPDX-License-Identifier: Apache-2.0

package object

import (
	"bufio"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"

	"btc/internal/manifest"
	"btc/internal/objfile"
	"btc/internal/signature"
)

// StreamName is the path of an object that was read from a stream.
const StreamName = "standard input"

// ReadStream reads an object from a stream: its signatures, if it has any, and the object. It stops after the last byte of an
// object that contains its manifest: the section headers are last, and the ELF header says where. An object without one has the
// manifest before or after it, with nothing but spaces and newlines between them; the manifest ends with the brace that closes
// it. If both exist, a manifest before the object must be the same, and one after it is not read. Each part is bounded like a
// file.
func ReadStream(r *bufio.Reader) (*Files, error) {
	f, err := readStream(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", StreamName, err)
	}
	return f, nil
}

// FromStream returns the files of an object with the form that it has in a stream: the object of a bundle, with the
// signatures before it. Messages name it like an object at path.
func FromStream(path string, text []byte) (*Files, error) {
	f, err := readStream(bufio.NewReader(bytes.NewReader(text)))
	if err != nil {
		return nil, &InvalidError{path, err}
	}
	f.Path, f.unsigned = path, "sign the object, then bundle it"
	for i := range f.Signatures {
		f.Signatures[i].Path = "the signature of " + path
	}
	return f, nil
}

// Stream returns the files in the form that ReadStream reads. Each signature must be one: a file of another program that is
// beside the object, such as x.o.sig of GnuPG, would be taken for the object. An object that contains its manifest has
// at most MaxBytes with its signatures, which is the bound of a bundle.
func (f *Files) Stream() ([]byte, error) {
	var all []byte
	for i, s := range f.Signatures {
		if s.Err != nil {
			return nil, fmt.Errorf("%s: %w", s.Path, s.Err)
		}
		if _, err := signature.Parse(s.Text); err != nil {
			err.Path = s.Path
			return nil, err
		}
		if i == maxSignatures {
			return nil, fmt.Errorf("%s: more than %d signatures", f.Path, maxSignatures)
		}
		all = append(append(all, s.Text...), '\n')
	}
	if all = append(all, f.Data...); len(all) > MaxBytes {
		return nil, fmt.Errorf("%s: larger than %d bytes with its signatures", f.Path, MaxBytes)
	}
	if !f.Joined() {
		all = append(all, f.Manifest...)
	}
	return all, nil
}

func readStream(r *bufio.Reader) (*Files, error) {
	f := &Files{Path: StreamName, manifestPath: "the manifest before it", unsigned: "send its signature before it"}
	first, err := nextByte(r)
	for err == nil && (first == 'u' || first == '-') && len(f.Signatures) < maxSignatures {
		var s signature.File
		if s, err = streamSignature(r); err != nil {
			return nil, err
		}
		f.Signatures = append(f.Signatures, s)
		first, err = nextByte(r)
	}
	if err != nil {
		where := "before anything is read"
		if len(f.Signatures) > 0 {
			where = "after a signature"
		}
		return nil, ended(err, where)
	}
	if first == '{' {
		if f.Manifest, err = readJSON(r); err != nil {
			return nil, err
		}
		f.Manifest = append(f.Manifest, '\n') // as in the file
		if first, err = nextByte(r); err != nil {
			return nil, ended(err, "after the manifest")
		}
	}
	if first != elf.ELFMAG[0] {
		return nil, fmt.Errorf("neither an object nor a manifest: it begins with %q", first)
	}
	if f.Data, err = readELF(r); err != nil || f.Manifest != nil {
		return f, err
	}
	if _, _, err := objfile.Split(f.Data); err != objfile.ErrNone || objfile.Linked(f.Data) {
		return f, nil // Parse reports an error
	}
	f.manifestPath = "the manifest after it"
	if first, err = nextByte(r); err != nil {
		return nil, ended(err, "after an object without a manifest")
	}
	if first != '{' {
		return nil, fmt.Errorf("expected the manifest after an object without one, found %q", first)
	}
	f.Manifest, err = readJSON(r)
	return f, err
}

// ended returns the error of a stream that ends too early.
func ended(err error, where string) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("it ends %s: send an object, as in cat x.o | btrun -", where)
	}
	return err
}

// nextByte skips space and returns the byte after it, which stays in the stream.
func nextByte(r *bufio.Reader) (byte, error) {
	for {
		b, err := r.ReadByte()
		if err != nil {
			return 0, err
		}
		switch b {
		case ' ', '\t', '\r', '\n':
		default:
			return b, r.UnreadByte()
		}
	}
}

// readBytes reads n bytes; memory grows with what arrives.
func readBytes(r io.Reader, n int64) ([]byte, error) {
	var b bytes.Buffer
	_, err := io.CopyN(&b, r, n)
	return b.Bytes(), err
}

// readELF reads an ELF file whose length is known only from its header: btc writes the section
// headers last.
func readELF(r *bufio.Reader) ([]byte, error) {
	const headerSize = 64
	head, err := r.Peek(headerSize)
	if err != nil {
		return nil, ended(err, "within the object")
	}
	if string(head[:4]) != elf.ELFMAG || head[elf.EI_CLASS] != byte(elf.ELFCLASS64) {
		return nil, errors.New("not a BPF object")
	}
	size := objfile.Size(head)
	if size == 0 || size > MaxBytes {
		return nil, fmt.Errorf("an object of more than %d bytes, or without sections", MaxBytes)
	}
	data, err := readBytes(r, int64(size))
	if err != nil {
		return nil, ended(err, "within the object")
	}
	return data, nil
}

// readJSON reads one JSON object. It only finds the end of the object; the manifest package checks
// the content.
func readJSON(r *bufio.Reader) ([]byte, error) {
	var b bytes.Buffer
	depth, inString := 0, false
	for {
		c, err := r.ReadByte()
		if err != nil {
			return nil, ended(err, "within the manifest")
		}
		if b.Len() == manifest.MaxBytes {
			return nil, fmt.Errorf("a manifest of more than %d bytes", manifest.MaxBytes)
		}
		b.WriteByte(c)
		switch {
		case inString && c == '\\':
			if c, err = r.ReadByte(); err != nil {
				return nil, ended(err, "within the manifest")
			}
			b.WriteByte(c)
		case c == '"':
			inString = !inString
		case inString:
		case c == '{', c == '[':
			depth++
		case c == '}', c == ']':
			if depth--; depth == 0 {
				return b.Bytes(), nil
			}
		}
	}
}
