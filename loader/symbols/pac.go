// SPDX-License-Identifier: Apache-2.0

package symbols

import "btc/internal/arch"

// A user-space address of arm64 has at most 52 bits, or 48 on most hosts. The bits above, but bit 55,
// may hold a pointer authentication code: a function signs its return address before it saves it
// (paciasp). The kernel strips the codes of stacks that it unwinds, but not of words that a script reads.
var pacBits = func() []int {
	if a := arch.Host(); a != nil && a.GOARCH == "arm64" {
		return []int{52, 48}
	}
	return nil
}()

// findPlain returns the mapping of an address, and the address without its authentication code. A word
// with a code is never looked up itself: each would count as an unknown page of the process.
func (t *Table) findPlain(addr uint64, tgid uint32, in []mapping) (*mapping, uint64) {
	return plainIn(addr, func(plain uint64) *mapping {
		if m := findIn(in, plain); m != nil {
			return m
		}
		return t.find(plain, tgid)
	})
}

// plainIn is like findPlain, with any way to find the mapping of an address without a code.
func plainIn(addr uint64, find func(plain uint64) *mapping) (*mapping, uint64) {
	if len(pacBits) == 0 || addr>>55&1 != 0 { // bit 55 is set in the kernel's addresses
		return find(addr), addr
	}
	last := ^uint64(0)
	for _, bits := range pacBits {
		plain := addr & (1<<bits - 1)
		if plain == last {
			break
		}
		if m := find(plain); m != nil {
			return m, plain
		}
		last = plain
	}
	return nil, addr
}
