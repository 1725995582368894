// SPDX-License-Identifier: Apache-2.0

package object

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"btc/internal/manifest"
	"btc/internal/probe"
)

// maxData bounds the total size in bytes of sections without content in the file (.bss), which this process and the
// kernel allocate.
const maxData = 32 << 20

// checkSections bounds the memory for reading the sections.
func checkSections(data []byte) error {
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return err
	}
	empty := uint64(0)
	for _, s := range f.Sections {
		switch {
		case s.Flags&elf.SHF_COMPRESSED != 0:
			return fmt.Errorf("section %s is compressed", s.Name)
		case s.Type != elf.SHT_NOBITS && s.Size > uint64(len(data)):
			return fmt.Errorf("section %s has %d bytes in a file of %d", s.Name, s.Size, len(data))
		case s.Type == elf.SHT_NOBITS:
			if s.Size > maxData || empty+s.Size > maxData {
				return fmt.Errorf("variables take more than %d MiB", maxData>>20)
			}
			empty += s.Size
		}
		if s.Name == ".BTF" && s.Type != elf.SHT_NOBITS {
			b, err := s.Data()
			if err != nil {
				return err
			}
			if err := checkTypes(b, f.ByteOrder); err != nil {
				return fmt.Errorf("section .BTF: %w", err)
			}
		}
	}
	return nil
}

// maxTypes bounds the types of an object. The library follows references between types recursively: a chain of
// millions would overflow the stack, which terminates a Go program.
const maxTypes = 1 << 15

// checkTypes counts the types of a .BTF section (Documentation/bpf/btf.rst). Other errors
// are left to the library.
func checkTypes(b []byte, order binary.ByteOrder) error {
	const header, record = 24, 12
	if len(b) < header {
		return nil
	}
	from, size := uint64(order.Uint32(b[4:]))+uint64(order.Uint32(b[8:])), uint64(order.Uint32(b[12:]))
	if from > uint64(len(b)) {
		return nil
	}
	b = b[from:min(from+size, uint64(len(b)))]
	for n := 0; len(b) >= record; n++ {
		if n == maxTypes {
			return fmt.Errorf("more than %d types", maxTypes)
		}
		info := order.Uint32(b[4:])
		b = b[record:]
		b = b[min(btfExtra(info>>24&0x1f)+btfElement(info>>24&0x1f)*uint64(info&0xffff), uint64(len(b))):]
	}
	return nil
}

// btfExtra returns how many bytes follow the record of a type of some kind (enum of linux/btf.h).
func btfExtra(kind uint32) uint64 {
	switch kind {
	case 1, 14, 17: // int, variable, tag of a declaration
		return 4
	case 3: // array
		return 12
	}
	return 0
}

// btfElement returns how many bytes follow for each element that the record counts.
func btfElement(kind uint32) uint64 {
	switch kind {
	case 4, 5, 15, 19: // struct, union, section of variables, 64-bit enum
		return 12
	case 6, 13: // enum, prototype of a function
		return 8
	}
	return 0
}

// mapTypes maps the manifest's map types to the kernel's.
var mapTypes = map[string]ebpf.MapType{
	"array": ebpf.Array, "percpu_array": ebpf.PerCPUArray, "hash": ebpf.Hash, "percpu_hash": ebpf.PerCPUHash,
	"lru_hash": ebpf.LRUHash, "lru_percpu_hash": ebpf.LRUCPUHash, "ringbuf": ebpf.RingBuf, "perf_event_array": ebpf.PerfEventArray,
}

// dataSections are the sections of variables, each of which is a map.
var dataSections = []string{".bss", ".data", ".rodata", ".rodata.params"}

// mapFlags are the flags that maps may have (linux/bpf.h): BPF_F_NO_PREALLOC,
// BPF_F_RDONLY_PROG and BPF_F_MMAPABLE.
const mapFlags = 1<<0 | 1<<7 | 1<<10

