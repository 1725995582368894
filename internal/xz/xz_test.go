// SPDX-License-Identifier: Apache-2.0

package xz

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"
)

// compressed runs xz.
func compressed(t testing.TB, data []byte, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("xz", append([]string{"-c", "-T1"}, args...)...)
	cmd.Stdin = bytes.NewReader(data)
	out, err := cmd.Output()
	if err != nil {
		t.Skip("skipped: cannot run xz: ", err)
	}
	return out
}

// hello is "hello, hello, hello\n" by xz.
var hello = []byte("\xfd7zXZ\x00\x00\x01i\x22\xde6\x02\x00!\x01\x16\x00\x00\x00t/\xe5\xa3\xe0\x00\x13\x00\x0e]\x004\x19I\xee\x8d\xef\x8c\x871\xf5/d\x00\x00\x00\x00\x00\xe7BnR\x00\x01&\x14r\xe2\x82\xf9\x90B\x99\x0d\x01\x00\x00\x00\x00\x01YZ")

// TestDecompress checks that what xz has compressed, in several ways, is what it was, and that a limit is kept.
func TestDecompress(t *testing.T) {
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		self = bytes.Repeat([]byte("some text that is repeated, "), 1<<14)
	}
	self = self[:min(len(self), 300_000)]
	noise := make([]byte, 300_000)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	for name, data := range map[string][]byte{"empty": {}, "one": {7}, "program": self, "noise": noise, "both": append(noise[:100_000:100_000], self[:100_000]...)} {
		for _, args := range [][]string{{"-6"}, {"-9e"}, {"-0", "-C", "none"}, {"--block-size=200000", "-C", "sha256"}, {"--lzma2=lc=0,lp=4,pb=0"}, {"--lzma2=lc=4,lp=0,pb=4,dict=4096"}} {
			packed := compressed(t, data, args...)
			out, err := Decompress(packed, len(data))
			if err != nil || !bytes.Equal(out, data) {
				t.Errorf("%s, %v: %d bytes of %d, %v", name, args, len(out), len(data), err)
			}
			if _, err := Decompress(packed, len(data)-1); err != ErrTooLarge && len(data) > 0 {
				t.Errorf("%s, %v: error %v", name, args, err)
			}
		}
	}
	if _, err := Decompress(compressed(t, self, "--x86", "--lzma2"), 1<<30); err != ErrFormat {
		t.Errorf("another filter: %v", err)
	}
	if out, err := Decompress(hello, 20); string(out) != "hello, hello, hello\n" {
		t.Errorf("%q, %v", out, err)
	}
	packed := compressed(t, self[:4096])
	for i := range packed {
		Decompress(packed[:i], 1<<20)
	}
}

// FuzzDecompress decompresses any bytes: the result is not longer than the limit.
func FuzzDecompress(f *testing.F) {
	f.Add(hello)
	f.Fuzz(func(t *testing.T, data []byte) {
		if out, err := Decompress(data, 1<<16); len(out) > 1<<16 || err != nil && out != nil {
			t.Errorf("%d bytes, %v", len(out), err)
		}
	})
}

// TestResets checks that the time is bounded by the size if each chunk of a byte sets all probabilities.
func TestResets(t *testing.T) {
	data := append([]byte(headerMagic), 0, 1, 0, 0, 0, 0, 2, 0, 0x21, 1, 0, 0, 0, 0, 0, 0, 0, 0)
	control := byte(0xe0)
	for range 1 << 19 {
		data = append(data, control, 0, 0, 0, 5, 4, 0, 0, 0, 0, 0, 0)
		control = 0xc0
	}
	begin := time.Now()
	if _, err := Decompress(data, 32<<20); err != ErrFormat {
		t.Error(err)
	}
	if took := time.Since(begin); took > 5*time.Second { // 0.2 s; 14 s with all of them
		t.Errorf("it took %s", took)
	}
}
