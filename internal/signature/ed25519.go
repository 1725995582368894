// SPDX-License-Identifier: Apache-2.0

package signature

import (
	"bytes"
	"crypto/sha512"
	"encoding/binary"
	"math/bits"
	"slices"

	"filippo.io/edwards25519"
)

// Sizes of Ed25519, in bytes.
const (
	publicSize    = 32
	signatureSize = 64
)

// verifyEd25519 verifies a signature, and accepts what crypto/ed25519.Verify does (RFC 8032, 5.1.7). The points are those of
// edwards25519, the package that crypto/ed25519 was made from. With crypto/ed25519 btrun would be 38 KB larger: its self-test
// contains signing, with a table of 30 KB. edwards25519's scalars and tables, which are for secret keys and for speed, would
// be 20 KB.
func verifyEd25519(public, message, sig []byte) bool {
	a, err := new(edwards25519.Point).SetBytes(public)
	if err != nil || len(sig) != signatureSize {
		return false
	}
	s := reduce(sig[32:])
	if !bytes.Equal(s[:], sig[32:]) { // S must be below the order
		return false
	}
	sum := sha512.Sum512(slices.Concat(sig[:32], public, message))
	k := reduce(sum[:])
	// R is [S]B - [k]A. Its bytes are compared, so that no other encoding of R passes.
	a.Negate(a)
	b := edwards25519.NewGeneratorPoint()
	terms := [4]*edwards25519.Point{1: a, 2: b, 3: new(edwards25519.Point).Add(a, b)}
	r := edwards25519.NewIdentityPoint()
	for i := 255; i >= 0; i-- {
		r.Add(r, r)
		if t := terms[k[i/8]>>(i%8)&1|s[i/8]>>(i%8)&1<<1]; t != nil {
			r.Add(r, t)
		}
	}
	return bytes.Equal(sig[:32], r.Bytes())
}

// order is the order of the base point, 2^252 + 27742317777372353535851937790883648493, from its lowest 64 bits.
var order = [4]uint64{0x5812631a5cf5d3ed, 0x14def9dea2f79cd6, 0, 1 << 60}

// reduce returns a little-endian number modulo the order: it is shifted in bit by bit. Nothing here is secret.
func reduce(number []byte) (out [32]byte) {
	var r [4]uint64
	for i := 8*len(number) - 1; i >= 0; i-- {
		carry := uint64(number[i/8]>>(i%8)) & 1
		for j, x := range r { // below 2^253, so that nothing is lost
			r[j], carry = x<<1|carry, x>>63
		}
		var less [4]uint64
		borrow := uint64(0)
		for j := range r {
			less[j], borrow = bits.Sub64(r[j], order[j], borrow)
		}
		if borrow == 0 {
			r = less
		}
	}
	for i, x := range r {
		binary.LittleEndian.PutUint64(out[8*i:], x)
	}
	return out
}
