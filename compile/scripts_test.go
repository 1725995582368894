// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// scripts generates random scripts.
type scripts struct {
	rnd   *rand.Rand
	out   strings.Builder
	next  int
	loops int      // enclosing loops that break and continue can leave
	calls bool     // the script may call its own functions
	ints  []string // expressions of integers that are usable at this point
	bools []string
}

var intTypes = []string{"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}

func (s *scripts) pick(of ...string) string { return of[s.rnd.IntN(len(of))] }

func (s *scripts) one(in int) bool { return s.rnd.IntN(in) == 0 }

func (s *scripts) do(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

func (s *scripts) script() string {
	s.do("macro bump($v, n) { $v += n; }")
	s.do("macro larger(x, y) { x > y ? x : y }")
	if s.calls = s.one(5); s.calls {
		s.do("fn mix($a : int64, $b : uint64) : int64 { if ($a %s 3) { return $a %s 5; } return (int64)($b >> 1) ^ $a; }", s.pick("<", ">", "=="), s.pick("*", "-", "&"))
	}
	s.do("begin {")
	for i, typ := range intTypes {
		// The value depends on pid, so the compiler does not know it.
		s.do("let $%s : %s = (%s)%s; if (pid == 3) { $%s = (%s)%s; }", typ, typ, typ, s.number(), typ, typ, s.number())
		s.ints = append(s.ints, "$"+typ)
		if i%3 == 0 {
			s.do("@s%d = $%s;", i, typ)
			s.ints = append(s.ints, fmt.Sprintf("@s%d", i))
		}
	}
	room := s.pick("24", "24", "24", "16", "64", "72", "200")
	s.do(`let $s : string[%[1]s] = "abc"; let $t : string[%[1]s] = comm; let $pair = ($int8, $uint16, $s); @k[(int8)1, $s] = (int64)3;`, room)
	s.do(`let $known : int64 = %s; let $rec = (a=$int32, b=$uint8, c=(int64)%s); let $bytes = (uint8[8])(uint64)%s;`, s.number(), s.number(), s.number())
	s.do(`@m[(int64)1] = (int64)2; @n[(int64)1] = (int64)pid; @w[(int64)1] = $s; @p[(int64)1] = ((int8)1, (int64)2); @text = $s; @recs[(int64)1] = $rec; @arr[(int64)1] = $bytes; @pairs[(int64)1] = $pair;`)
	s.ints = append(s.ints, "$pair.0", "$pair.1", "$known", "$rec.a", "$rec.b", "$rec.c", "$bytes[0]", "$bytes[7]",
		"@m[(int64)1]", "@n[(int64)1]", "@m[(int64)$int8]", "@n[(int64)$int8]", "@p[(int64)$int8].0", "@p[(int64)1].1")
	s.do("let $flag : bool = %s;", s.condition(1))
	s.ints = append(s.ints, "(uint64)$flag")
	s.bools = append(s.bools, "$flag")
	if s.one(2) {
		s.do("let $mem : int64 = %s; $ptr = &$mem;", s.number())
		s.ints = append(s.ints, "$mem", "(*$ptr)")
	}
	for range 5 + s.rnd.IntN(10) {
		s.statement(3)
	}
	s.do("print(($int8, $int16, $int32, $int64, $uint8, $uint16, $uint32, $uint64)); print($pair); print($rec); print($known); print($s);")
	s.do("}")
	return s.out.String()
}

func (s *scripts) number() string {
	return s.pick("0", "1", "2", "3", "7", "8", "100", "127", "128", "255", "256", "32767", "32768", "65535", "65536", "2147483647", "2147483648",
		"4294967295", "4294967296", "9223372036854775807", "(-1)", "(-2)", "(-128)", "(-129)", "(-40000)", "(-2147483648)")
}

// divisor is a constant that is not 0.
func (s *scripts) divisor() string {
	return s.pick("1", "2", "3", "7", "8", "10", "16", "100", "255", "1000", "4096", "65537", "4294967296", "9223372036854775807")
}

// expr returns an expression of an integer, condition one of a bool; depth limits their nesting.
func (s *scripts) expr(depth int) string {
	if depth == 0 || s.one(6) {
		if s.one(4) {
			return s.number()
		}
		return s.pick(s.ints...)
	}
	x, y := s.expr(depth-1), s.expr(depth-1)
	switch s.rnd.IntN(18) {
	case 11:
		typ := s.pick(intTypes...) // operands of the same type, without casts
		return fmt.Sprintf("($%s %s $%s)", typ, s.pick("+", "-", "*", "&", "|", "^", "<", "=="), typ)
	case 12:
		return fmt.Sprintf("(-(int64)%s)", x)
	case 13:
		return s.pick("len(@m)", "strlen($s)", "strlen(@text)", "strlen($t)", fmt.Sprintf("larger((int64)%s, (int64)%s)", x, y))
	case 14:
		if s.calls {
			return fmt.Sprintf("mix((int64)%s, (uint64)%s)", x, y)
		}
	case 0, 1, 2:
		return fmt.Sprintf("((int64)%s %s (int64)%s)", x, s.pick("+", "-", "*", "&", "|", "^"), y)
	case 3:
		return fmt.Sprintf("((uint64)%s %s %d)", x, s.pick("<<", ">>"), s.rnd.IntN(64))
	case 4:
		return fmt.Sprintf("((uint64)%s %s (uint64)%s)", x, s.pick("/", "%"), y)
	case 5:
		return fmt.Sprintf("(%s ? (int64)%s : (int64)%s)", s.condition(depth-1), x, y)
	case 6:
		return fmt.Sprintf("(~(uint64)%s)", x)
	case 7:
		return fmt.Sprintf("((uint64)%s %s (uint64)%s)", x, s.pick("/", "%"), s.divisor())
	case 8:
		return fmt.Sprintf("((%s)(int64)%s %s (%s)(int64)%s)", s.pick("uint8", "uint16", "uint32"), x, s.pick("+", "-", "*", "&", "|", "^"), s.pick("uint8", "uint16", "uint32"), y)
	case 9:
		return fmt.Sprintf("((int64)%s %s ((uint64)%s & 63))", x, s.pick("<<", ">>"), y)
	case 10:
		return fmt.Sprintf("((%s[%d])(%s)(int64)%s)[%d]", s.pick("int8", "uint8"), 4, "uint32", x, s.rnd.IntN(4))
	}
	return fmt.Sprintf("((%s)(int64)%s)", s.pick(intTypes...), x)
}

func (s *scripts) condition(depth int) string {
	x, y := s.expr(depth), s.expr(depth)
	switch s.rnd.IntN(14) {
	case 8:
		return s.pick(append(s.bools, "true")...)
	case 9:
		return fmt.Sprintf("strcontains(%s, %s)", s.pick("$s", "$t", "@text"), s.pick(`"b"`, `"sh"`, `"yes"`))
	case 10:
		return fmt.Sprintf("($pair %s ((int8)%s, $uint16, $s))", s.pick("==", "!="), x)
	case 0:
		return fmt.Sprintf("(%s %s %s)", s.pick("$s", "@text", "@w[(int64)1]"), s.pick("==", "!="), s.pick("$t", `"abc"`, `"ab"`, "$pair.2", `""`))
	case 1:
		return fmt.Sprintf("(strncmp($t, %s, %d) == 0)", s.pick("$s", `"bash"`, `"abd"`), s.rnd.IntN(9))
	case 2:
		return fmt.Sprintf("((int64)%s > 5 %s (int64)%s == 1)", x, s.pick("&&", "||"), y)
	case 3:
		return fmt.Sprintf("((uint64)%s %s (uint64)%s)", x, s.pick("==", "!=", "<", "<=", ">", ">="), y)
	case 4:
		return fmt.Sprintf("((uint64)%s %s (uint64)%s)", x, s.pick("==", "!=", "<", "<=", ">", ">="), s.pick("0", "1", "100", "255", "65536", "4294967295", "4294967296", "9223372036854775807"))
	case 5:
		return fmt.Sprintf("((int64)%s %s %s)", x, s.pick("==", "!=", "<", "<=", ">", ">="), s.number())
	case 6:
		return fmt.Sprintf("has_key(%s, (int64)%s)", s.pick("@m", "@n", "@w", "@p"), s.key())
	case 7:
		return fmt.Sprintf("(!%s)", s.pick(s.ints...))
	}
	return fmt.Sprintf("((int64)%s %s (int64)%s)", x, s.pick("==", "!=", "<", "<=", ">", ">="), y)
}

// key returns a number that occurs often, so that elements are found again.
func (s *scripts) key() string {
	if s.one(4) {
		return s.expr(1)
	}
	return s.pick("1", "2", "$int8", "$uint8", "$int8", "$known", "$rec.b", "($int16 & 3)")
}

func (s *scripts) word() string {
	return s.pick(`"xyz"`, `"ab"`, `"abc"`, `""`, "$t", "$s", "@text", fmt.Sprintf("@w[(int64)%s]", s.key()),
		fmt.Sprintf("(%s ? %s : %s)", s.condition(1), s.pick(`"yes"`, "$t"), s.pick(`"no"`, "$s")))
}

// block writes several statements.
func (s *scripts) block(depth int) {
	known := len(s.ints)
	for range 1 + s.rnd.IntN(3) {
		s.statement(depth)
	}
	s.ints = s.ints[:known]
}

// statement writes one or more statements; blocks are nested at most depth deep.
func (s *scripts) statement(depth int) {
	typ := s.pick(intTypes...)
	switch s.rnd.IntN(47) {
	case 37: // objects as keys and values, copied between them
		s.do("@pk[$pair] %s (int64)%s;", s.pick("=", "+="), s.expr(1))
	case 38:
		s.do("@recs[(int64)%s] = $rec;", s.key())
	case 39:
		s.do("$rec = @recs[(int64)%s];", s.key())
	case 40:
		s.do("@p[(int64)%s] = @p[(int64)%s];", s.key(), s.key())
	case 41:
		s.do("@w[(int64)%s] = @w[(int64)%s]; $t = @w[(int64)%s];", s.key(), s.key(), s.key())
	case 42:
		s.do("$pair = (%s, %s, %s);", s.pick("$pair.0", "$int8"), s.pick("$pair.1", "$uint16"), s.pick("$pair.2", "$s", "$t"))
	case 43:
		s.do("$rec = (a=(int32)$rec.c, b=$rec.b, c=(int64)$rec.a);")
	case 44:
		s.do("@arr[(int64)%s] = $bytes; $bytes = @arr[(int64)%s]; print($bytes);", s.key(), s.key())
	case 45:
		s.do("@pairs[(int64)%s] = $pair; print(@pairs[(int64)%s]); $pair = @pairs[(int64)%s];", s.key(), s.key(), s.key())
	case 46:
		s.do("if %s { $s = $t; $t = %s; }", s.condition(1), s.word())
	case 28:
		s.do("for $kv : %s { $int64 += (int64)$kv.0 ^ (int64)$kv.1; $uint32++; }", s.pick("@m", "@n"))
	case 29:
		s.do("$int64 = if %s { (int64)%s } else { (int64)%s };", s.condition(1), s.expr(1), s.expr(1))
	case 30:
		s.do("$int64 = { let $q = (int64)%s; $int32++; $q %s $int64 };", s.expr(1), s.pick("+", "^"))
	case 31:
		s.do("bump($int64, (int64)%s);", s.expr(1))
	case 32:
		s.do("$flag = %s;", s.condition(2))
	case 33:
		s.do("$known = (int64)%s; @n[(int64)7] = (int64)%s;", s.pick("$int16++", "(++$uint8)", "$uint32--", "@s0++"), s.pick("$int32++", "(--$int8)"))
	case 34:
		s.do("@hk[%s] = hist((int64)%s); @lk[(int64)%s] = lhist((int64)%s, 0, 200, 7);", s.word(), s.expr(2), s.key(), s.expr(1))
	case 35:
		s.do("@both[(int8)%s, %s] = sum((int64)%s); @least = min((int64)%s);", s.key(), s.word(), s.expr(1), s.expr(1))
	case 36:
		s.do("@deep[((int8)%s, (int64)%s)] = ((int8)%s, ((int64)%s, $s)); print(@deep[((int8)%s, (int64)%s)].1.0);", s.key(), s.key(), s.expr(1), s.expr(1), s.key(), s.key())
	case 0, 1, 2:
		s.do("$%s = (%s)(int64)%s;", typ, typ, s.expr(3))
	case 3:
		s.do("printf(\"%%ld %%d %%s %s\\n\", %s, %s, $s, %s);", s.pick("%d", "%u", "%x", "%lx", "%lu"), s.expr(3), s.condition(2), s.expr(2))
	case 4:
		s.do("@k[(int8)%s, $s] %s (int64)%s;", s.expr(1), s.pick("=", "+=", "-=", "^="), s.expr(2))
	case 5:
		s.do("print((@k[(int8)%s, %s], %s));", s.expr(1), s.pick("$s", `"abc"`, `"x"`), s.expr(1))
	case 6:
		s.do("if %s { $s = %s; } else { $pair = ((int8)%s, $uint16, \"zz\"); }", s.condition(2), s.word(), s.expr(1))
	case 7:
		s.do("$%s%s; @s0%s;", typ, s.pick("++", "--"), s.pick("++", "--"))
	case 8:
		s.do("@%s = %s((int64)%s);", s.pick("a = count(); @sum = sum(1); @h", "h"), "hist", s.expr(2))
	case 9:
		s.do("if (has_key(@k, ((int8)%s, $s))) { _ = delete(@k, ((int8)%s, $s)); }", s.expr(1), s.expr(1))
	case 10: // maps with the same key
		key, other := s.key(), s.pick("@m", "@n")
		s.do("%s[(int64)%s] %s (int64)%s; %s[(int64)%s] %s (int64)%s;", s.pick("@m", "@n"), key, s.pick("=", "+=", "|="), s.expr(2), other, key, s.pick("=", "+=", "^="), s.expr(1))
	case 11:
		s.do("%s[(int64)%s]%s;", s.pick("@m", "@n"), s.key(), s.pick("++", "--"))
	case 12:
		s.do("_ = delete(%s, (int64)%s);", s.pick("@m", "@n", "@w", "@p"), s.key())
	case 13:
		s.do("@w[(int64)%s] = %s;", s.key(), s.word())
	case 14:
		s.do("%s = %s;", s.pick("$s", "@text"), s.word())
	case 15:
		s.do("@p[(int64)%s] = ((int8)%s, (int64)%s);", s.key(), s.expr(1), s.expr(1))
	case 16:
		s.do("$rec = (a=(int32)%s, b=(uint8)%s, c=(int64)%s);", s.expr(1), s.pick("$rec.b", s.expr(1)), s.expr(1))
	case 17:
		s.do("@c[(int64)%s] = count(); @top[(int64)%s] = max((int64)%s); @mean[%s] = avg((int64)%s);", s.key(), s.key(), s.expr(1), s.word(), s.expr(1))
	case 18:
		s.do("$known = %s;", s.pick("1", "2", "(int64)$int32", "(int64)"+s.expr(1)))
	case 19:
		s.do("$bytes = (uint8[8])(uint64)%s;", s.expr(2))
	case 20:
		s.do("$%s %s (%s)(int64)%s;", typ, s.pick("+=", "-=", "&=", "|=", "^="), typ, s.expr(2))
	case 21, 22, 23:
		if depth == 0 {
			return
		}
		s.do("if %s {", s.condition(1+s.rnd.IntN(2)))
		s.block(depth - 1)
		if s.one(2) {
			s.do("} else if %s {", s.condition(1))
			s.block(depth - 1)
		}
		if s.one(2) {
			s.do("} else {")
			s.block(depth - 1)
		}
		if s.one(12) {
			s.do("return;")
		}
		s.do("}")
	case 24, 25, 26:
		if depth > 1 && s.loops < 2 {
			s.loops++
			s.loop(depth - 2)
			s.loops--
		}
	case 27:
		s.do("@s3 = (int64)%s; @s6 = (uint32)%s;", s.expr(1), s.expr(1))
	}
}

// loop writes a loop that may be left in the middle.
func (s *scripts) loop(depth int) {
	s.next++
	i, known := fmt.Sprintf("$i%d", s.next), len(s.ints)
	leaves := true
	switch s.rnd.IntN(4) {
	case 0:
		s.do("%s = (int64)0; while (%s < %s) { %s++;", i, i, s.pick("3", "5", "(int64)$uint8 && "+i+" < 6"), i)
	case 1:
		s.do("%s = (int64)0; unroll(%d) { %s++;", i, 1+s.rnd.IntN(4), i)
		leaves = s.one(3)
	default:
		from, to := s.pick("0", "(-2)", "((int64)$int8 & 3)"), s.pick("3", "9", "((int64)$uint8 & 7)", "((int64)$int16 % 5)")
		s.do("for %s : %s..%s {", i, from, to)
	}
	s.ints = append(s.ints, i)
	for range 1 + s.rnd.IntN(3) {
		s.statement(depth)
		if leaves && s.one(3) {
			s.do("if %s { %s; }", s.condition(1), s.pick("break", "continue"))
		}
	}
	s.do("$%s ^= 1; }", s.pick(intTypes...))
	s.ints = s.ints[:known]
}
