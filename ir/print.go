// SPDX-License-Identifier: Apache-2.0

package ir

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Print writes m as text, which Parse reads back. Source and Target are not printed.
// docs/ir.md describes the format.
func Print(w io.Writer, m *Module) error {
	bw := bufio.NewWriter(w)
	if m.Name != "" || m.File != "" {
		fmt.Fprintf(bw, "module %s file %s\n", word(m.Name), word(m.File))
	}
	for _, s := range m.Stmts {
		fmt.Fprintf(bw, "stmt %d:%d %s\n", s.Line, s.Col, strconv.Quote(s.Text))
	}
	for _, x := range m.Maps {
		fmt.Fprintf(bw, "map %s\n", attrText(x))
	}
	for _, g := range m.Globals {
		fmt.Fprintf(bw, "global %s\n", attrText(g))
	}
	for _, e := range m.Events {
		fmt.Fprintf(bw, "event %s\n", attrText(e))
	}
	if t := attrText(&m.Meta); t != "()" {
		fmt.Fprintf(bw, "meta %s\n", t)
	}
	for i, f := range m.Funcs {
		if i > 0 || len(m.Maps)+len(m.Globals)+len(m.Events)+len(m.Stmts) > 0 {
			fmt.Fprintln(bw)
		}
		f.print(bw)
	}
	return bw.Flush()
}

func (m *Module) String() string {
	var buf bytes.Buffer
	Print(&buf, m)
	return buf.String()
}

func (f *Func) String() string {
	var buf bytes.Buffer
	f.print(&buf)
	return buf.String()
}

func (f *Func) print(w io.Writer) {
	fmt.Fprintf(w, "func @%s", f.Name)
	if f.Prog != nil {
		fmt.Fprintf(w, " prog %s", attrText(f.Prog))
	} else {
		fmt.Fprintf(w, "(%s)", join(f.Params, Type.String))
		if f.Global {
			fmt.Fprint(w, " global")
		}
	}
	if t := posText(f.Pos); t != "" {
		fmt.Fprint(w, "  ", t)
	}
	fmt.Fprintln(w, " {")
	for _, s := range f.Slots {
		fmt.Fprintln(w, "  slot "+s.text())
	}
	for _, b := range f.Blocks {
		b.print(w)
	}
	fmt.Fprintln(w, "}")
}

func (s *Slot) text() string {
	t := fmt.Sprintf("s%d %s %d align %d", s.ID, strconv.Quote(s.Name), s.Size, s.Align)
	switch s.Class {
	case Frame:
		t += fmt.Sprintf(" frame %d", s.Off)
	case Scratch:
		t += fmt.Sprintf(" scratch %d", s.Off)
	}
	return t
}

func (b *Block) print(w io.Writer) {
	fmt.Fprintf(w, "b%d", b.ID)
	if len(b.Params) > 0 {
		fmt.Fprintf(w, "(%s)", join(b.Params, func(v *Value) string { return fmt.Sprintf("v%d:%s", v.ID, v.Type) }))
	}
	if b.Cold {
		fmt.Fprint(w, " cold")
	}
	fmt.Fprintln(w, ":")
	for _, v := range b.Values {
		line(w, v.Text(), v.Pos)
	}
	if b.Term.Kind != NoTerm {
		line(w, b.Term.Text(), b.Term.Pos)
	}
}

func line(w io.Writer, text string, pos Pos) {
	if p := posText(pos); p != "" {
		fmt.Fprintf(w, "  %-48s %s\n", text, p)
		return
	}
	fmt.Fprintf(w, "  %s\n", text)
}

func posText(p Pos) string {
	switch {
	case p == NoPos:
		return ""
	}
	t := fmt.Sprintf("!%d:%d", p.Line, p.Col)
	if p.Stmt >= 0 {
		t += fmt.Sprintf("#%d", p.Stmt)
	}
	if p.Site > 0 {
		t += fmt.Sprintf("^%d", p.Site)
	}
	return t
}

func (p Pos) String() string { return fmt.Sprintf("%d:%d", p.Line, p.Col) }

// Text returns the value's definition as in the listing of its function, without position.
func (v *Value) Text() string {
	if v.Op.Info().Inline {
		return v.String()
	}
	var sb strings.Builder
	if v.Type.Kind != Void {
		fmt.Fprintf(&sb, "v%d:%s = ", v.ID, v.Type)
	}
	info := v.Op.Info()
	sb.WriteString(info.Name)
	if v.Mem != MemNone {
		sb.WriteString("." + v.Mem.String())
	}
	if info.Attrs&ACond != 0 {
		sb.WriteString(" " + v.Cond.String())
	}
	if info.Attrs&AKind != 0 {
		sb.WriteString(" " + v.Kind.String())
	}
	sb.WriteString(v.operandText(info))
	return sb.String()
}

