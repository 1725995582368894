package driver

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"btc/frontend/diag"
	"btc/ir"
	"btc/ir/interp"
	"btc/ir/target"
	"btc/passes"
)

// TestRandomScripts compiles random scripts of integers, strings, tuples, maps and
// loops. The interpreter must see no difference between what the front end makes and
// what the passes make of it.
func TestRandomScripts(t *testing.T) {
	host, err := target.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(40) {
		text := (&scripts{rnd: rand.New(rand.NewPCG(seed, 7))}).script()
		if err := sameMeaning(host, text); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
	}
}

func sameMeaning(host *target.Target, text string) error {
	in, diags := Input{Name: "random.bt", Text: text, Target: host}, &diag.List{}
	in.fixed = in.newFixed()
	m := frontend(in, diag.NewSource(in.Name, in.Text), diags)
	if m == nil {
		return fmt.Errorf("refused: %v", diags.Sorted())
	}
	before, err := ir.Parse(m.String())
	if err != nil {
		return err
	}
	before.Target, before.Arches = m.Target, m.Arches
	if err := passes.Run(m, passes.Options{Verify: ir.VerifyStage}); err != nil {
		return err
	}
	inputs, err := interp.ParseInputs("run begin_0 pid=100 tid=100 mono=5 boot=7 cpu=1 comm=\"bash\"\nrun begin_0 pid=3 tid=4 mono=9 boot=9 comm=\"abc\"\n")
	if err != nil {
		return err
	}
	return interp.Equivalent(before, m, inputs)
}

// scripts writes random scripts.
type scripts struct {
	rnd  *rand.Rand
	out  strings.Builder
	next int
	ints []string // expressions of integers that can be used here
}

var intTypes = []string{"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}

func (s *scripts) pick(of ...string) string { return of[s.rnd.IntN(len(of))] }

func (s *scripts) do(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

func (s *scripts) script() string {
	s.do("begin {")
	for i, typ := range intTypes {
		// What pid is compared with decides: a number that the compiler does not know.
		s.do("let $%s : %s = (%s)%s; if (pid == 3) { $%s = (%s)%s; }", typ, typ, typ, s.number(), typ, typ, s.number())
		s.ints = append(s.ints, "$"+typ)
		if i%3 == 0 {
			s.do("@s%d = $%s;", i, typ)
			s.ints = append(s.ints, fmt.Sprintf("@s%d", i))
		}
	}
	s.do(`let $s = "abc"; let $t : string[20] = comm; let $pair = ($int8, $uint16, $s); @k[(int8)1, $s] = (int64)3;`)
	s.ints = append(s.ints, "$pair.0", "$pair.1")
	for range 7 {
		s.statement(2)
	}
	s.do("}")
	return s.out.String()
}

func (s *scripts) number() string {
	return s.pick("0", "1", "2", "7", "100", "127", "128", "255", "32767", "65536", "4294967295", "9223372036854775807", "(-1)", "(-2)", "(-128)", "(-40000)")
}

// expr is an integer, condition a truth value; depth bounds them.
func (s *scripts) expr(depth int) string {
	if depth == 0 || s.rnd.IntN(6) == 0 {
		if s.rnd.IntN(4) == 0 {
			return s.number()
		}
		return s.pick(s.ints...)
	}
	x, y := s.expr(depth-1), s.expr(depth-1)
	switch s.rnd.IntN(8) {
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
	}
	return fmt.Sprintf("((%s)(int64)%s)", s.pick(intTypes...), x)
}

func (s *scripts) condition(depth int) string {
	x, y := s.expr(depth), s.expr(depth)
	switch s.rnd.IntN(5) {
	case 0:
		return fmt.Sprintf("($s %s %s)", s.pick("==", "!="), s.pick("$t", `"abc"`, `"ab"`, "$pair.2"))
	case 1:
		return fmt.Sprintf("(strncmp($t, %s, %d) == 0)", s.pick("$s", `"bash"`, `"abd"`), s.rnd.IntN(9))
	case 2:
		return fmt.Sprintf("((int64)%s > 5 %s (int64)%s == 1)", x, s.pick("&&", "||"), y)
	}
	return fmt.Sprintf("((int64)%s %s (int64)%s)", x, s.pick("==", "!=", "<", "<=", ">", ">="), y)
}

// statement writes one or more statements, with loops at most depth deep.
func (s *scripts) statement(depth int) {
	typ := s.pick(intTypes...)
	switch s.rnd.IntN(12) {
	case 0, 1:
		s.do("$%s = (%s)(int64)%s;", typ, typ, s.expr(3))
	case 2:
		s.do("printf(\"%%ld %%d %%s\\n\", %s, %s, $s);", s.expr(3), s.condition(2))
	case 3:
		s.do("@k[(int8)%s, $s] %s (int64)%s;", s.expr(1), s.pick("=", "+=", "-=", "^="), s.expr(2))
	case 4:
		s.do("print((@k[(int8)%s, %s], %s));", s.expr(1), s.pick("$s", `"abc"`, `"x"`), s.expr(1))
	case 5:
		s.do("if %s { $s = %s; } else { $pair = ((int8)%s, $uint16, \"zz\"); }", s.condition(2), s.pick(`"xyz"`, `"ab"`, `"abc"`), s.expr(1))
	case 6:
		s.do("$%s%s; @s0%s;", typ, s.pick("++", "--"), s.pick("++", "--"))
	case 7:
		s.do("@%s = %s((int64)%s);", s.pick("a = count(); @sum = sum(1); @h", "h"), "hist", s.expr(2))
	case 8:
		s.do("if (has_key(@k, ((int8)%s, $s))) { _ = delete(@k, ((int8)%s, $s)); }", s.expr(1), s.expr(1))
	default:
		if depth > 0 {
			s.loop(depth - 1)
		}
	}
}

// loop writes a loop with ways out of its middle.
func (s *scripts) loop(depth int) {
	s.next++
	i, known := fmt.Sprintf("$i%d", s.next), len(s.ints)
	from, to := s.pick("0", "(-2)", "(int64)$int8 & 3"), s.pick("3", "9", "((int64)$uint8 & 7)", "((int64)$int16 % 5)")
	if strings.Contains(from, "&") {
		from = "(" + from + ")"
	}
	s.do("for %s : %s..%s {", i, from, to)
	s.ints = append(s.ints, i)
	for range 1 + s.rnd.IntN(3) {
		s.statement(depth)
		if s.rnd.IntN(3) == 0 {
			s.do("if %s { %s; }", s.condition(1), s.pick("break", "continue"))
		}
	}
	s.do("$%s ^= 1; }", s.pick(intTypes...))
	s.ints = s.ints[:known]
}
