// SPDX-License-Identifier: Apache-2.0

package load

import (
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
)

// TestMakeLarge checks which maps are made at the same time, and that those that a collection has already are not.
func TestMakeLarge(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: maps cannot be created")
	}
	raiseMemlock()
	hash := func(n uint32) *ebpf.MapSpec {
		return &ebpf.MapSpec{Type: ebpf.Hash, KeySize: 8, ValueSize: 8, MaxEntries: n}
	}
	had, err := ebpf.NewMap(hash(8192))
	if err != nil {
		t.Fatal(err)
	}
	defer had.Close()
	data := &ebpf.MapSpec{Name: ".data", Type: ebpf.Array, KeySize: 4, ValueSize: 1 << 20, MaxEntries: 1}
	refused := &ebpf.MapSpec{Type: ebpf.Hash, KeySize: 8, ValueSize: 1 << 30, MaxEntries: 8192}
	specs := map[string]*ebpf.MapSpec{"a": hash(8192), "b": hash(8192), "small": hash(16), "had": hash(8192), ".data": data, "refused": refused}
	var use ebpf.CollectionOptions
	use.MapReplacements = map[string]*ebpf.Map{"had": had}
	made := makeLarge(specs, &use)
	for _, m := range made {
		defer m.Close()
	}
	if got, want := slices.Sorted(maps.Keys(made)), []string{"a", "b"}; !slices.Equal(got, want) {
		t.Errorf("made %q, want %q", got, want)
	}
	if got, want := slices.Sorted(maps.Keys(use.MapReplacements)), []string{"a", "b", "had"}; !slices.Equal(got, want) || use.MapReplacements["had"] != had {
		t.Errorf("the collection uses %q, want %q", got, want)
	}
}
