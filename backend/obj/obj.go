// SPDX-License-Identifier: Apache-2.0

// Package obj writes the BPF ELF object.
//
// It takes a module and its encoded functions (backend/emit) and returns an ELF64
// relocatable file for EM_BPF that bpftool, libbpf and cilium/ebpf load unchanged: one
// section per program with libbpf's names, subprograms in .text, BTF-defined .maps,
// license, .rodata, .rodata.params, .data, .bss, .BTF, and .BTF.ext with func_info,
// line_info and CO-RE records. Equal input gives equal bytes. Offsets follow what those
// loaders accept in common; where they differ the comment says whose rule it is.
//
// It is our own code, 61 KB of btc, because no Go library writes BPF objects:
// cilium/ebpf reads them, and writes neither ELF nor the relocations of .BTF.ext.
package obj

import (
	"debug/elf"
	"encoding/binary"
	"fmt"

	"btc/backend/emit"
	"btc/ir"
)

// license is the license of programs: helpers such as probe_read are available to GPL-compatible
// programs only.
const license = "GPL"

// writer holds the state of one object.
type writer struct {
	m     *ir.Module
	elf   *elfFile
	btf   *builder
	cores *coreTypes

	maps    map[string]symRef // by ir.Map.Name
	globals map[string]globalRef
	text    *progSection // .text, with the subprograms; nil if there are none
	textSym symRef
}

// globalRef is how code refers to a global: by its own symbol. A byte inside it is referred to by
// its section, because cilium/ebpf ignores the addend of a reference to an object symbol.
type globalRef struct {
	sym, section symRef
	off          int // offset in the section
}

// progSection is an executable section with its functions, in order.
type progSection struct {
	name  string
	funcs []*emit.Func
	start map[string]int // first instruction of each function
	index int            // ELF section
	ext   *extSection
}

// Write returns the object file. It does not modify its arguments.
func Write(m *ir.Module, funcs []*emit.Func) ([]byte, error) {
	if err := mapLimit(m, funcs); err != nil {
		return nil, err
	}
	w := &writer{m: m, elf: newELF(), btf: newBuilder(), maps: map[string]symRef{}, globals: map[string]globalRef{}}
	w.cores = newCoreTypes(m.Target, w.btf)
	w.elf.section(&elfSection{name: ".strtab", typ: elf.SHT_STRTAB, align: 1})
	secs := w.programSections(funcs)
	accesses, err := w.collect(secs)
	if err != nil {
		return nil, err
	}
	if err := w.mapSection(); err != nil {
		return nil, err
	}
	w.licenseSection()
	w.dataSections()
	if err := w.fill(secs, accesses); err != nil {
		return nil, err
	}
	var exts []*extSection
	for _, s := range secs {
		exts = append(exts, s.ext)
	}
	ext := w.extBytes(exts, m.File)
	w.elf.section(&elfSection{name: ".BTF", typ: elf.SHT_PROGBITS, data: w.btf.bytes(), align: 4})
	w.elf.section(&elfSection{name: ".BTF.ext", typ: elf.SHT_PROGBITS, data: ext, align: 4})
	return w.elf.bytes(), nil
}

// programSections groups functions by section: .text first, then the programs' sections in order of
// appearance.
func (w *writer) programSections(funcs []*emit.Func) []*progSection {
	var secs []*progSection
	by := map[string]*progSection{}
	add := func(f *emit.Func, name string) {
		s := by[name]
		if s == nil {
			s = &progSection{name: name, start: map[string]int{}, ext: &extSection{name: name}}
			s.index = w.elf.section(&elfSection{name: name, typ: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR, align: 8})
			by[name] = s
			secs = append(secs, s)
		}
		sec := w.elf.sections[s.index]
		s.start[f.Name] = len(sec.data) / 8
		sec.data = append(sec.data, f.Insns...)
		s.funcs = append(s.funcs, f)
	}
	for _, f := range funcs {
		if f.Prog == nil {
			add(f, ".text")
		}
	}
	w.text = by[".text"]
	if w.text != nil {
		w.textSym = w.elf.local(elfSymbol{typ: elf.STT_SECTION, section: w.text.index})
	}
	for _, f := range funcs {
		if f.Prog != nil {
			add(f, f.Prog.Section)
		}
	}
	return secs
}

