// SPDX-License-Identifier: Apache-2.0

// Package bundle is the form of an executable that btc bundle makes: the loader, and after it an object and the
// completions of its parameters.
//
// Append makes one from a loader, Read returns what follows the loader. The loader is not part of that: whoever can change
// it does not need the object. What Read returns is as hostile as any object; it has been bounded and compared with a digest.
package bundle

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
)

// Magic ends an executable with an object. Every loader that runs one contains it.
const Magic = "\x00btc-bundle 1\n\x00\x00"

// magic is a variable so that the compiler cannot split the bytes into instructions: they mark a loader.
var magic = Magic

// Shells are those with completions, in the order in the file.
var Shells = [...]string{"bash", "zsh", "fish"}

// Bounds in bytes.
const (
	maxObject     = 64 << 20
	maxCompletion = 1 << 20
)

// Contents is what follows the loader.
type Contents struct {
	Object      []byte // as in a stream (object.ReadStream): its signatures, and the file that they are of
	Completions [len(Shells)][]byte
}

// The file ends with the sizes of the parts (u64 each), the SHA-256 of the parts and the sizes, and Magic.
const (
	sizesSize   = 8 * int64(1+len(Shells))
	trailerSize = sizesSize + sha256.Size + int64(len(Magic))
)

// Append returns the executable of a loader with c.
func Append(loader []byte, c *Contents) []byte {
	var payload []byte
	var sizes [sizesSize]byte
	for i, part := range append([][]byte{c.Object}, c.Completions[:]...) {
		payload = append(payload, part...)
		binary.LittleEndian.PutUint64(sizes[8*i:], uint64(len(part)))
	}
	payload = append(payload, sizes[:]...)
	sum := sha256.Sum256(payload)
	file := append(bytes.Clone(loader), payload...)
	return append(append(file, sum[:]...), Magic...)
}

// ErrDamaged is the error for an executable whose contents are not as Append wrote them.
var ErrDamaged = errors.New("this executable is damaged: the object in it was changed after btc bundle wrote it")

// Read returns the contents of an executable of size bytes, or nil if it is a loader alone.
func Read(file io.ReaderAt, size int64) (*Contents, error) {
	var trailer [trailerSize]byte
	if size < trailerSize {
		return nil, nil
	}
	if _, err := file.ReadAt(trailer[:], size-trailerSize); err != nil {
		return nil, err
	}
	if string(trailer[len(trailer)-len(Magic):]) != magic {
		return nil, nil
	}
	total := uint64(sizesSize)
	var sizes [1 + len(Shells)]uint64
	for i := range sizes {
		sizes[i] = binary.LittleEndian.Uint64(trailer[8*i:])
		if sizes[i] > maxObject || i > 0 && sizes[i] > maxCompletion {
			return nil, ErrDamaged
		}
		total += sizes[i]
	}
	start := size - (trailerSize - sizesSize) - int64(total)
	if start < 0 {
		return nil, ErrDamaged
	}
	payload := make([]byte, total)
	if _, err := file.ReadAt(payload, start); err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(payload); !bytes.Equal(sum[:], trailer[sizesSize:sizesSize+sha256.Size]) {
		return nil, ErrDamaged
	}
	c := new(Contents)
	for i, n := range sizes {
		part := payload[:n:n]
		payload = payload[n:]
		if i == 0 {
			c.Object = part
		} else {
			c.Completions[i-1] = part
		}
	}
	return c, nil
}
