// SPDX-License-Identifier: Apache-2.0

package targetfile

import "github.com/klauspost/compress/zstd"

// WriteZstd is like Write, but compresses with zstd, for the targets embedded in the compiler.
// Every run reads them and looks up a few names, so blocks are small and have no dictionary: with
// large blocks and dictionaries the file would be 1.6 MB instead of 1.8, and the lookups of a
// one-line script would take three times as long. The bytes also depend on the version of the zstd
// library.
func WriteZstd(d *Data) ([]byte, error) { return write(d, zstdWriter()) }

func zstdWriter() *writer {
	return &writer{codec: codecZstd, block: zstdBlockSize, packer: func([]byte) (pack, error) {
		z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1),
			zstd.WithEncoderCRC(true), zstd.WithSingleSegment(true))
		if err != nil {
			return nil, err
		}
		return func(chunk []byte) []byte { return z.EncodeAll(chunk, nil) }, nil
	}}
}
