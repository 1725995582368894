// SPDX-License-Identifier: Apache-2.0

package ehframe

// state is what the instructions of an entry have set so far.
type state struct {
	cfa    cfa
	fp, ra rule
}

// cfa is how the CFA is found.
type cfa struct {
	kind   uint8
	reg    uint64
	offset int64 // cfaPLT: the offset in a stub from which it has pushed a word
	add    int64
}

// Kinds of cfa.
const (
	cfaUnset   = iota
	cfaUnknown // an expression
	cfaReg     // register + offset
	cfaDeref   // word at register + offset, plus add
	cfaPLT
)

// rule is where the caller's value of a register is.
type rule struct {
	kind   uint8
	reg    uint64
	offset int64
}

// Kinds of rules.
const (
	unsaved    = iota // in the register itself
	saved             // at CFA + offset
	undefined         // nowhere
	expression        // at register + offset
	other             // elsewhere
)

const (
	maxDepth = 64      // of DW_CFA_remember_state
	maxSteps = 1 << 20 // instructions of one entry
)

// machine executes instructions.
type machine struct {
	s       *section
	c       *common
	cpu     *cpu
	st      state
	first   *state // what DW_CFA_restore returns to
	stack   []state
	emit    func(advance uint64, st *state) bool
	advance uint64
}

// run calls emit with the states of an entry, each with the distance from the entry's first address at which it begins,
// until it returns false. From an instruction that is not understood on, the state is one that no row represents.
func (s *section) run(e *entry, cpu *cpu, emit func(advance uint64, st *state) bool) {
	c := e.common
	bad := &state{ra: rule{kind: other}}
	if c.state == nil {
		m := machine{s: s, c: c, cpu: cpu, first: &state{}}
		if !cpu.link {
			m.st.ra.kind = other // until the instructions say where it is
		}
		c.state = &m.st
		c.bad = !m.run(c.initial) || c.returns != cpu.ra
	}
	if c.bad {
		emit(0, bad)
		return
	}
	m := machine{s: s, c: c, cpu: cpu, st: *c.state, first: c.state, emit: emit}
	if !m.run(e.rules) {
		m.st = *bad
	}
	emit(m.advance, &m.st)
}

// run executes instructions. It is false if one is not understood.
func (m *machine) run(code []byte) bool {
	r := &reader{data: code}
	for steps := 0; r.at < len(r.data); steps++ {
		if m.s.budget--; m.s.budget < 0 || steps > maxSteps || r.bad {
			return false
		}
		if !m.step(r) {
			return false
		}
		if m.emit == nil && m.advance != 0 {
			return false
		}
	}
	return !r.bad
}

// move advances the address.
func (m *machine) move(n uint64) bool {
	if n == 0 {
		return true
	}
	if m.emit != nil && !m.emit(m.advance, &m.st) {
		m.emit = func(uint64, *state) bool { return false } // past the end of the code
	}
	to := m.advance + n*m.c.codeFactor
	ok := to >= m.advance && n*m.c.codeFactor/max(m.c.codeFactor, 1) == n
	m.advance = to
	return ok
}

// rule returns the rule of a register; nil if it is of no interest.
func (m *machine) rule(reg uint64) *rule { return m.st.rule(reg, m.cpu) }

func (st *state) rule(reg uint64, c *cpu) *rule {
	switch reg {
	case c.fp:
		return &st.fp
	case c.ra:
		return &st.ra
	}
	return nil
}

func (m *machine) set(reg uint64, to rule) bool {
	if r := m.rule(reg); r != nil {
		*r = to
	}
	return true
}

func (m *machine) restore(reg uint64) bool {
	if r := m.rule(reg); r != nil {
		*r = *m.first.rule(reg, m.cpu)
	}
	return true
}

// amend ends a change of a part of the CFA. The common parts of riscv64 begin with a register without an offset: it is 0.
func (m *machine) amend() {
	if c := &m.st.cfa; c.kind == cfaUnset {
		c.kind = cfaReg
	} else if c.kind != cfaReg {
		c.kind = cfaUnknown
	}
}