// collect resolves all CO-RE accesses, so that the local types are complete before the first one is
// written.
func (w *writer) collect(secs []*progSection) (map[*emit.Func][]*coreAccess, error) {
	out := map[*emit.Func][]*coreAccess{}
	for _, s := range secs {
		for _, f := range s.funcs {
			for _, c := range f.CORE {
				a, err := w.cores.access(c.Ref, c.Kind)
				if err != nil {
					return nil, ir.Diag{Pos: c.Pos, Text: err.Error()}
				}
				out[f] = append(out[f], a)
			}
		}
	}
	return out, nil
}

func (w *writer) mapSection() error {
	index := len(w.elf.sections)
	var vars []secvar
	size := 0
	for _, m := range w.m.Maps {
		if m.BPF.Template {
			continue
		}
		t, n, err := w.mapDef(m)
		if err != nil {
			return ir.Diag{Pos: m.Pos, Text: err.Error()}
		}
		vars = append(vars, secvar{w.btf.variable(w.m.MapSymbol(m), t, linkGlobal), size, n})
		w.maps[m.Name] = w.elf.global(elfSymbol{
			name: w.m.MapSymbol(m), bind: elf.STB_GLOBAL, typ: elf.STT_OBJECT, section: index,
			value: size, size: n,
		})
		size += n
	}
	if size == 0 {
		return nil
	}
	w.elf.section(&elfSection{
		name: ".maps", typ: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC | elf.SHF_WRITE, data: make([]byte, size),
		align: 8,
	})
	w.btf.datasec(".maps", size, vars)
	return nil
}

func (w *writer) licenseSection() {
	text := license
	if set := w.m.Meta.Config["license"]; set != "" {
		text = set
	}
	data := append([]byte(text), 0)
	i := w.elf.section(&elfSection{name: "license", typ: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC | elf.SHF_WRITE, data: data, align: 1})
	w.elf.global(elfSymbol{name: "_license", bind: elf.STB_GLOBAL, typ: elf.STT_OBJECT, section: i, size: len(data)})
	char := w.btf.int("char", 1, intSigned)
	v := w.btf.variable("_license", w.btf.array(char, len(data)), linkGlobal)
	w.btf.datasec("license", len(data), []secvar{{v, 0, len(data)}})
}

func (w *writer) dataSections() {
	for _, s := range newDataSections(w.m) {
		sec := &elfSection{name: s.name, typ: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC, data: s.bytes, align: 8}
		if !s.kind.Constant() {
			sec.flags |= elf.SHF_WRITE
		}
		if s.kind == ir.GlobalData {
			sec.typ, sec.size, sec.data = elf.SHT_NOBITS, s.size, nil
		}
		index := w.elf.section(sec)
		section := w.elf.local(elfSymbol{typ: elf.STT_SECTION, section: index})
		var vars []secvar
		for _, g := range s.vars {
			vars = append(vars, secvar{w.btf.variable(w.m.Symbol(g.Name), w.globalType(g), linkGlobal), s.offs[g.Name], g.Size})
			sym := w.elf.global(elfSymbol{
				name: w.m.Symbol(g.Name), bind: elf.STB_GLOBAL, typ: elf.STT_OBJECT, section: index,
				value: s.offs[g.Name], size: g.Size,
			})
			w.globals[g.Name] = globalRef{sym, section, s.offs[g.Name]}
		}
		w.btf.datasec(s.name, s.size, vars)
	}
}

// fill writes symbols, relocations, CO-RE values and debug records of all functions.
func (w *writer) fill(secs []*progSection, accesses map[*emit.Func][]*coreAccess) error {
	for _, s := range secs {
		for _, f := range s.funcs {
			w.funcSymbol(s, f)
			if err := w.relocate(s, f); err != nil {
				return err
			}
			if err := w.applyCORE(s, f, accesses[f]); err != nil {
				return err
			}
			w.lines(s, f)
		}
	}
	return nil
}

// funcSymbol writes the symbol, the BTF FUNC and its func_info. A subprogram is LOCAL in ELF and
// static in BTF, which every loader and bpftool's linker accept; a global function is GLOBAL in both.
func (w *writer) funcSymbol(s *progSection, f *emit.Func) {
	sym := elfSymbol{
		name:    w.m.Symbol(f.Name),
		bind:    elf.STB_GLOBAL,
		typ:     elf.STT_FUNC,
		section: s.index,
		value:   s.start[f.Name] * 8,
		size:    len(f.Insns),
	}
	proto := w.btf.funcProto(w.btf.int("int", 4, intSigned), param{"ctx", w.btf.ptr(0)})
	linkage := linkGlobal
	if f.Prog == nil {
		proto = w.subprogProto(f)
	}
	if f.Prog == nil && !f.Global {
		sym.name, sym.bind, linkage = f.Name, elf.STB_LOCAL, linkStatic
		w.elf.local(sym)
	} else {
		w.elf.global(sym)
	}
	s.ext.funcs = append(s.ext.funcs, funcRecord{s.start[f.Name], w.btf.fn(sym.name, proto, linkage)})
}

