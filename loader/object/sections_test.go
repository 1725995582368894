// SPDX-License-Identifier: Apache-2.0

package object

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"btc/compile"
	"btc/internal/manifest"
	"btc/targets/kernel"
)

// compiled returns an object with variables, which take no room in the file.
func compiled(t *testing.T) []byte {
	t.Helper()
	target, err := kernel.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	out, diags := compile.Compile(compile.Input{Name: "x.bt", Text: "kprobe:vfs_read { @[pid] = count(); }", Target: target})
	if out == nil {
		t.Fatal(diags.Err())
	}
	return out.Object
}

// TestSections checks the limits of sections: of variables, of the file, and of all of them.
func TestSections(t *testing.T) {
	data := compiled(t)
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	const flags, size = 8, 32 // in the header of a section
	index := map[string]int{}
	for i, s := range f.Sections {
		index[s.Name] = i
	}
	if s := f.Section(".bss"); s == nil || s.Type != elf.SHT_NOBITS {
		t.Fatal("the object has no section .bss")
	}
	type edit struct {
		section string
		field   int
		value   uint64
	}
	for _, c := range []struct {
		what  string
		edits []edit
		err   string
	}{
		{"as compiled", nil, ""},
		{"most variables", []edit{{".bss", size, maxData}}, ""},
		{"too many variables", []edit{{".bss", size, maxData + 1}}, "variables take more than 32 MiB"},
		{"more than memory", []edit{{".bss", size, 1 << 62}}, "variables take more than 32 MiB"},
		{"compressed", []edit{{"kprobe/vfs_read", flags, uint64(elf.SHF_COMPRESSED)}}, "section kprobe/vfs_read is compressed"},
		{"larger than the file", []edit{{"license", size, uint64(len(data)) + 1}}, "section license has"},
		{"as large as the file", []edit{{"license", size, uint64(len(data))}}, ""},
		{"overlap", []edit{{"license", size, uint64(len(data))}, {".rodata", size, uint64(len(data))}}, "sections overlap"},
	} {
		b := bytes.Clone(data)
		headers := binary.LittleEndian.Uint64(b[40:])
		for _, e := range c.edits {
			binary.LittleEndian.PutUint64(b[headers+uint64(64*index[e.section]+e.field):], e.value)
		}
		if err := checkSections(b); (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %q", c.what, err, c.err)
		}
	}
}

