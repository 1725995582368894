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
	"btc/internal/unwind"
)

// maxData bounds the total size in bytes of sections without content in the file (.bss), which this process and the
// kernel allocate.
const maxData = 32 << 20

// checkSections bounds the memory for reading the sections.
func checkSections(data []byte) error {
	names := maxNames
	if err := checkHeaders(data, &names); err != nil {
		return err
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return err
	}
	empty, total := uint64(0), uint64(0)
	types := map[string][]byte{}
	for _, s := range f.Sections {
		if s.Type != elf.SHT_NOBITS {
			total += min(s.Size, MaxBytes+1)
		}
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
		if total > 2*uint64(len(data)) {
			return fmt.Errorf("sections overlap: they have more than %d bytes in a file of %d", total, len(data))
		}
		isSymbols := s.Type == elf.SHT_SYMTAB && int(s.Link) < len(f.Sections)
		if isSymbols || s.Type != elf.SHT_NOBITS && (s.Name == ".BTF" || s.Name == ".BTF.ext") {
			b, err := s.Data()
			if err != nil {
				return err
			}
			if types[s.Name] = b; isSymbols {
				table, err := f.Sections[s.Link].Data()
				if err != nil {
					return err
				}
				for ; len(b) >= elf.Sym64Size; b = b[elf.Sym64Size:] {
					take(&names, table, f.ByteOrder.Uint32(b))
				}
			}
		}
	}
	if err := checkTypes(types[".BTF"], types[".BTF.ext"], f.ByteOrder, &names); err != nil {
		return fmt.Errorf("section .BTF: %w", err)
	}
	if names < 0 {
		return errNames
	}
	return nil
}

// maxNames bounds the sum of the lengths of all names, in bytes. The libraries copy a name wherever it is referred to,
// and millions of symbols, members or relocations could refer to one that is as long as the file.
const maxNames = 16 << 20

var errNames = fmt.Errorf("the names of its sections, symbols and types have more than %d MiB", maxNames>>20)

// take subtracts the length of the name at an offset in a table from left.
func take(left *int, table []byte, off uint32) {
	if *left >= 0 && int64(off) < int64(len(table)) {
		*left -= max(bytes.IndexByte(table[off:], 0), 0)
	}
}

// checkHeaders checks what elf.NewFile reads: a compressed table of names, and the names of sections. It leaves other
// errors to that.
func checkHeaders(data []byte, names *int) error {
	const header, size = 64, 64
	if len(data) < header || string(data[:4]) != elf.ELFMAG {
		return nil
	}
	var order binary.ByteOrder = binary.LittleEndian
	if data[elf.EI_DATA] == byte(elf.ELFDATA2MSB) {
		order = binary.BigEndian
	}
	from, n, table := order.Uint64(data[40:]), uint64(order.Uint16(data[60:])), uint64(order.Uint16(data[62:]))
	if data[elf.EI_CLASS] != byte(elf.ELFCLASS64) || order.Uint16(data[58:]) != size || table >= n {
		return fmt.Errorf("not a 64-bit file with at most %d sections", elf.SHN_LORESERVE)
	}
	if from > uint64(len(data)) || n*size > uint64(len(data))-from {
		return nil
	}
	all := data[from : from+n*size]
	h := all[table*size:]
	if order.Uint64(h[8:])&uint64(elf.SHF_COMPRESSED) != 0 {
		return fmt.Errorf("section %d is compressed", table)
	}
	at := min(order.Uint64(h[24:]), uint64(len(data)))
	strings := data[at : at+min(order.Uint64(h[32:]), uint64(len(data))-at)]
	for ; len(all) > 0; all = all[size:] {
		take(names, strings, order.Uint32(all))
	}
	if *names < 0 {
		return errNames
	}
	return nil
}

// maxTypes bounds the types of an object. The library follows references between types recursively: a chain of
// millions would overflow the stack, which terminates a Go program.
const maxTypes = 1 << 15

// checkTypes counts the types of a .BTF section and the names that it and .BTF.ext refer to
// (Documentation/bpf/btf.rst). Other errors are left to the library.
func checkTypes(b, ext []byte, order binary.ByteOrder, names *int) error {
	const header, record = 24, 12
	if len(b) < header {
		return nil
	}
	// part returns the bytes at the offset and size at h[i:], which are relative to the end of h's header.
	part := func(h []byte, i int) []byte {
		if len(h) < i+8 {
			return nil
		}
		from, size := uint64(order.Uint32(h[4:]))+uint64(order.Uint32(h[i:])), uint64(order.Uint32(h[i+4:]))
		from = min(from, uint64(len(h)))
		return h[from:min(from+size, uint64(len(h)))]
	}
	table := part(b, 16)
	b = part(b, 8)
	for n := 0; len(b) >= record; n++ {
		if n == maxTypes {
			return fmt.Errorf("more than %d types", maxTypes)
		}
		take(names, table, order.Uint32(b))
		info := order.Uint32(b[4:])
		kind, element := info>>24&0x1f, btfElement(info>>24&0x1f)
		b = b[record:]
		elements := b[:min(element*uint64(info&0xffff), uint64(len(b)))]
		for ; kind != 15 && element > 0 && len(elements) >= int(element); elements = elements[element:] {
			take(names, table, order.Uint32(elements))
		}
		b = b[min(btfExtra(kind)+element*uint64(info&0xffff), uint64(len(b))):]
	}
	for i := 8; i <= 24; i += 8 { // functions, lines, relocations
		b := part(ext, i)
		if len(b) < 4 {
			continue
		}
		size := uint64(order.Uint32(b))
		for b = b[4:]; len(b) >= 8; {
			take(names, table, order.Uint32(b))
			n := min(uint64(order.Uint32(b[4:])), uint64(len(b)))
			b = b[8:]
			for ; n > 0 && size >= 8 && uint64(len(b)) >= size; n-- {
				if i == 24 && size >= 12 {
					take(names, table, order.Uint32(b[8:]))
				}
				b = b[size:]
			}
		}
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
	"array_of_maps": ebpf.ArrayOfMaps,
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
			return fmt.Errorf("map %s has keys of %d and values of %d bytes, not %d and %d", x.Symbol, s.KeySize,
				s.ValueSize, key, value)
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
		case s.Type == ebpf.ArrayOfMaps && isTables(s):
		case s.Pinning != ebpf.PinNone || s.InnerMap != nil || s.Flags&^mapFlags != 0:
			return fmt.Errorf("map %s is pinned, a map of maps, or has flags %#x: objects of btc have no such maps", name, s.Flags)
		}
	}
	return nil
}

// isTables reports whether a map of maps is that of the unwind tables, empty. No other one is created: the maps in it
// would be what the object says.
func isTables(s *ebpf.MapSpec) bool {
	in := s.InnerMap
	return s.Pinning == ebpf.PinNone && s.Flags == 0 && len(s.Contents) == 0 && in != nil && in.Type == ebpf.Array &&
		in.KeySize == 4 && in.ValueSize == unwind.ChunkSize && in.MaxEntries == 1 && in.Flags == innerMap && in.Pinning == ebpf.PinNone &&
		in.InnerMap == nil && len(in.Contents) == 0
}

// innerMap is BPF_F_INNER_MAP (5.10): maps with more elements may be put into a map of such maps.
const innerMap = 1 << 12

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
			return fmt.Errorf("program %s iterates over %q, and the manifest says %q", p.Name, s.AttachTo,
				p.Attach.Name)
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
		return fmt.Errorf("program %s, instruction %d (%s) refers to a kernel object by number", s.Name, i,
			strings.TrimSpace(fmt.Sprint(ins)))
	}
	return nil
}