// step executes one instruction (DWARF 5, section 6.4.2).
func (m *machine) step(r *reader) bool {
	op := r.fixed(1)
	low := op & 0x3f
	factored := func(n uint64) int64 { return int64(n) * m.c.dataFactor }
	switch op >> 6 {
	case 1: // advance_loc
		return m.move(low)
	case 2: // offset
		return m.set(low, rule{kind: saved, offset: factored(r.uleb())})
	case 3: // restore
		return m.restore(low)
	}
	switch op {
	case 0x00: // nop
	case 0x01: // set_loc
		return false // no compiler emits it
	case 0x02, 0x03, 0x04: // advance_loc1, 2, 4
		return m.move(r.fixed(1 << (op - 2)))
	case 0x1d: // MIPS_advance_loc8
		return m.move(r.fixed(8))
	case 0x05: // offset_extended
		reg := r.uleb()
		return m.set(reg, rule{kind: saved, offset: factored(r.uleb())})
	case 0x06: // restore_extended
		return m.restore(r.uleb())
	case 0x07: // undefined
		return m.set(r.uleb(), rule{kind: undefined})
	case 0x08: // same_value
		return m.set(r.uleb(), rule{kind: unsaved})
	case 0x09: // register
		reg, in := r.uleb(), r.uleb()
		if in == reg {
			return m.set(reg, rule{kind: unsaved})
		}
		return m.set(reg, rule{kind: other})
	case 0x0a: // remember_state
		if len(m.stack) == maxDepth {
			return false
		}
		m.stack = append(m.stack, m.st)
	case 0x0b: // restore_state
		n := len(m.stack)
		if n == 0 {
			return false
		}
		m.st, m.stack = m.stack[n-1], m.stack[:n-1]
	case 0x0c: // def_cfa
		reg := r.uleb()
		m.st.cfa = cfa{kind: cfaReg, reg: reg, offset: int64(r.uleb())}
	case 0x0d: // def_cfa_register
		m.st.cfa.reg = r.uleb()
		m.amend()
	case 0x0e: // def_cfa_offset
		m.st.cfa.offset = int64(r.uleb())
		m.amend()
	case 0x0f: // def_cfa_expression
		m.st.cfa = m.cfaExpression(r.bytes(r.uleb()))
	case 0x10: // expression
		reg := r.uleb()
		if base, off, ok := registerPlus(&reader{data: r.bytes(r.uleb())}, true); ok {
			return m.set(reg, rule{kind: expression, reg: base, offset: off})
		}
		return m.set(reg, rule{kind: other})
	case 0x16: // val_expression
		reg := r.uleb()
		r.bytes(r.uleb())
		return m.set(reg, rule{kind: other})
	case 0x11: // offset_extended_sf
		reg := r.uleb()
		return m.set(reg, rule{kind: saved, offset: r.sleb() * m.c.dataFactor})
	case 0x12: // def_cfa_sf
		reg := r.uleb()
		m.st.cfa = cfa{kind: cfaReg, reg: reg, offset: r.sleb() * m.c.dataFactor}
	case 0x13: // def_cfa_offset_sf
		m.st.cfa.offset = r.sleb() * m.c.dataFactor
		m.amend()
	case 0x14, 0x15: // val_offset, val_offset_sf
		reg := r.uleb()
		r.uleb()
		return m.set(reg, rule{kind: other})
	case 0x2c, 0x2d: // arm64: whether the return address is signed; walks remove the signature
		return m.cpu.link
	case 0x2e: // GNU_args_size: what the function has pushed for a call, which the CFA does not depend on
		r.uleb()
	case 0x2f: // GNU_negative_offset_extended
		reg := r.uleb()
		return m.set(reg, rule{kind: saved, offset: -factored(r.uleb())})
	default:
		return false
	}
	return true
}

// Operations of expressions (DWARF 5, section 7.7.1).
const (
	opDeref      = 0x06
	opAnd        = 0x1a
	opPlus       = 0x22
	opPlusUconst = 0x23
	opShl        = 0x24
	opGe         = 0x2a
	opLit0       = 0x30
	opBreg0      = 0x70
	opBregx      = 0x92
)

// registerPlus reads a register and an offset; whole: nothing may follow.
func registerPlus(r *reader, whole bool) (reg uint64, offset int64, ok bool) {
	switch op := r.fixed(1); {
	case r.bad:
		return 0, 0, false
	case op >= opBreg0 && op < opBreg0+32:
		reg = op - opBreg0
	case op == opBregx:
		reg = r.uleb()
	default:
		return 0, 0, false
	}
	offset = r.sleb()
	return reg, offset, !r.bad && (!whole || r.at == len(r.data))
}

// cfaExpression recognizes the expressions that compilers, linkers and assembly code use.
func (m *machine) cfaExpression(code []byte) (c cfa) {
	r := &reader{data: code}
	reg, offset, ok := registerPlus(r, false)
	if !ok {
		return cfa{kind: cfaUnknown}
	}
	// Of a stub of the procedure linkage table: rsp + 8 + ((rip & 15) >= n) << 3
	if rest := r.rest(); reg == 7 && offset == 8 && m.cpu.sp == 7 && len(rest) == 9 {
		n := rest[4] - opLit0
		if string(rest) == string([]byte{opBreg0 + 16, 0, opLit0 + 15, opAnd, opLit0 + n, opGe, opLit0 + 3, opShl, opPlus}) && n < 16 {
			return cfa{kind: cfaPLT, offset: int64(n)}
		}
	}
	c = cfa{kind: cfaReg, reg: reg, offset: offset}
	for r.at < len(r.data) {
		switch op := r.fixed(1); {
		case op == opPlusUconst && c.kind == cfaReg:
			c.offset += int64(r.uleb())
		case op == opPlusUconst:
			c.add += int64(r.uleb())
		case op == opDeref && c.kind == cfaReg:
			c.kind = cfaDeref
		default:
			return cfa{kind: cfaUnknown}
		}
	}
	if r.bad {
		return cfa{kind: cfaUnknown}
	}
	return c
}
