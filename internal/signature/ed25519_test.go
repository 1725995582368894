// SPDX-License-Identifier: Apache-2.0

package signature

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha512"
	"encoding/hex"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"filippo.io/edwards25519"
)

// reduce computes the remainder by the order.
func TestReduce(t *testing.T) {
	l := new(big.Int).Add(new(big.Int).Lsh(big.NewInt(1), 252), must(new(big.Int).SetString("27742317777372353535851937790883648493", 10)))
	random := rand.New(rand.NewPCG(1, 2))
	check := func(number []byte) {
		t.Helper()
		n := slices.Clone(number)
		slices.Reverse(n)
		want := new(big.Int).Mod(new(big.Int).SetBytes(n), l).FillBytes(make([]byte, 32))
		slices.Reverse(want)
		if got := reduce(number); !bytes.Equal(got[:], want) {
			t.Errorf("%x: %x, not %x", number, got, want)
		}
	}
	for _, d := range []int64{-2, -1, 0, 1, 2} {
		for m := int64(1); m < 16; m++ {
			x := new(big.Int).Add(new(big.Int).Mul(l, big.NewInt(m)), big.NewInt(d)).FillBytes(make([]byte, 64))
			slices.Reverse(x)
			check(x)
			check(x[:32])
		}
	}
	check(bytes.Repeat([]byte{0xff}, 64))
	check(bytes.Repeat([]byte{0xff}, 32))
	for range 1000 {
		x := make([]byte, 64)
		for i := range x {
			x[i] = byte(random.Uint32())
		}
		check(x)
		check(x[:32])
	}
}

func must(x *big.Int, ok bool) *big.Int {
	if !ok {
		panic("not a number")
	}
	return x
}

// The vectors of RFC 8032, section 7.1, are accepted.
func TestVectorsEd25519(t *testing.T) {
	for _, v := range [][3]string{
		{
			"d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
			"e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
		},
		{
			"3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
			"92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
		},
		{
			"fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
			"6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
		},
	} {
		public, message, sig := unhex(t, v[0]), unhex(t, v[1]), unhex(t, v[2])
		if !verifyEd25519(public, message, sig) {
			t.Errorf("%x: not accepted", public)
		}
	}
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// verifyEd25519 decides as crypto/ed25519 does: on good signatures, on each changed bit of one, and on the edge cases of
// Ed25519: S not below the order, keys and R of small order or with other encodings, and keys with a part of small order.
func TestAsStandardLibrary(t *testing.T) {
	same := func(public, message, sig []byte) bool {
		t.Helper()
		want := ed25519.Verify(public, message, sig)
		if got := verifyEd25519(public, message, sig); got != want {
			t.Errorf("key %x, message %x, signature %x: %v, not %v", public, message, sig, got, want)
		}
		return want
	}
	random := rand.New(rand.NewPCG(3, 4))
	seed := make([]byte, ed25519.SeedSize)
	for range 30 {
		for i := range seed {
			seed[i] = byte(random.Uint32())
		}
		private := ed25519.NewKeyFromSeed(seed)
		public, message := private.Public().(ed25519.PublicKey), seed[:random.IntN(32)]
		if !same(public, message, ed25519.Sign(private, message)) {
			t.Fatal("the standard library refuses its own signature")
		}
	}
	private := ed25519.NewKeyFromSeed(seed)
	public, message := slices.Clone(private.Public().(ed25519.PublicKey)), []byte("object")
	sig := ed25519.Sign(private, message)
	for i := range 8 * len(sig) {
		sig[i/8] ^= 1 << (i % 8)
		same(public, message, sig)
		sig[i/8] ^= 1 << (i % 8)
	}
	for i := range 8 * len(public) {
		public[i/8] ^= 1 << (i % 8)
		same(public, message, sig)
		public[i/8] ^= 1 << (i % 8)
	}
	// S + L is another encoding of S.
	for carry, i := 0, 0; i < 32; i++ {
		l := int(byte(order[i/8] >> (i % 8 * 8)))
		carry += int(sig[32+i]) + l
		sig[32+i], carry = byte(carry), carry>>8
	}
	if same(public, message, sig) {
		t.Error("S above the order is accepted")
	}
	for _, n := range []int{0, 31, 63, 65} {
		if verifyEd25519(public, message, make([]byte, n)) {
			t.Errorf("a signature of %d bytes", n)
		}
	}
	// All points of small order, and other encodings of them; most are accepted as keys of some messages.
	accepted := 0
	small := []string{
		"0100000000000000000000000000000000000000000000000000000000000000", "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"0000000000000000000000000000000000000000000000000000000000000080", "0000000000000000000000000000000000000000000000000000000000000000",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a", "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05", "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
		"0100000000000000000000000000000000000000000000000000000000000080", "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
		"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
		"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
	}
	for _, a := range small {
		for _, r := range small {
			for m := range byte(16) {
				if same(unhex(t, a), []byte{m}, append(unhex(t, r), make([]byte, 32)...)) {
					accepted++
				}
			}
		}
	}
	if accepted == 0 {
		t.Error("no edge case is accepted")
	}
	// A key with a part of small order: whether k is reduced decides.
	torsion, _ := new(edwards25519.Point).SetBytes(unhex(t, small[6]))
	h := sha512.Sum512(seed)
	x, _ := new(edwards25519.Scalar).SetBytesWithClamping(h[:32])
	mixed := new(edwards25519.Point).ScalarBaseMult(x)
	key := mixed.Add(mixed, torsion).Bytes()
	accepted = 0
	for m := range byte(64) {
		nonce := edwards25519.NewScalar()
		nonce.SetUniformBytes(append(slices.Repeat([]byte{m}, 63), 1))
		r := new(edwards25519.Point).ScalarBaseMult(nonce).Bytes()
		sum := sha512.Sum512(slices.Concat(r, key, []byte{m}))
		k, _ := edwards25519.NewScalar().SetUniformBytes(sum[:])
		s := edwards25519.NewScalar().MultiplyAdd(k, x, nonce)
		if same(key, []byte{m}, append(r, s.Bytes()...)) {
			accepted++
		}
	}
	if accepted == 0 || accepted == 64 {
		t.Errorf("%d of 64 signatures by a key with a part of small order", accepted)
	}
}
