// SPDX-License-Identifier: Apache-2.0

package object

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"btc/internal/manifest"
)

// StreamName is the path of an object that was read from a stream.
const StreamName = "standard input"

// ReadStream reads an object and its manifest from a stream that has one after the other, in either
// order, without anything between them but spaces and newlines. It stops after the last byte of the
// second: the manifest ends with the brace that closes it, and the object with its section headers,
// or where the manifest says. Each is bounded like a file.
func ReadStream(r *bufio.Reader) (*Files, error) {
	data, text, err := readStream(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", StreamName, err)
	}
	return &Files{Path: StreamName, Data: data, Manifest: text, manifestPath: StreamName}, nil
}

func readStream(r *bufio.Reader) (data, text []byte, err error) {
	if data, text, err = splitStream(r); err != nil || data != nil {
		return data, text, err
	}
	m, err := manifest.Parse(text)
	if err != nil {
		return nil, nil, err
	}
	if m.Object.Size > MaxBytes {
		return nil, nil, fmt.Errorf("the manifest names an object of %d bytes (max %d)", m.Object.Size, MaxBytes)
	}
	if _, err := nextByte(r); err != nil {
		return nil, nil, ended(err, "after the manifest")
	}
	if data, err = readBytes(r, m.Object.Size); err != nil {
		return nil, nil, ended(err, "within the object")
	}
	return data, text, nil
}

// splitStream reads up to the end of the manifest: it returns both, or the manifest alone if it is first.
func splitStream(r *bufio.Reader) (data, text []byte, err error) {
	first, err := nextByte(r)
	switch {
	case err != nil:
		return nil, nil, ended(err, "before anything is read")
	case first == '{':
		text, err = readJSON(r)
		return nil, text, err
	case first != elf.ELFMAG[0]:
		return nil, nil, fmt.Errorf("neither an object nor a manifest: it begins with %q", first)
	}
	if data, err = readELF(r); err != nil {
		return nil, nil, err
	}
	if first, err = nextByte(r); err != nil {
		return nil, nil, ended(err, "after the object")
	}
	if first != '{' {
		return nil, nil, fmt.Errorf("expected the manifest after the object, found %q", first)
	}
	text, err = readJSON(r)
	return data, text, err
}

// ended returns the error of a stream that ends too early.
func ended(err error, where string) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("it ends %s: send an object and its manifest, as in cat x.o x.json | btrun -", where)
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
	order := binary.ByteOrder(binary.LittleEndian)
	if head[elf.EI_DATA] == byte(elf.ELFDATA2MSB) {
		order = binary.BigEndian
	}
	at, count := order.Uint64(head[40:]), uint64(order.Uint16(head[60:]))*uint64(order.Uint16(head[58:]))
	if at > MaxBytes || at+count > MaxBytes || at+count < headerSize {
		return nil, fmt.Errorf("an object of more than %d bytes, or without sections", MaxBytes)
	}
	data, err := readBytes(r, int64(at+count))
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
