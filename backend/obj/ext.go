// SPDX-License-Identifier: Apache-2.0

package obj

import (
	"bytes"

	"btc/ir"
)

// The .BTF.ext section: func_info, line_info and CO-RE records, grouped by ELF section. libbpf
// refuses a header without records, and cilium/ebpf refuses a missing one, so func_info and
// line_info are never empty. core_relo is absent (length 0) if there are no relocations.

type funcRecord struct {
	insn int
	typ  typeID
}

type lineRecord struct {
	insn int
	pos  ir.Pos
	text string
}

type coreRecord struct {
	insn int
	typ  typeID
	spec uint32 // offset of the access string
	kind ir.COREKind
}

// extSection has the records of one ELF section. Instructions are counted from the start of the
// section.
type extSection struct {
	name  string
	funcs []funcRecord
	lines []lineRecord
	cores []coreRecord
}

// maxColumn is the largest column that line_info can hold (10 bits).
const maxColumn = 1023

func (w *writer) extBytes(secs []*extSection, file string) []byte {
	fileOff := w.btf.strings.add(file)
	var funcs, lines, cores bytes.Buffer
	le(&funcs, uint32(8))
	le(&lines, uint32(16))
	for _, s := range secs {
		name := w.btf.strings.add(s.name)
		if len(s.funcs) > 0 {
			le(&funcs, name, uint32(len(s.funcs)))
			for _, r := range s.funcs {
				le(&funcs, uint32(r.insn*8), uint32(r.typ))
			}
		}
		if len(s.lines) > 0 {
			le(&lines, name, uint32(len(s.lines)))
			for _, r := range s.lines {
				col := min(max(r.pos.Col, 0), maxColumn)
				le(&lines, uint32(r.insn*8), fileOff, w.btf.strings.add(r.text), uint32(r.pos.Line)<<10|uint32(col))
			}
		}
		if len(s.cores) > 0 {
			if cores.Len() == 0 {
				le(&cores, uint32(16))
			}
			le(&cores, name, uint32(len(s.cores)))
			for _, r := range s.cores {
				le(&cores, uint32(r.insn*8), uint32(r.typ), r.spec, uint32(r.kind))
			}
		}
	}
	var out bytes.Buffer
	le(&out, uint16(0xeB9F), uint8(1), uint8(0), uint32(32))
	off := 0
	for _, b := range []*bytes.Buffer{&funcs, &lines, &cores} {
		le(&out, uint32(off), uint32(b.Len()))
		off += b.Len()
	}
	out.Write(funcs.Bytes())
	out.Write(lines.Bytes())
	out.Write(cores.Bytes())
	return out.Bytes()
}
