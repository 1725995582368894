// SPDX-License-Identifier: Apache-2.0

package mach

import (
	"fmt"
	"strings"

	"btc/ir"
)

func (r Reg) String() string {
	switch {
	case r == NoReg:
		return "_"
	case r.IsVirt():
		return fmt.Sprintf("v%d", r.Index())
	}
	return fmt.Sprintf("r%d", int(r))
}

func (r Reg) width(w bool) string {
	s := r.String()
	if w && s[0] == 'r' {
		return "w" + s[1:]
	}
	if w {
		return s + ".w"
	}
	return s
}

func (o Operand) String() string { return o.text(false) }

func (o Operand) text(w bool) string {
	switch o.Kind {
	case Register:
		return o.Reg.width(w)
	case Imm:
		return fmt.Sprintf("%d", o.Imm)
	case FrameRef:
		return fmt.Sprintf("r10 %+d", o.Imm)
	case MapRef:
		return fmt.Sprintf("map[%s]", o.Sym)
	case GlobRef:
		return fmt.Sprintf("&%s%+d", o.Sym, o.Imm)
	case FuncRef:
		return "&" + o.Sym
	}
	return "none"
}

var condSigns = [...]string{ir.EQ: "==", ir.NE: "!=", ir.ULT: "<", ir.ULE: "<=", ir.UGT: ">", ir.UGE: ">=",
	ir.SLT: "s<", ir.SLE: "s<=", ir.SGT: "s>", ir.SGE: "s>="}

func condText(c ir.Cond, a, b Operand) string {
	y := b.text(false)
	if b.Kind == Imm {
		y = fmt.Sprintf("%#x", uint32(b.Imm))
	}
	return fmt.Sprintf("%s %s %s", a, condSigns[c], y)
}

func memText(size int, base Operand, off int) string {
	return fmt.Sprintf("*(u%d *)(%s %+d)", size*8, base, off)
}

// String returns the instruction in the verifier's syntax, with virtual registers
// where there are some. A relocation follows after a semicolon.
func (i *Insn) String() string {
	s := i.body()
	if i.Relocated {
		s += fmt.Sprintf(" ; core %s %s", CORENames[i.Kind], i.CORE)
	}
	return s
}

// CORENames are the kernel's names of the relocation kinds (enum bpf_core_relo_kind).
var CORENames = map[ir.COREKind]string{ir.FieldByteOffset: "byte_off", ir.FieldByteSize: "byte_sz",
	ir.FieldExists: "field_exists", ir.FieldSigned: "signed", ir.FieldLShift: "lshift_u64", ir.FieldRShift: "rshift_u64",
	ir.TypeExists: "type_exists", ir.TypeSize: "type_size", ir.EnumvalExists: "enumval_exists", ir.EnumvalValue: "enumval_value"}

func (i *Insn) body() string {
	arg := func(n int) string { return i.Args[n].text(i.W) }
	dst := i.Dst.width(i.W)
	switch i.Op {
	case Mov:
		return dst + " = " + arg(0)
	case Neg:
		return dst + " = -" + arg(0)
	case Swap:
		return fmt.Sprintf("%s = be%d %s", dst, i.Size*8, arg(0))
	case CoreImm:
		return dst + " = 0"
	case IDImm:
		return fmt.Sprintf("%s = %d ; attachid", dst, i.Imm)
	case Load:
		return dst + " = " + memText(i.Size, i.Args[0], i.Off)
	case Store:
		return memText(i.Size, i.Args[0], i.Off) + " = " + arg(1)
	case XAdd:
		return "lock " + memText(i.Size, i.Args[0], i.Off) + " += " + arg(1)
	case Select:
		c := condText(i.Cond, i.Args[0], i.Args[1])
		if !i.Dst.IsVirt() && i.Args[2] == RegOp(i.Dst) {
			return fmt.Sprintf("if %s skip %s = %s", c, dst, arg(3))
		}
		return fmt.Sprintf("%s = %s ? %s : %s", dst, c, arg(2), arg(3))
	case Call, CallSub:
		return i.callText()
	}
	if i.Args[0] == RegOp(i.Dst) {
		return fmt.Sprintf("%s %s= %s", dst, ops[i.Op].name, arg(1))
	}
	return fmt.Sprintf("%s = %s %s %s", dst, arg(0), ops[i.Op].name, arg(1))
}

func (i *Insn) callText() string {
	var s string
	if i.Dst != NoReg && i.Dst.IsVirt() {
		s = i.Dst.String() + " = "
	}
	if i.Op == Call {
		s += fmt.Sprintf("call bpf_%s#%d", i.Sym, i.Imm)
	} else {
		s += "call " + i.Sym
	}
	if len(i.Args) > 0 && i.From == nil { // after allocation the arguments are r1, r2, ...
		s += "(" + joinOperands(i.Args) + ")"
	}
	return s
}

func joinOperands(list []Operand) string {
	parts := make([]string, len(list))
	for n, a := range list {
		parts[n] = a.String()
	}
	return strings.Join(parts, ", ")
}

func (e Edge) String() string {
	if len(e.Args) == 0 {
		return fmt.Sprintf("b%d", e.To.ID)
	}
	return fmt.Sprintf("b%d(%s)", e.To.ID, joinOperands(e.Args))
}

func (t *Term) String() string {
	switch t.Kind {
	case Jump:
		return "goto " + t.Succs[0].String()
	case Br:
		c := condText(t.Cond, t.Args[0], t.Args[1])
		if t.W {
			c = "low 32 bits of " + c
		}
		return fmt.Sprintf("if %s goto %s else %s", c, t.Succs[0], t.Succs[1])
	case Exit:
		if len(t.Args) > 0 && t.Args[0] != RegOp(R0) {
			return "exit " + t.Args[0].String()
		}
		return "exit"
	}
	return "no terminator"
}

// String returns the whole function, one instruction per line.
func (f *Func) String() string { return f.text(func(ir.Pos) string { return "" }) }

// Positions returns the whole function as String does, with the position in the script after each instruction, as in IR.
func (f *Func) Positions() string {
	return f.text(func(p ir.Pos) string {
		if p.Line < 1 {
			return ""
		}
		return "  !" + p.String()
	})
}

func (f *Func) text(position func(ir.Pos) string) string {
	var s strings.Builder
	fmt.Fprintf(&s, "func %s frame %d\n", f.Name, f.FrameUsed)
	for _, b := range f.Blocks {
		fmt.Fprintf(&s, "b%d", b.ID)
		if len(b.Params) > 0 {
			list := make([]string, len(b.Params))
			for n, p := range b.Params {
				list[n] = p.String()
			}
			fmt.Fprintf(&s, "(%s)", strings.Join(list, ", "))
		}
		s.WriteByte(':')
		if b.Cold {
			s.WriteString(" ; cold")
		}
		s.WriteByte('\n')
		for n := range b.Insns {
			fmt.Fprintf(&s, "  %s%s\n", &b.Insns[n], position(b.Insns[n].Pos))
		}
		fmt.Fprintf(&s, "  %s%s\n", &b.Term, position(b.Term.Pos))
	}
	return s.String()
}
