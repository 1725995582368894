// SPDX-License-Identifier: Apache-2.0

package kernelfs

import (
	"strings"
	"testing"
)

func TestSymbolAddress(t *testing.T) {
	const table = "ffffffff81000000 T _stext\nffffffff81000010 t vfs_readv\nffffffff81000020 D jiffies_64\nffffffffc0000000 d jiffies_64\t[mod]\n"
	for name, want := range map[string]uint64{"jiffies_64": 0xffffffff81000020, "vfs_readv": 0xffffffff81000010} {
		if got, ok, err := symbolAddress(strings.NewReader(table), name); got != want || !ok || err != nil {
			t.Errorf("address of %s = %#x, %t, %v", name, got, ok, err)
		}
	}
	if _, ok, _ := symbolAddress(strings.NewReader(table), "vfs_read"); ok {
		t.Error("found part of a name")
	}
	// Lines without a name are skipped; an address that is not a number is an error.
	const odd = "\nffff\nffff T\nxyz T bad\n0000000000000000 T hidden\nffff T after\n"
	if got, ok, err := symbolAddress(strings.NewReader(odd), "after"); got != 0xffff || !ok || err != nil {
		t.Errorf("after lines without a name: %#x, %t, %v", got, ok, err)
	}
	if got, ok, err := symbolAddress(strings.NewReader(odd), "bad"); ok || err == nil {
		t.Errorf("not a number: %#x, %t, %v", got, ok, err)
	}
	if got, ok, err := symbolAddress(strings.NewReader(odd), "hidden"); got != 0 || !ok || err != nil {
		t.Errorf("a hidden address: %#x, %t, %v", got, ok, err)
	}
	if got, ok, err := symbolAddress(strings.NewReader(odd), "none"); got != 0 || ok || err != nil {
		t.Errorf("no such symbol: %#x, %t, %v", got, ok, err)
	}
}
