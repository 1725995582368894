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
}
