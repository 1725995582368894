// SPDX-License-Identifier: Apache-2.0

package usdt

import (
	"debug/elf"
	"math/bits"
	"strconv"
	"strings"

	"btc/internal/arch"
)

// table describes an architecture's argument syntax: registers by name, as offsets in
// struct pt_regs, and the parser of an operand.
type table struct {
	registers map[string]uint16
	operand   func(r *reader, text string, pc uint64) (Arg, bool)
}

// operands are the parsers of the operands that the assemblers of architectures print.
var operands = map[elf.Machine]func(r *reader, text string, pc uint64) (Arg, bool){
	elf.EM_X86_64: (*reader).x86, elf.EM_AARCH64: (*reader).arm64, elf.EM_RISCV: (*reader).riscv,
}

// tableOf returns nil for a machine whose operands cannot be read.
func tableOf(m elf.Machine) *table {
	a, operand := arch.ByMachine(m), operands[m]
	if a == nil || operand == nil {
		return nil
	}
	return &table{a.AsmRegs, operand}
}

// args parses the arguments of a note: "SIZE@OPERAND" separated by spaces.
func (r *reader) args(text string, pc uint64) []Arg {
	var all []Arg
	for _, word := range split(text) {
		if len(all) == MaxArgs {
			break
		}
		all = append(all, r.arg(word, pc))
	}
	return all
}

// split splits at spaces outside brackets: "-4@[sp, 12] 8@x0" is two words.
func split(text string) []string {
	var words []string
	depth, start := 0, 0
	cut := func(end int) {
		if start < end {
			words = append(words, text[start:end])
		}
		start = end + 1
	}
	for i := range len(text) {
		switch text[i] {
		case '[', '(':
			depth++
		case ']', ')':
			depth--
		case ' ', '\t':
			if depth <= 0 {
				cut(i)
			}
		}
	}
	cut(len(text))
	return words
}

// arg parses one argument; an unknown form is Absent. The size is -8 to 8 (negative:
// signed); without one it is a word.
func (r *reader) arg(word string, pc uint64) Arg {
	size, operand, ok := strings.Cut(word, "@")
	if !ok {
		size, operand = "8", word
	}
	n, err := strconv.Atoi(size) // fails for floating point, "8f"
	signed := n < 0
	if signed {
		n = -n
	}
	if err != nil || r.table == nil || n != 1 && n != 2 && n != 4 && n != 8 {
		return Arg{}
	}
	a, ok := r.table.operand(r, operand, pc)
	if !ok {
		return Arg{}
	}
	a.Size, a.Signed = uint8(n), signed
	return a
}

func number(s string) (int64, bool) {
	v, err := strconv.ParseInt(s, 0, 64)
	if err != nil {
		u, uerr := strconv.ParseUint(s, 0, 64)
		return int64(u), uerr == nil
	}
	return v, true
}

