// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"os"
	"testing"
)

// TestAuthenticatedAddress checks that the pointer authentication code of an address is not a part of
// it: with 48 bits and with 52, and that addresses of the kernel stay as they are.
func TestAuthenticatedAddress(t *testing.T) {
	defer func(old []int) { pacBits = old }(pacBits)
	pid := uint32(os.Getpid())
	maps, _ := readMaps(pid)
	if len(maps) == 0 {
		t.Skip("skipped: no /proc/self/maps")
	}
	tab := New(false)
	defer tab.Close()
	at := maps[0].start
	for _, addr := range []uint64{at, at | 0x7f<<48, at | 0x27<<52 | 5<<48, at | 0xff7f<<48&^(1<<55)} {
		pacBits = []int{52, 48}
		if m, plain := tab.findPlain(addr, pid, nil); m == nil || plain != at {
			t.Errorf("%#x: mapping %v, address %#x, want %#x", addr, m, plain, at)
		}
		pacBits = nil
		if m, _ := tab.findPlain(addr, pid, nil); (m != nil) != (addr == at) {
			t.Errorf("%#x without authentication codes: mapping %v", addr, m)
		}
	}
	pacBits = []int{52, 48}
	if m, plain := tab.findPlain(at|1<<55, pid, nil); m != nil || plain != at|1<<55 {
		t.Errorf("address of the kernel: mapping %v, address %#x", m, plain)
	}
}