func (v *Value) operandText(info *OpInfo) string {
	args := make([]string, 0, len(v.Args)+2)
	for i := range v.Args {
		args = append(args, v.argText(i))
	}
	if info.memOperand() && len(args) > 0 {
		args[0] = v.addressText(args[0])
		return " " + strings.Join(args, ", ")
	}
	if info.Attrs&ACORE != 0 && (v.CORE != CORERef{}) {
		args = append(args, "field("+v.CORE.String()+")")
	}
	t := ""
	if info.Attrs&ASym != 0 {
		t = " " + word(v.Sym)
		if len(args) > 0 {
			t += "(" + strings.Join(args, ", ") + ")"
		}
	} else if len(args) > 0 {
		t = " " + strings.Join(args, ", ")
	}
	if info.Attrs&AImm != 0 && v.Imm != 0 {
		if len(args) > 0 {
			t += ","
		}
		t += fmt.Sprintf(" #%d", v.Imm)
	}
	return t
}

// memOperand reports whether the first argument, Imm and CORE print together in brackets.
func (i *OpInfo) memOperand() bool {
	return i.Attrs&(AMem|AImm) == AMem|AImm && len(i.Args) > 0
}

func (v *Value) addressText(base string) string {
	t := "[" + base
	if v.Imm != 0 {
		t += fmt.Sprintf("%+d", v.Imm)
	}
	if (v.CORE != CORERef{}) {
		t += "+field(" + v.CORE.String() + ")"
	}
	return t + "]"
}

// argText returns the text of argument i. A null that is compared has the type of the other side.
func (v *Value) argText(i int) string {
	a := v.Args[i]
	if v.Op == OpICmp && len(v.Args) == 2 && a.Op == OpConst && a.Imm == 0 && a.Type.IsAddr() &&
		v.Args[1-i].Type == a.Type &&
		v.Args[1-i].Op != OpConst {
		return "null"
	}
	return a.String()
}

// String returns the value as an operand: v7, 42, true, null:uaddr, s0+8, @x, &fn.
func (v *Value) String() string {
	if v == nil {
		return "<nil>"
	}
	switch v.Op {
	case OpConst:
		return constText(v)
	case OpSlotAddr:
		return fmt.Sprintf("s%d%+d", v.Slot.ID, v.Imm)
	case OpMapRef:
		if strings.HasPrefix(v.Sym, "@") && isWord(v.Sym) {
			return v.Sym
		}
		return "map(" + word(v.Sym) + ")"
	case OpFuncRef:
		return "&" + v.Sym
	}
	return fmt.Sprintf("v%d", v.ID)
}

func constText(v *Value) string {
	switch {
	case v.Type == TI64:
		return strconv.FormatInt(v.Imm, 10)
	case v.Type == TI1 && v.Imm == 0:
		return "false"
	case v.Type == TI1 && v.Imm == 1:
		return "true"
	case v.Imm == 0:
		return "null:" + v.Type.String()
	}
	return fmt.Sprintf("%d:%s", v.Imm, v.Type)
}

// Text returns the terminator as in a listing, without position.
func (t *Term) Text() string {
	edges := join(t.Succs, Edge.String)
	switch t.Kind {
	case Jump:
		return "jump " + edges
	case Br:
		return "br " + t.Arg.String() + ", " + edges
	case Ret:
		return "ret " + t.Arg.String()
	}
	return ""
}

func (e Edge) String() string {
	t := fmt.Sprintf("b%d", e.To.ID)
	if len(e.Args) > 0 {
		t += "(" + join(e.Args, (*Value).String) + ")"
	}
	return t
}

func join[T any](list []T, text func(T) string) string {
	parts := make([]string, len(list))
	for i, x := range list {
		parts[i] = text(x)
	}
	return strings.Join(parts, ", ")
}

// coreKindNames are the text names of CO-RE kinds.
var coreKindNames = map[COREKind]string{
	FieldByteOffset: "byte_off", FieldByteSize: "byte_sz", FieldExists: "field_exists", FieldSigned: "signed",
	FieldLShift: "lshift_u64", FieldRShift: "rshift_u64", TypeExists: "type_exists", TypeSize: "type_size",
	EnumvalExists: "enumval_exists", EnumvalValue: "enumval_value",
}

func (k COREKind) String() string { return coreKindNames[k] }

// word returns s bare when it lexes as one word, else quoted.
func word(s string) string {
	if isWord(s) {
		return s
	}
	return strconv.Quote(s)
}

func isWord(s string) bool {
	if s == "" {
		return false
	}
	for i := range len(s) {
		if !wordByte(s[i], i == 0) {
			return false
		}
	}
	return true
}

func wordByte(c byte, first bool) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_', c == '@', c == '.' || c == '$':
		return true
	}
	return !first && c >= '0' && c <= '9'
}
