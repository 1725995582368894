// SPDX-License-Identifier: Apache-2.0

// Package random compares random statements of the language: what btc and btrun, "btc run" and
// bpftrace print for each of them must be the same, and so must be which of them are refused.
//
//	go test ./tests/random                          200 statements
//	go test ./tests/random -v -statements 40000 -timeout 0   as many as one likes
//	go test ./tests/random -statements 50 -seed 7            the statements of one seed
//	go test ./tests/random -file x.txt              the statements of a file, one a line
//
// With -v, differences are printed when they are found, and the counts each half minute.
package random

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// A generator makes statements. Each is a line of its own in a script, in braces, and uses no map of another.
type generator struct {
	r      *rand.Rand
	args   bool     // the statement runs in a uprobe, and reads the arguments of its function
	number int      // of the statement, for the names of its maps
	before []string // what must come before the statement: declarations of its variables
	vars   []string // its variables that are integers
	texts  []string // its variables that are strings
}

var (
	sizes    = []string{"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}
	literals = []string{
		"0", "1", "2", "3", "4", "5", "7", "8", "9", "10", "31", "32", "63", "64", "100", "127", "128", "129", "200", "255", "256",
		"1000", "32767", "32768", "65535", "65536", "2147483647", "2147483648", "4294967295", "4294967296", "9223372036854775807",
		"9223372036854775808", "18446744073709551615", "0xff", "0x80", "0x7fff", "0xffffffff", "1e3", "1_000",
	}
	parameters = []string{"7", "-5", "9223372036854775807", "hello", "18446744073709551611", "0", "abc"} // $1 to $7
	numbers    = []string{"$1", "$2", "$3", "$5", "$6", "$#"}
	strs       = []string{`""`, `"a"`, `"ab"`, `"abc"`, `"hello"`, `"hello world"`, `"el"`, `"lo"`, `"xyz"`, `"-5"`}
	members    = []string{
		"args.p->i8", "args.p->u8", "args.p->i16", "args.p->u16", "args.p->i32", "args.p->u32", "args.p->i64", "args.p->u64", "args.p->b",
		"args.p->bits", "args.p->sbits", "args.p->au8[0]", "args.p->au8[3]", "args.p->ai8[1]", "args.p->ai16[2]", "args.p->au32[1]",
		"args.p->ab[1]", "args.p->in.x", "args.p->in.y[1]", "args.p->m[1][0]", "(int32)args.p->e",
		"args.a", "args.c", "args.s", "args.flag", "arg1", "arg2", "(int8)arg1", "(uint16)arg3", "(int32)arg2",
	}
	arrays     = []string{"args.p->au8", "args.p->ai8", "args.p->ai16", "args.p->au32", "args.p->ab", "args.p->in.y", "args.p->sc"}
	charArrays = []string{"args.p->name", "args.p->full", "args.p->uc", "args.p->in.tag"}
)

// The struct types of the script itself, and what its begin probe does before the statements.
const definitions = `enum color { RED, GREEN = 5, BLUE };
enum big { SMALL = 1, LARGE = 4294967301 };
struct own { char a; short b; int c; long d; unsigned char e[6]; struct { int x; long y; } f; };
config = { print_maps_on_exit = false; missing_probes = warn }
`

const preparation = `	@i8 = (int8)-5; @u8 = (uint8)250; @i16 = (int16)-300; @u16 = (uint16)65000; @i32 = (int32)-70000; @u32 = (uint32)4000000000; @i64 = (int64)-5000000000; @u64 = (uint64)18446744073709551000;
	@cnt = count(); @cnt = count(); @sum = sum(-7); @sum = sum(3); @usum = sum((uint64)9); @avg = avg(-3); @avg = avg(-4); @min = min(-8); @max = max((uint32)77);
	@k[1] = 10; @k[2] = -20; @str["a"] = "one"; @tup = ((int8)-1, (uint16)9, "x"); @flag = true; @e = GREEN;
`

// program is the program whose function the statements of uprobes see.
const program = `#include <stdint.h>
#include <stdbool.h>
enum shade { DARK = 3, LIGHT };
typedef uint8_t byte; typedef byte octet;
struct inner { int x; octet y[3]; char tag[4]; };
struct thing {
	int8_t i8; uint8_t u8; int16_t i16; uint16_t u16; int32_t i32; uint32_t u32; int64_t i64; uint64_t u64; bool b;
	unsigned bits : 5; int sbits : 6;
	uint8_t au8[4]; int8_t ai8[4]; int16_t ai16[3]; uint32_t au32[2]; bool ab[3]; char name[8]; char full[4]; unsigned char uc[4]; int8_t sc[3];
	struct inner in;  uint8_t m[2][2]; enum shade e;
};
__attribute__((noinline)) int f(struct thing *p, int a, unsigned char c, short s, bool flag) { __asm__ volatile("" ::: "memory"); return p->i32 + a + c + s + flag; }
int main(void) {
	static struct thing t = {
		-5, 250, -300, 65000, -70000, 4000000000u, -5000000000, 18446744073709551000u, true, 21, -9,
		{ 10, 0, 255, 3 }, { -1, 0, -128, 7 }, { -2, 0, 300 }, { 5, 4000000000u }, { true, false, true }, "dog", { 'f', 'u', 'l', 'l' }, { 'u', 0, 'c', 0 }, { -1, 2, 3 },
		{ -77, { 1, 0, 200 }, "tag" }, { { 1, 2 }, { 250, 4 } }, LIGHT,
	};
	return f(&t, -3, 200, -400, true) & 0;
}
`

func (g *generator) pick(all ...string) string { return all[g.r.IntN(len(all))] }

// one calls a function chosen at random.
func (g *generator) one(all ...func() string) string { return all[g.r.IntN(len(all))]() }

// statement returns the next statement.
func (g *generator) statement(number int) string {
	g.number, g.before, g.vars, g.texts = number, nil, nil, nil
	for range 1 + g.r.IntN(3) {
		g.variable()
	}
	if g.r.IntN(4) == 0 {
		g.text()
	}
	s := g.sink()
	return strings.Join(append(g.before, s), " ")
}

// variable declares a variable of a random type and value.
func (g *generator) variable() string {
	name := "$" + string(rune('a'+len(g.vars)))
	size := g.pick(sizes...)
	value := g.literal()
	switch g.r.IntN(8) {
	case 0:
		g.before = append(g.before, fmt.Sprintf("%s = %s;", name, value))
	case 1:
		g.before = append(g.before, fmt.Sprintf("%s = %s;", name, g.atom()))
	case 2:
		g.before = append(g.before, fmt.Sprintf("let %s : %s = (%s)%s;", name, size, size, value))
	default:
		g.before = append(g.before, fmt.Sprintf("%s = (%s)%s;", name, size, value))
	}
	g.vars = append(g.vars, name)
	return name
}

// text declares a string variable.
func (g *generator) text() {
	name := "$s" + strconv.Itoa(len(g.texts))
	value := g.pick(strs...)
	if g.r.IntN(3) == 0 {
		value = g.str(0)
	}
	g.before = append(g.before, fmt.Sprintf("%s = %s;", name, value))
	g.texts = append(g.texts, name)
}

func (g *generator) literal() string {
	l := g.pick(literals[:23]...)
	switch g.r.IntN(8) {
	case 0:
		l = g.pick(literals...)
	case 1:
		l = strconv.FormatUint(g.r.Uint64()>>g.r.IntN(64), 10)
	}
	if g.r.IntN(4) == 0 {
		return "-" + l
	}
	return l
}

// atom returns an integer without operators.
func (g *generator) atom() string {
	switch n := g.r.IntN(20); {
	case n < 7 && len(g.vars) > 0:
		return g.pick(g.vars...)
	case n < 9 && g.args:
		return g.pick(members...)
	case n < 12:
		return g.literal()
	case n < 14:
		return g.pick(numbers...)
	case n < 16:
		return g.pick("@i8", "@u8", "@i16", "@u16", "@i32", "@u32", "@i64", "@u64", "@k[1]", "@k[2]", "@k[3]", "@e")
	case n < 17:
		return g.pick("(int64)@cnt", "(int64)@sum", "(uint64)@usum", "(int64)@avg", "(int32)@min", "(uint8)@max", "len(@k)", "(uint64)@cnt")
	case n < 18:
		return g.pick("RED", "GREEN", "BLUE", "SMALL", "LARGE", "(enum color)5", "@tup.0", "@tup.1")
	default:
		return g.size()
	}
}

func (g *generator) size() string {
	switch g.r.IntN(4) {
	case 0:
		return "sizeof(" + g.pick(append([]string{"struct own", "enum color", "enum big", "bool"}, sizes...)...) + ")"
	case 1:
		return "offsetof(struct own, " + g.pick("a", "b", "c", "d", "e", "f", "f.x", "f.y") + ")"
	}
	return "sizeof(" + g.pick(g.int(1), g.int(2), g.boolean(1), g.str(1), g.tuple(1)) + ")"
}

// int returns an integer expression with at most depth levels of operators.
func (g *generator) int(depth int) string {
	if depth <= 0 {
		return g.atom()
	}
	sub := func() string { return g.operand(depth - 1) }
	switch g.r.IntN(20) {
	case 0:
		return "-(" + g.literal() + ")"
	case 1:
		return "-" + g.nonNegated(depth-1)
	case 2:
		return "~" + g.nonNegated(depth-1)
	case 3, 4, 5:
		return "(" + g.pick(sizes...) + ")" + sub()
	case 6, 7:
		return fmt.Sprintf("%s %s %s", sub(), g.pick("<<", ">>"), g.pick("1", "2", "3", "7", "8", "15", "31", "33", "(uint8)3", "(int8)5", "sizeof(int32)", "("+sub()+" & 63)"))
	case 8, 9, 10:
		return fmt.Sprintf("%s %s %s", sub(), g.pick("/", "%"), sub())
	case 11, 12:
		return fmt.Sprintf("%s ? %s : %s", g.condition(depth-1), g.branch(depth-1), g.branch(depth-1))
	case 13:
		return g.one(
			func() string { return fmt.Sprintf("%s ?: %s", g.branch(depth-1), g.branch(depth-1)) },
			func() string { return fmt.Sprintf("(%s, %s).%d", g.int(depth-1), g.int(depth-1), g.r.IntN(2)) },
			func() string { return fmt.Sprintf("(a=%s, b=%s).%s", g.int(depth-1), g.int(depth-1), g.pick("a", "b")) },
			func() string { return fmt.Sprintf("({ $z = %s; $z })", g.int(depth-1)) },
			func() string {
				return fmt.Sprintf("({ $z = %s; $z %s= %s; $z })", g.int(depth-1), g.pick("+", "-", "*", "|", "&", "^"), g.int(depth-1))
			},
			func() string {
				return fmt.Sprintf("({ $z = %s; %s })", g.int(depth-1), g.pick("$z++", "++$z", "$z--", "--$z"))
			},
			func() string {
				return fmt.Sprintf("(if %s { %s } else { %s })", "("+g.condition(depth-1)+")", g.branch(depth-1), g.branch(depth-1))
			},
			func() string { return fmt.Sprintf("((%s[])%s)[0]", g.pick("int8", "uint8"), g.wide(depth-1)) },
			func() string {
				return fmt.Sprintf("((%s[4])(%s)%s)[%d]", g.pick("int8", "uint8"), g.pick("int32", "uint32"), sub(), g.r.IntN(4))
			},
			func() string { return fmt.Sprintf("bswap(%s)", g.wide(depth-1)) },
		)
	case 14:
		return g.one(
			func() string { return "strlen(" + g.str(depth-1) + ")" },
			func() string {
				return fmt.Sprintf("strncmp(%s, %s, %d)", g.str(depth-1), g.str(depth-1), 1+g.r.IntN(6))
			},
			func() string { // not found: -1 or -2 (docs/language.md)
				a, b := g.str(depth-1), g.str(0)
				return fmt.Sprintf("(strstr(%s, %s) < 0 ? (int64)-1 : strstr(%s, %s))", a, b, a, b)
			},
			func() string { return fmt.Sprintf("(int64)(%s)", g.boolean(depth-1)) },
			func() string { return fmt.Sprintf("%s + %s", g.boolean(0), sub()) },
		)
	default:
		return fmt.Sprintf("%s %s %s", sub(), g.pick("+", "-", "*", "&", "|", "^", "+", "-"), sub())
	}
}

// wide returns an integer of a declared size.
func (g *generator) wide(depth int) string { return "(" + g.pick(sizes...) + ")" + g.operand(depth) }

// operand returns an integer expression that any operator may be next to.
func (g *generator) operand(depth int) string {
	s := g.int(depth)
	if strings.ContainsAny(s, " -~!?") {
		return "(" + s + ")"
	}
	return s
}

// branch returns an operand of ?: or a branch of an if. An assertion of bpftrace fails if one is - or ~ of an unsigned
// number of less than 64 bits; to find each such statement takes ten runs.
func (g *generator) branch(depth int) string {
	s := g.operand(depth)
	if strings.HasPrefix(s, "(-(u") || strings.HasPrefix(s, "(~(u") {
		return "(int64)" + s
	}
	return s
}

// nonNegated returns an operand for - and ~. A signed number of less than 64 bits is extended: bpftrace keeps its size, and
// shows the result as an unsigned number in some places (docs/language.md).
func (g *generator) nonNegated(depth int) string {
	return "(" + g.pick("int64", "uint64", "uint8", "uint16", "uint32") + ")" + g.operand(depth)
}

func (g *generator) condition(depth int) string {
	if g.r.IntN(3) == 0 {
		return g.operand(depth)
	}
	return g.boolean(depth)
}

func (g *generator) boolean(depth int) string {
	switch g.r.IntN(12) {
	case 0, 1, 2, 3, 4, 5:
		return fmt.Sprintf("(%s %s %s)", g.operand(depth), g.pick("<", ">", "<=", ">=", "==", "!="), g.operand(depth))
	case 6:
		return fmt.Sprintf("(%s %s %s)", g.condition(depth-1), g.pick("&&", "||"), g.condition(depth-1))
	case 7:
		return "!" + g.operand(depth)
	case 8:
		return fmt.Sprintf("(%s %s %s)", g.str(depth), g.pick("==", "!="), g.str(depth))
	case 9:
		return fmt.Sprintf("strcontains(%s, %s)", g.str(depth), g.str(depth))
	case 10:
		a, b, c, d := g.int(depth-1), g.int(depth-1), g.int(depth-1), g.int(depth-1)
		return g.pick("(bool)"+g.operand(depth), "@flag", "true", "false", "has_key(@k, 2)", fmt.Sprintf("((%s, %s) == (%s, %s))", a, b, c, d))
	}
	if g.args {
		a := g.pick(arrays...)
		return g.pick("args.p->b", "args.flag", fmt.Sprintf("(%s == %s)", a, a), fmt.Sprintf("(%s != %s)", a, a))
	}
	return fmt.Sprintf("(%s == %s)", g.wide(0), g.wide(0))
}

// str returns a string expression.
func (g *generator) str(depth int) string {
	switch n := g.r.IntN(14); {
	case n < 4 && len(g.texts) > 0:
		return g.pick(g.texts...)
	case n < 7 && g.args:
		return g.pick(charArrays...)
	case n < 8:
		return g.pick("str($4)", "str($4, 3)", "str($7)", "str($4, 100)", `@str["a"]`, `@str["b"]`, "@tup.2")
	case n < 10 && depth > 0:
		return fmt.Sprintf("(%s ? %s : %s)", g.condition(depth-1), g.str(0), g.str(0))
	}
	return g.pick(strs...)
}

func (g *generator) tuple(depth int) string {
	var parts []string
	for range 2 + g.r.IntN(2) {
		parts = append(parts, g.printable(depth-1))
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

// printable returns any value that print() accepts.
func (g *generator) printable(depth int) string {
	switch n := g.r.IntN(12); {
	case n == 0:
		return g.boolean(depth)
	case n == 1:
		return g.str(depth)
	case n == 2 && depth > 0:
		return g.tuple(depth)
	case n < 5 && g.args:
		return g.pick(g.pick(arrays...), g.pick(charArrays...), "args.p->m", "args.p->in")
	case n == 5:
		return g.pick("@e", "GREEN", "(enum color)"+g.operand(0), "(a="+g.int(0)+", b="+g.str(0)+")", "@tup")
	}
	return g.int(depth)
}

var formats = []string{
	"%d", "%i", "%u", "%x", "%X", "%o", "%ld", "%lld", "%lu", "%llu", "%lx", "%llx", "%hd", "%hhd", "%hu", "%hhu", "%hx", "%hhx", "%5d", "%-5d|", "%05d", "%+d", "% d", "%#x",
	"%jd", "%zd", "%p", "%lo", "%20ld", "%-20lu|", "%020lx", "%s", "%c",
}

// sink returns a statement that shows values.
func (g *generator) sink() string {
	m := fmt.Sprintf("@m%d", g.number)
	depth := 1 + g.r.IntN(3)
	switch g.r.IntN(20) {
	case 0, 1:
		f, args := "", ""
		for range 1 + g.r.IntN(3) {
			f += g.pick(formats...) + " "
			args += ", " + g.int(depth)
		}
		return fmt.Sprintf(`printf("%s\n"%s);`, f, args)
	case 2:
		return fmt.Sprintf(`printf("%s %s\n", %s, %s);`, g.pick("%s", "%5s", "%-8s|", "%10s"), g.pick("%s", "%3s"), g.printable(depth), g.str(depth))
	case 3:
		return fmt.Sprintf("%s = %s; print(%s);", m, g.printable(depth), m)
	case 4:
		return fmt.Sprintf("%s[%s] = 1; print(%s);", m, g.printable(depth), m)
	case 5:
		return fmt.Sprintf("%s[%s, %s] = %s; print(%s);", m, g.printable(depth-1), g.printable(depth-1), g.int(depth), m)
	case 6:
		fn, convert := g.pick("sum", "min", "max", "avg", "stats"), ""
		if fn == "stats" { // of both signs: see docs/language.md
			convert = g.pick("(int64)", "(uint64)", "(int8)", "(uint16)")
		}
		s := ""
		for range 1 + g.r.IntN(3) {
			s += fmt.Sprintf("%s = %s(%s%s); ", m, fn, convert, g.operand(depth))
		}
		return s + fmt.Sprintf("print(%s);", m)
	case 7:
		return fmt.Sprintf("%s = %s; print(%s);", m, g.one(func() string { return "hist(" + g.int(depth) + ")" }, func() string { return "lhist(" + g.int(depth) + ", 0, 100, 10)" }), m)
	case 8:
		return fmt.Sprintf("%s = %s; %s %s; print(%s);", m, g.wide(0), m, g.compound(depth), m)
	case 9:
		v := g.variable()
		return fmt.Sprintf("%s %s; print(%s);", v, g.compound(depth), v)
	case 10:
		v := g.variable()
		return fmt.Sprintf("print((%s, %s)); print(%s);", g.pick(v+"++", "++"+v, v+"--", "--"+v), g.int(depth), v)
	case 11:
		return fmt.Sprintf("if (%s) { print(1); } else { print(2); }", g.condition(depth))
	case 12:
		return fmt.Sprintf("print(%s);", g.tuple(depth))
	case 13:
		return fmt.Sprintf("print((%s, sizeof(%s)));", g.boolean(depth), g.printable(depth))
	case 14:
		return g.loop(m, depth)
	case 15:
		return g.keyed(m, depth)
	case 16:
		return g.bytes(m, depth)
	}
	return fmt.Sprintf("print(%s);", g.printable(depth))
}

// loop returns a loop, and a statement that shows what it did.
func (g *generator) loop(m string, depth int) string {
	n := 1 + g.r.IntN(4)
	body := g.pick(
		fmt.Sprintf("%s = sum((int64)%s);", m, g.operand(depth-1)),
		fmt.Sprintf("%s[$i] = %s;", m, g.printable(depth-1)),
		fmt.Sprintf("if (%s) { continue; } %s[$i, %s] = 1;", g.condition(depth-1), m, g.atom()),
		fmt.Sprintf("if (%s) { break; } %s = %s;", g.condition(depth-1), m, g.wide(0)),
		fmt.Sprintf("%s[%s] = count();", m, g.printable(depth-1)),
	)
	switch g.r.IntN(4) {
	case 0:
		return fmt.Sprintf("for ($i : 0..%d) { %s } print(%s);", n, body, m)
	case 1:
		return fmt.Sprintf("for ($i : %d..%d) { %s } print(%s);", n, n+3, body, m)
	case 2:
		return fmt.Sprintf("%s[1] = %s; for ($kv : %s) { print($kv); print(($kv.0, $kv.1)); }", m, g.printable(depth), m)
	}
	return fmt.Sprintf("$i = 0; unroll(%d) { $i += 1; %s = %s; print((%s, $i)); }", n, m, g.wide(0), m)
}

// keyed returns statements with the elements of a map that has keys.
func (g *generator) keyed(m string, depth int) string {
	key := g.pick("1", "(1, 2)", `"a"`, g.pick(g.vars...), "(uint8)3", g.wide(0))
	element := fmt.Sprintf("%s[%s]", m, key)
	switch g.r.IntN(6) {
	case 0:
		return fmt.Sprintf("%s = %s; %s %s; print(%s);", element, g.wide(0), element, g.compound(depth), m)
	case 1:
		return fmt.Sprintf("%s = (int64)%s; print((%s, %s)); print(%s);", element, g.operand(0), g.pick(element+"++", "++"+element, element+"--", "--"+element), g.int(depth), m)
	case 2:
		return fmt.Sprintf("%s = %s; print((has_key(%s, %s), delete(%s, %s), has_key(%s, %s), len(%s)));", element, g.printable(depth), m, key, m, key, m, key, m)
	case 3:
		return fmt.Sprintf("%s = %s; %s = %s; print(%s);", element, g.literal(), element, g.int(depth), m)
	case 4:
		f := g.pick("sum", "min", "max", "avg")
		return fmt.Sprintf("%s = %s((int64)%s); %s = %s((int64)%s); print((int64)%s + %s); print(%s, 1);", element, f, g.operand(depth), element, f, g.operand(depth), element, g.operand(0), m)
	}
	return fmt.Sprintf("%s = (%s, %s); print(%s.0); print(%s.1); print(%s);", element, g.int(depth), g.printable(depth-1), element, element, m)
}

// bytes returns a statement that shows bytes: buffers, addresses, casts to arrays and back.
func (g *generator) bytes(m string, depth int) string {
	long := []string{`"hello world"`, `"\x01\x7f\xffabc"`, `"123\x00456"`} // bpftrace reads what is after the string
	switch g.r.IntN(7) {
	case 0:
		return fmt.Sprintf(`printf("%s\n", buf(%s, %d));`, g.pick("%r", "%rx", "%rh"), g.pick(long...), 1+g.r.IntN(6))
	case 1:
		return fmt.Sprintf("%s[buf(%s, %d)] = %s; print(%s);", m, g.pick(long...), 1+g.r.IntN(6), g.int(depth), m)
	case 2:
		return fmt.Sprintf("print(ntop((uint32)%s));", g.operand(depth))
	case 3:
		return fmt.Sprintf("$p = (%s)%s; print($p); print($p[%d]);", g.pick("uint8[8]", "int8[8]", "uint16[4]", "int16[4]", "uint32[2]", "int32[2]"), "(uint64)"+g.operand(depth), g.r.IntN(2))
	case 4:
		return fmt.Sprintf("%s[(%s)%s, %s] = 1; print(%s);", m, g.pick("uint8[4]", "int8[4]", "uint16[2]"), "(uint32)"+g.operand(depth), g.atom(), m)
	case 5:
		return fmt.Sprintf("print(((%s)(%s)%s == (%s)(%s)%s));", "uint8[4]", "uint32", g.operand(0), "uint8[4]", "uint32", g.operand(0))
	}
	return fmt.Sprintf(`printf("%s %s\n", (enum color)%s, %s);`, g.pick("%s", "%d", "%5d"), g.pick("%s", "%d", "%x"), g.pick(g.vars...), g.pick("RED", "GREEN", "@e", "SMALL"))
}

// compound returns an assignment operator and its right side.
func (g *generator) compound(depth int) string {
	if g.r.IntN(4) == 0 {
		return g.pick("<<", ">>") + "= " + g.pick("1", "2", "3", "5", "(int8)4", "(uint16)6")
	}
	return g.pick("+", "-", "*", "/", "%", "&", "|", "^") + "= " + g.int(depth)
}