// x86 reads "%rax", "$-5", "8(%rbp)", "-4(%rbp,%rax,4)" and "name+8(%rip)".
func (r *reader) x86(text string, pc uint64) (Arg, bool) {
	switch {
	case text == "":
		return Arg{}, false
	case text[0] == '$':
		v, ok := number(text[1:])
		return Arg{Kind: Const, Value: v}, ok
	case text[0] == '%':
		reg, ok := r.table.registers[text[1:]]
		return Arg{Kind: Register, Reg: reg, Index: NoIndex}, ok
	}
	disp, inner, ok := strings.Cut(text, "(")
	inner, closed := strings.CutSuffix(inner, ")")
	if ok && !closed {
		return Arg{}, false
	}
	if !ok || strings.HasPrefix(strings.TrimSpace(inner), ",") {
		return r.absolute(disp, inner, pc)
	}
	a := Arg{Kind: Memory, Index: NoIndex}
	parts := strings.Split(inner, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	name, percent := strings.CutPrefix(parts[0], "%")
	if a.Reg, ok = r.table.registers[name]; !ok || !percent || len(parts) > 3 {
		return Arg{}, false
	}
	if !r.index(&a, parts[1:]) {
		return Arg{}, false
	}
	a.Value, ok = r.displacement(disp, parts[0] == "%rip", pc)
	return a, ok
}

// index parses "%rcx" and "%rcx,4" after the base of an operand.
func (r *reader) index(a *Arg, parts []string) (ok bool) {
	if len(parts) > 0 {
		name, percent := strings.CutPrefix(parts[0], "%")
		if a.Index, ok = r.table.registers[name]; !ok || !percent {
			return false
		}
	}
	if len(parts) > 1 {
		scale, _ := number(parts[1])
		if scale != 1 && scale != 2 && scale != 4 && scale != 8 {
			return false
		}
		a.Scale = uint8(bits.TrailingZeros64(uint64(scale)))
	}
	return true
}

// absolute parses "name+8" and "name(,%rax,8)": an address, such as that of a table, in a file that is not
// position-independent. The base is the probe's own address, which is known at run time.
func (r *reader) absolute(disp, inner string, pc uint64) (Arg, bool) {
	a := Arg{Kind: Memory, Reg: r.table.registers["rip"], Index: NoIndex}
	if inner != "" {
		parts := strings.Split(inner, ",")[1:]
		for i := range parts {
			parts[i] = strings.TrimSpace(parts[i])
		}
		if len(parts) > 2 || !r.index(&a, parts) {
			return Arg{}, false
		}
	}
	var ok bool
	if a.Value, ok = r.displacement(disp, true, pc); ok {
		return a, true // a name
	}
	if a.Value, ok = r.displacement(disp, false, pc); !ok || inner == "" {
		return Arg{}, false
	}
	a.Value -= int64(pc)
	return a, true
}

// displacement parses a number, a sum of numbers, or with an instruction-relative operand a
// symbol and a number: the assembler has subtracted the instruction's address.
func (r *reader) displacement(text string, relative bool, pc uint64) (int64, bool) {
	var sum int64
	symbol := false
	for rest := text; rest != ""; {
		end := 1
		for end < len(rest) && rest[end] != '+' && rest[end] != '-' {
			end++
		}
		term := strings.TrimPrefix(rest[:end], "+")
		rest = rest[end:]
		if v, ok := number(term); ok {
			sum += v
			continue
		}
		addr, ok := r.symbol(term)
		if !ok || symbol || !relative {
			return 0, false
		}
		symbol = true
		sum += int64(addr - pc)
	}
	return sum, symbol == relative
}

// arm64 reads "x0", "5", "[sp]", "[sp, 12]", "[x0, x1]" and "[x0, x1, lsl 3]".
func (r *reader) arm64(text string, _ uint64) (Arg, bool) {
	inner, memory := strings.CutPrefix(text, "[")
	if !memory {
		if reg, ok := r.table.registers[text]; ok {
			return Arg{Kind: Register, Reg: reg, Index: NoIndex}, true
		}
		v, ok := number(strings.TrimPrefix(text, "#"))
		return Arg{Kind: Const, Value: v}, ok
	}
	inner, closed := strings.CutSuffix(inner, "]")
	base, off, more := strings.Cut(inner, ",")
	a := Arg{Kind: Memory, Index: NoIndex}
	var ok bool
	if a.Reg, ok = r.table.registers[strings.TrimSpace(base)]; !ok || !closed {
		return Arg{}, false
	}
	if off = strings.TrimSpace(off); more {
		reg, shift, shifted := strings.Cut(off, ",")
		if index, ok := r.table.registers[strings.TrimSpace(reg)]; ok && off[0] == 'x' {
			a.Index = index
			if !shifted {
				return a, true
			}
			text, lsl := strings.CutPrefix(strings.TrimSpace(shift), "lsl")
			n, ok := number(strings.TrimPrefix(strings.TrimSpace(text), "#"))
			a.Scale = uint8(n)
			return a, lsl && ok && n >= 0 && n <= 4
		}
		a.Value, ok = number(strings.TrimPrefix(off, "#"))
		return a, ok
	}
	return a, true
}

// riscv reads "a0", "5" and "-20(s0)".
func (r *reader) riscv(text string, _ uint64) (Arg, bool) {
	disp, inner, memory := strings.Cut(text, "(")
	if !memory {
		if reg, ok := r.table.registers[text]; ok {
			return Arg{Kind: Register, Reg: reg, Index: NoIndex}, true
		}
		v, ok := number(text)
		return Arg{Kind: Const, Value: v}, ok
	}
	name, closed := strings.CutSuffix(inner, ")")
	reg, ok := r.table.registers[name]
	a := Arg{Kind: Memory, Reg: reg, Index: NoIndex}
	if disp != "" && ok {
		a.Value, ok = number(disp)
	}
	return a, ok && closed
}