// TestMaps checks that an object has the maps of its manifest, and no others but sections of variables.
func TestMaps(t *testing.T) {
	spec := func() *ebpf.CollectionSpec {
		return &ebpf.CollectionSpec{Maps: map[string]*ebpf.MapSpec{
			"a":     {Type: ebpf.Hash, KeySize: 8, ValueSize: 16, MaxEntries: 10, Flags: 1},
			"rb":    {Type: ebpf.RingBuf, MaxEntries: 4096},
			".bss":  {Type: ebpf.Array, KeySize: 4, ValueSize: 64, MaxEntries: 1, Flags: 1 << 10},
			".data": {Type: ebpf.Array, KeySize: 4, ValueSize: maxData, MaxEntries: 1},
		}}
	}
	m := &manifest.Manifest{Maps: []manifest.Map{
		{Symbol: "a", Type: "hash", KeySize: 8, ValueSize: 16, MaxEntries: 10},
		{Symbol: "rb", Type: "ringbuf", MaxEntries: 4096},
	}}
	for want, spoil := range map[string]func(maps map[string]*ebpf.MapSpec){
		"": func(map[string]*ebpf.MapSpec) {},
		"the object has no map a, which the manifest names":        func(s map[string]*ebpf.MapSpec) { delete(s, "a") },
		"map a is a LRUHash, not a hash":                           func(s map[string]*ebpf.MapSpec) { s["a"].Type = ebpf.LRUHash },
		"map a has keys of 4 and values of 16 bytes, not 8 and 16": func(s map[string]*ebpf.MapSpec) { s["a"].KeySize = 4 },
		"map a has keys of 8 and values of 17 bytes, not 8 and 16": func(s map[string]*ebpf.MapSpec) { s["a"].ValueSize = 17 },
		"map a has 11 entries, not 10":                             func(s map[string]*ebpf.MapSpec) { s["a"].MaxEntries = 11 },
		"map rb has 4097 entries, not 4096":                        func(s map[string]*ebpf.MapSpec) { s["rb"].MaxEntries = 4097 },
		"the object has a map b, which the manifest does not name": func(s map[string]*ebpf.MapSpec) { s["b"] = s["a"] },
		"section .bss is not a section of variables":               func(s map[string]*ebpf.MapSpec) { s[".bss"].Type = ebpf.Hash },
		"section .data is not a section of variables":              func(s map[string]*ebpf.MapSpec) { s[".data"].MaxEntries = 2 },
		"section .rodata is not a section of variables": func(s map[string]*ebpf.MapSpec) {
			s[".rodata"] = &ebpf.MapSpec{Type: ebpf.Array, ValueSize: maxData + 1, MaxEntries: 1}
		},
		"map a is pinned, a map of maps, or has flags 0x1: objects of btc h": func(s map[string]*ebpf.MapSpec) { s["a"].Pinning = ebpf.PinByName },
		"map a is pinned, a map of maps, or has flags 0x3":                   func(s map[string]*ebpf.MapSpec) { s["a"].Flags |= 2 },
		"map .bss is pinned, a map of maps, or has flags 0x400":              func(s map[string]*ebpf.MapSpec) { s[".bss"].InnerMap = s["a"] },
	} {
		s := spec()
		spoil(s.Maps)
		if err := checkMaps(s, m); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestPrograms checks that an object has the programs of its manifest, of the types of their probes, and that no
// instruction refers to an object of the kernel by number.
func TestPrograms(t *testing.T) {
	code := func(ins asm.Instruction) *ebpf.ProgramSpec {
		return &ebpf.ProgramSpec{Name: "p", Type: ebpf.Kprobe, Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), ins, asm.Return()}}
	}
	load := func(src asm.Register) asm.Instruction {
		return asm.Instruction{OpCode: asm.LoadImmOp(asm.DWord), Dst: asm.R1, Src: src, Constant: 3}
	}
	iter := func(name string) *ebpf.ProgramSpec {
		return &ebpf.ProgramSpec{Name: "p", Type: ebpf.Tracing, AttachType: ebpf.AttachTraceIter, AttachTo: name, Instructions: asm.Instructions{asm.Return()}}
	}
	for _, c := range []struct {
		what, kind string
		s          *ebpf.ProgramSpec
		err        string
	}{
		{"kprobe", "kprobe", code(asm.Mov.Imm(asm.R1, 0)), ""},
		{"number", "kprobe", code(load(asm.R0)), ""},
		{"function", "kprobe", code(load(asm.PseudoFunc)), ""},
		{"map by name", "kprobe", code(load(asm.PseudoMapFD).WithReference("m")), ""},
		{"map value by name", "kprobe", code(load(asm.PseudoMapValue).WithReference("m")), ""},
		{"map by number", "kprobe", code(load(asm.PseudoMapFD)), "program p, instruction 1 ("},
		{"map value by number", "kprobe", code(load(asm.PseudoMapValue)), "refers to a kernel object by number"},
		{"variable of the kernel", "kprobe", code(load(asm.Register(3))), "refers to a kernel object by number"},
		{"another type", "tracepoint", code(asm.Mov.Imm(asm.R1, 0)), "which is wrong for a tracepoint"},
		{"unknown kind", "nonsense", code(asm.Mov.Imm(asm.R1, 0)), "which is wrong for a nonsense"},
		{"another attach type", "iter", &ebpf.ProgramSpec{Type: ebpf.Tracing, AttachType: ebpf.AttachModifyReturn, AttachTo: "task"}, "which is wrong for a iter"},
		{"flags", "kprobe", &ebpf.ProgramSpec{Type: ebpf.Kprobe, Flags: 1}, "program p has flags 0x1"},
		{"iterator", "iter", iter("task"), ""},
		{"another iterator", "iter", iter("bpf_map"), `program p iterates over "bpf_map", and the manifest says "task"`},
		{"missing", "kprobe", nil, "the object has no program p, which the manifest names"},
	} {
		spec := &ebpf.CollectionSpec{Programs: map[string]*ebpf.ProgramSpec{}}
		if c.s != nil {
			spec.Programs["p"] = c.s
		}
		m := &manifest.Manifest{Programs: []manifest.Program{{Name: "p", Kind: c.kind, Attach: manifest.Attach{Name: "task"}}}}
		if err := checkPrograms(spec, m); (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %q", c.what, err, c.err)
		}
		if c.err == "" {
			spec.Programs["q"] = c.s
			if err := checkPrograms(spec, m); err == nil || !strings.Contains(err.Error(), "a program q, which the manifest does not name") {
				t.Errorf("%s: %v", c.what, err)
			}
		}
	}
}