func checkMaps(spec *ebpf.CollectionSpec, m *manifest.Manifest) error {
	named := map[string]bool{}
	for i := range m.Maps {
		x := &m.Maps[i]
		s := spec.Maps[x.Symbol]
		key, value := x.Raw()
		named[x.Symbol] = true
		switch {
		case s == nil:
			return fmt.Errorf("the object has no map %s, which the manifest names", x.Symbol)
		case s.Type != mapTypes[x.Type]:
			return fmt.Errorf("map %s is a %s, not a %s", x.Symbol, s.Type, x.Type)
		case x.Type != "ringbuf" && x.Type != "perf_event_array" && (int(s.KeySize) != key || int(s.ValueSize) != value):
			return fmt.Errorf(
				"map %s has keys of %d and values of %d bytes, not %d and %d",
				x.Symbol,
				s.KeySize,
				s.ValueSize,
				key,
				value,
			)
		case int(s.MaxEntries) != x.MaxEntries:
			return fmt.Errorf("map %s has %d entries, not %d", x.Symbol, s.MaxEntries, x.MaxEntries)
		}
	}
	for name, s := range spec.Maps {
		switch {
		case !named[name] && !slices.Contains(dataSections, name):
			return fmt.Errorf("the object has a map %s, which the manifest does not name", name)
		case !named[name] && (s.Type != ebpf.Array || s.MaxEntries != 1 || s.ValueSize > maxData):
			return fmt.Errorf("section %s is not a section of variables", name)
		case s.Pinning != ebpf.PinNone || s.InnerMap != nil || s.Flags&^mapFlags != 0:
			return fmt.Errorf("map %s is pinned, a map of maps, or has flags %#x: objects of btc have no such maps", name, s.Flags)
		}
	}
	return nil
}

// isProgram reports whether a program has the type that probes of a kind are compiled to: a program of another type
// behaves differently (an "fmod_ret" program decides what a function returns).
func isProgram(s *ebpf.ProgramSpec, kind string) bool {
	t := probe.Lookup(kind)
	if t == nil {
		return false
	}
	is := func(p probe.Program) bool {
		typ, attach := p.BPF()
		return uint32(s.Type) == typ && uint32(s.AttachType) == attach
	}
	return is(t.Program) || t.Other != 0 && is(t.Other)
}

// ProgramType returns the type of the programs of a kind of probe; unspecified for a
// kind that does not exist.
func ProgramType(kind string) ebpf.ProgramType {
	t := probe.Lookup(kind)
	if t == nil {
		return ebpf.UnspecifiedProgram
	}
	typ, _ := t.Program.BPF()
	return ebpf.ProgramType(typ)
}

func checkPrograms(spec *ebpf.CollectionSpec, m *manifest.Manifest) error {
	named := map[string]bool{}
	for i := range m.Programs {
		p := &m.Programs[i]
		named[p.Name] = true
		s := spec.Programs[p.Name]
		switch {
		case s == nil:
			return fmt.Errorf("the object has no program %s, which the manifest names", p.Name)
		case !isProgram(s, p.Kind):
			return fmt.Errorf("program %s has the type %s (%s), which is wrong for a %s", p.Name, s.Type, s.AttachType, p.Kind)
		case s.Flags != 0:
			return fmt.Errorf("program %s has flags %#x: btc's programs have none", p.Name, s.Flags)
		case p.Kind == probe.Iter && s.AttachTo != p.Attach.Name:
			return fmt.Errorf(
				"program %s iterates over %q, and the manifest says %q",
				p.Name,
				s.AttachTo,
				p.Attach.Name,
			)
		}
		if err := checkInstructions(s); err != nil {
			return err
		}
	}
	for name := range spec.Programs {
		if !named[name] {
			return fmt.Errorf("the object has a program %s, which the manifest does not name", name)
		}
	}
	return nil
}

// checkInstructions returns an error for loads that refer to a map, type or variable of the kernel by number (a file
// descriptor of the loading process, or an ID), which no compiler knows.
func checkInstructions(s *ebpf.ProgramSpec) error {
	for i := range s.Instructions {
		ins := &s.Instructions[i]
		if !ins.OpCode.IsDWordLoad() {
			continue
		}
		switch ins.Src {
		case asm.R0, asm.PseudoFunc:
			continue
		case asm.PseudoMapFD, asm.PseudoMapValue:
			if ins.Reference() != "" {
				continue
			}
		}
		return fmt.Errorf(
			"program %s, instruction %d (%s) refers to a kernel object by number",
			s.Name,
			i,
			strings.TrimSpace(fmt.Sprint(ins)),
		)
	}
	return nil
}