func (w *writer) subprogProto(f *emit.Func) typeID {
	var ps []param
	for i, t := range w.m.Func(f.Name).Params {
		typ := w.u64()
		if t.IsPtr() {
			typ = w.btf.ptr(0)
		}
		ps = append(ps, param{fmt.Sprintf("a%d", i+1), typ})
	}
	return w.btf.funcProto(w.u64(), ps...)
}

func (w *writer) relocate(s *progSection, f *emit.Func) error {
	sec := w.elf.sections[s.index]
	base := s.start[f.Name]
	for _, r := range f.Relocs {
		at := (base + r.Insn) * 8
		imm := sec.data[at+4 : at+8]
		rel := elfReloc{off: at, kind: relocBPF64_64}
		var ok bool
		switch r.Kind {
		case emit.Map:
			// libbpf sets the source register from the relocation's target, and requires that it is
			// zero in the file.
			sec.data[at+1] &= 0x0f
			rel.sym, ok = w.maps[r.Sym]
		case emit.Global:
			var g globalRef
			g, ok = w.globals[r.Sym]
			rel.sym = g.sym
			if r.Addend != 0 {
				rel.sym = g.section
				binary.LittleEndian.PutUint32(imm, uint32(g.off)+uint32(r.Addend))
			}
		case emit.FuncAddr, emit.Call:
			var start int
			if w.text != nil {
				start, ok = w.text.start[r.Sym]
			}
			rel.sym = w.textSym
			binary.LittleEndian.PutUint32(imm, uint32(start*8))
			if r.Kind == emit.Call {
				rel.kind = relocBPF64_32
				binary.LittleEndian.PutUint32(imm, uint32(start-1))
			}
		}
		if !ok {
			panic(fmt.Sprintf("BUG: %s refers to unknown %s %q", f.Name, r.Kind, r.Sym))
		}
		sec.relocs = append(sec.relocs, rel)
	}
	return nil
}

// applyCORE writes the local value of each access into its instruction (loaders compare them), and
// the record.
func (w *writer) applyCORE(s *progSection, f *emit.Func, as []*coreAccess) error {
	sec := w.elf.sections[s.index]
	base := s.start[f.Name]
	for i, c := range f.CORE {
		v, err := as[i].local(c.Kind)
		if err != nil {
			return ir.Diag{Pos: c.Pos, Text: fmt.Sprintf("%s: %v", c.Ref, err)}
		}
		ins := sec.data[(base+c.Insn)*8:]
		switch class := ins[0] & 7; class {
		case 0: // ld_imm64
			binary.LittleEndian.PutUint32(ins[4:], uint32(v))
			binary.LittleEndian.PutUint32(ins[12:], uint32(v>>32))
		case 1, 2, 3: // ldx, st, stx
			if v != int64(int16(v)) {
				return ir.Diag{
					Pos:  c.Pos,
					Text: fmt.Sprintf("%s is at offset %d of its type: too far for one instruction", c.Ref, v),
				}
			}
			binary.LittleEndian.PutUint16(ins[2:], uint16(v))
		default:
			binary.LittleEndian.PutUint32(ins[4:], uint32(v))
		}
		s.ext.cores = append(s.ext.cores,
			coreRecord{base + c.Insn, w.cores.id(as[i].root), w.btf.strings.add(as[i].spec(c.Kind)), c.Kind})
	}
	return nil
}

// lines gives each function a line record at its first instruction (required by the kernel), and
// one wherever the statement or position changes.
func (w *writer) lines(s *progSection, f *emit.Func) {
	base := s.start[f.Name]
	last := lineRecord{insn: -1}
	add := func(insn int, p ir.Pos) {
		if p.Line == 0 {
			p = f.Pos
		}
		r := lineRecord{base + insn, p, w.stmtText(p)}
		if last.insn >= 0 && last.pos == r.pos {
			return
		}
		s.ext.lines = append(s.ext.lines, r)
		last = r
	}
	if len(f.Lines) == 0 || f.Lines[0].Insn != 0 {
		add(0, f.Pos)
	}
	for _, l := range f.Lines {
		add(l.Insn, l.Pos)
	}
}

func (w *writer) stmtText(p ir.Pos) string {
	if p.Stmt >= 0 && p.Stmt < len(w.m.Stmts) {
		return w.m.Stmts[p.Stmt].Text
	}
	return ""
}
