// SPDX-License-Identifier: Apache-2.0

package run

import (
	"testing"
)

// TestProbedFunc checks that a return probe that cannot know its function sends the number of its
// attach point.
func TestProbedFunc(t *testing.T) {
	s := &names{probes: map[int]string{2: "kretprobe:vfs_read", 3: "uretprobe:/lib/libc.so.6:getaddrinfo", 4: "kprobe:mod:f+4"}}
	for addr, want := range map[uint64]string{1<<63 + 2: "vfs_read", 1<<63 + 3: "getaddrinfo", 1<<63 + 4: "f", 1<<63 + 9: "9"} {
		if got, ok := s.probedFunc(addr); !ok || got != want {
			t.Errorf("probedFunc(%#x) = %q, %t; want %q", addr, got, ok, want)
		}
	}
	for _, addr := range []uint64{0, 5, 0x7fff12345678, 0xffffffff81000000} {
		if got, ok := s.probedFunc(addr); ok {
			t.Errorf("probedFunc(%#x) = %q, want an address", addr, got)
		}
	}
}
