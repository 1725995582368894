// SPDX-License-Identifier: Apache-2.0

package kerneltypes

import (
	"bytes"
	"os"
	"slices"
	"testing"

	"github.com/cilium/ebpf/btf"
)

// TestSubsetAgreesWithAllTypes checks that the subset describes a structure exactly as the whole BTF
// does.
func TestSubsetAgreesWithAllTypes(t *testing.T) {
	if _, err := os.Stat(Path); err != nil {
		t.Skip("skipped: this kernel has no BTF")
	}
	names := []string{"task_struct", "sock", "pt_regs", "bpf_func_id", "sock_common"}
	blob, missing, err := Subset(Path, names)
	if err != nil || len(missing) > 0 {
		t.Fatal(missing, err)
	}
	small, err := btf.LoadSpecFromReader(bytes.NewReader(blob))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := btf.LoadKernelSpec()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", len(blob))
	for _, name := range []string{"task_struct", "sock", "sock_common"} {
		var a, b *btf.Struct
		if err := small.TypeByName(name, &a); err != nil {
			t.Fatal(err)
		}
		if err := whole.TypeByName(name, &b); err != nil {
			t.Fatal(err)
		}
		compare(t, name, a, b, map[*btf.Struct]bool{})
	}
	var a, b btf.Type
	var errs [2]error
	a, errs[0] = small.AnyTypeByName("bpf_func_id")
	b, errs[1] = whole.AnyTypeByName("bpf_func_id")
	if errs != [2]error{} {
		t.Fatal(errs)
	}
	x, y := a.(*btf.Enum), b.(*btf.Enum)
	if len(x.Values) != len(y.Values) || x.Values[7] != y.Values[7] {
		t.Errorf("enum: %d values, want %d", len(x.Values), len(y.Values))
	}
}

func compare(t *testing.T, path string, a, b *btf.Struct, seen map[*btf.Struct]bool) {
	if a.Size != b.Size || len(a.Members) != len(b.Members) {
		t.Errorf("%s: size %d, %d members, want %d, %d", path, a.Size, len(a.Members), b.Size, len(b.Members))
		return
	}
	if seen[a] {
		return
	}
	seen[a] = true
	for i := range a.Members {
		x, y := a.Members[i], b.Members[i]
		if x.Name != y.Name || x.Offset != y.Offset || x.BitfieldSize != y.BitfieldSize {
			t.Errorf("%s.%s: at %d, want %s at %d", path, x.Name, x.Offset, y.Name, y.Offset)
		}
		in, ok := btf.UnderlyingType(x.Type).(*btf.Struct)
		out, ok2 := btf.UnderlyingType(y.Type).(*btf.Struct)
		if ok != ok2 {
			t.Errorf("%s.%s: %v, want %v", path, x.Name, x.Type, y.Type)
		}
		if ok && ok2 {
			compare(t, path+"."+x.Name, in, out, seen)
		}
	}
}

func TestMissingTypeIsNamed(t *testing.T) {
	if _, err := os.Stat(Path); err != nil {
		t.Skip("skipped: this kernel has no BTF")
	}
	if _, missing, err := Subset(Path, []string{"task_struct", "no_such_struct"}); err != nil || len(missing) != 1 || missing[0] != "no_such_struct" {
		t.Errorf("missing = %q, %v", missing, err)
	}
}

func TestGarbage(t *testing.T) {
	blob := []byte{0x9f, 0xeb, 1, 0, 24, 0, 0, 0, 0, 0, 0, 0, 12, 0, 0, 0, 12, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 4, 9, 0, 0, 0, 0, 'a', 0}
	for n := range len(blob) + 1 {
		if _, _, err := subset(bytes.NewReader(blob[:n]), []string{"a"}); err == nil {
			t.Errorf("no error for %d bytes of a struct without its member", n)
		}
	}
}

// TestLongHeader checks that types of a later kernel, whose header is longer, are read.
func TestLongHeader(t *testing.T) {
	b, err := btf.NewBuilder([]btf.Type{&btf.Struct{Name: "a", Size: 4, Members: []btf.Member{{Name: "x", Type: &btf.Int{Name: "int", Size: 4}}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	short, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	long := slices.Concat(short[:24], make([]byte, 8), short[24:])
	long[4] += 8
	shifted := slices.Concat(short[:24], make([]byte, 8), short[24:]) // the sections begin 8 bytes after the header
	shifted[8] += 8
	shifted[16] += 8
	var subsets [][]byte
	for _, blob := range [][]byte{short, long, shifted} {
		s, missing, err := subset(bytes.NewReader(blob), []string{"a"})
		if err != nil || len(missing) > 0 {
			t.Fatal(missing, err)
		}
		subsets = append(subsets, s)
	}
	if !bytes.Equal(subsets[0], subsets[1]) || !bytes.Equal(subsets[0], subsets[2]) {
		t.Error("the length of the header, or space after it, changes the types")
	}
	for _, size := range []byte{0, 23} {
		long[4] = size
		if _, _, err := subset(bytes.NewReader(long), []string{"a"}); err == nil {
			t.Errorf("a header of %d bytes is accepted", size)
		}
	}
}

func FuzzSubset(f *testing.F) {
	f.Add([]byte{0x9f, 0xeb, 1, 0, 24, 0, 0, 0, 0, 0, 0, 0, 12, 0, 0, 0, 12, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 4, 9, 0, 0, 0, 0, 'a', 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		blob, _, err := subset(bytes.NewReader(data), []string{"a", "b"})
		if err != nil {
			return
		}
		btf.LoadSpecFromReader(bytes.NewReader(blob)) // must not panic
	})
}

func BenchmarkSubset(b *testing.B) {
	for b.Loop() {
		if _, _, err := Subset(Path, []string{"task_struct", "bpf_func_id"}); err != nil {
			b.Skip("skipped: ", err)
		}
	}
}
