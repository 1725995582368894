// SPDX-License-Identifier: Apache-2.0

package signature

import (
	"encoding/binary"
	"math/bits"
)

// BLAKE2b returns the BLAKE2b hash of data (RFC 7693) with size bytes, at most 64, without a key. golang.org/x/crypto/blake2b,
// with its assembly, would be 50 KB more in btrun.
func BLAKE2b(data []byte, size int) []byte {
	h := blakeIV
	h[0] ^= 0x01010000 | uint64(size)
	done := uint64(0)
	for len(data) > 128 {
		done += 128
		blakeBlock(&h, data, done, 0)
		data = data[128:]
	}
	var last [128]byte
	done += uint64(copy(last[:], data))
	blakeBlock(&h, last[:], done, ^uint64(0))
	out := make([]byte, 0, 64)
	for _, x := range h {
		out = binary.LittleEndian.AppendUint64(out, x)
	}
	return out[:size]
}

// blakeBlock is the compression function F. done counts the bytes up to the end of the block; last is all ones for the
// last block.
func blakeBlock(h *[8]uint64, block []byte, done, last uint64) {
	var m [16]uint64
	for i := range m {
		m[i] = binary.LittleEndian.Uint64(block[8*i:])
	}
	v0, v1, v2, v3, v4, v5, v6, v7 := h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7]
	v8, v9, v10, v11, v12, v13, v14, v15 := blakeIV[0], blakeIV[1], blakeIV[2], blakeIV[3], blakeIV[4]^done, blakeIV[5], blakeIV[6]^last, blakeIV[7]
	for round := range 12 {
		s := &blakeSigma[round%10]
		v0 += v4 + m[s[0]&15]
		v12 = bits.RotateLeft64(v12^v0, -32)
		v8 += v12
		v4 = bits.RotateLeft64(v4^v8, -24)
		v0 += v4 + m[s[1]&15]
		v12 = bits.RotateLeft64(v12^v0, -16)
		v8 += v12
		v4 = bits.RotateLeft64(v4^v8, -63)
		v1 += v5 + m[s[2]&15]
		v13 = bits.RotateLeft64(v13^v1, -32)
		v9 += v13
		v5 = bits.RotateLeft64(v5^v9, -24)
		v1 += v5 + m[s[3]&15]
		v13 = bits.RotateLeft64(v13^v1, -16)
		v9 += v13
		v5 = bits.RotateLeft64(v5^v9, -63)
		v2 += v6 + m[s[4]&15]
		v14 = bits.RotateLeft64(v14^v2, -32)
		v10 += v14
		v6 = bits.RotateLeft64(v6^v10, -24)
		v2 += v6 + m[s[5]&15]
		v14 = bits.RotateLeft64(v14^v2, -16)
		v10 += v14
		v6 = bits.RotateLeft64(v6^v10, -63)
		v3 += v7 + m[s[6]&15]
		v15 = bits.RotateLeft64(v15^v3, -32)
		v11 += v15
		v7 = bits.RotateLeft64(v7^v11, -24)
		v3 += v7 + m[s[7]&15]
		v15 = bits.RotateLeft64(v15^v3, -16)
		v11 += v15
		v7 = bits.RotateLeft64(v7^v11, -63)
		v0 += v5 + m[s[8]&15]
		v15 = bits.RotateLeft64(v15^v0, -32)
		v10 += v15
		v5 = bits.RotateLeft64(v5^v10, -24)
		v0 += v5 + m[s[9]&15]
		v15 = bits.RotateLeft64(v15^v0, -16)
		v10 += v15
		v5 = bits.RotateLeft64(v5^v10, -63)
		v1 += v6 + m[s[10]&15]
		v12 = bits.RotateLeft64(v12^v1, -32)
		v11 += v12
		v6 = bits.RotateLeft64(v6^v11, -24)
		v1 += v6 + m[s[11]&15]
		v12 = bits.RotateLeft64(v12^v1, -16)
		v11 += v12
		v6 = bits.RotateLeft64(v6^v11, -63)
		v2 += v7 + m[s[12]&15]
		v13 = bits.RotateLeft64(v13^v2, -32)
		v8 += v13
		v7 = bits.RotateLeft64(v7^v8, -24)
		v2 += v7 + m[s[13]&15]
		v13 = bits.RotateLeft64(v13^v2, -16)
		v8 += v13
		v7 = bits.RotateLeft64(v7^v8, -63)
		v3 += v4 + m[s[14]&15]
		v14 = bits.RotateLeft64(v14^v3, -32)
		v9 += v14
		v4 = bits.RotateLeft64(v4^v9, -24)
		v3 += v4 + m[s[15]&15]
		v14 = bits.RotateLeft64(v14^v3, -16)
		v9 += v14
		v4 = bits.RotateLeft64(v4^v9, -63)
	}
	for i, x := range [8]uint64{v0 ^ v8, v1 ^ v9, v2 ^ v10, v3 ^ v11, v4 ^ v12, v5 ^ v13, v6 ^ v14, v7 ^ v15} {
		h[i] ^= x
	}
}

var blakeIV = [8]uint64{
	0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
	0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
}

var blakeSigma = [10][16]byte{
	{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
	{14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
	{11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
	{7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
	{9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
	{2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
	{12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
	{13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
	{6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
	{10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
}
