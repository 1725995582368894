// SPDX-License-Identifier: Apache-2.0

package ir_test

import (
	"strings"
	"testing"

	"btc/internal/arch"
	"btc/ir"
	"btc/targets/kernel"
)

// ruleTables are maps and events in addition to verifyTables.
const ruleTables = `map (name @big, shape plain, value (kind string, size 16), key (kind int, size 8))
map (name @n, shape plain, value (kind int, size 8), key (kind int, size 8))
map (name @bare, shape plain)
map (name kstacks, shape stack, depth 10)
map (name ustacks, shape stack, depth 10, user)
event (name e1, kind printf, id 1, fields [(name a, layout (kind buffer, size 8))])
event (name e2, kind printf, id 2, fields [(name a, layout (kind int, size 8)), (name b, layout (kind int, size 8))])
meta (errors [(text "division by zero")])
func @cb(i64, mapval(@x)?) {
b0(v0:i64, v1:mapval(@x)?):
  ret v0
}
func @onstack(stack) {
b0(v0:stack):
  ret 0
}
`

// line returns the body of a program with an initialized slot of 16 bytes, followed by the given
// instructions.
func line(insns string) string {
	return "\n  slot s0 \"\" 16 align 8\nb0(v0:ctx):\n  memzero s0+0, #16\n  v8:i64 = nsecs\n  v9:kaddr = curtask\n  " +
		strings.ReplaceAll(insns, "; ", "\n  ") + "\n  ret 0"
}

// element returns the body of a program with an element of @x in v4.
func element(insns string) string { return line(lookup + insns + "; jump b2\nb2:") }

const lookup = "v2:mapval(@x)? = call map_lookup_elem(@x, s0+0); v3:i1 = icmp ne v2, null; br v3, b1, b2\nb1:\n  v4:mapval(@x) = nonnull v2; "

// record returns the body of a program with a record of 16 bytes in v4.
func record(insns string) string {
	return line("v2:ringbuf(16)? = call ringbuf_reserve(map(events), 16, 0); v3:i1 = icmp ne v2, null; br v3, b1, b2\nb1:\n  v4:ringbuf(16) = nonnull v2; " +
		insns + "; jump b2\nb2:")
}

// ruleCases are bodies of a kprobe program, each with part of the expected error.
var ruleCases = []struct{ name, body, want string }{
	// Operands and results.
	{"arithmetic on a bool", line("v1:i1 = icmp eq v8, 0; v2:i1 = add v1, 1"), "arithmetic on an i1"},
	{"arithmetic on a nullable pointer", line("v2:mapval(@x)? = call map_lookup_elem(@x, s0+0); v3:mapval(@x)? = add v2, 8"),
		"arithmetic on a nullable mapval(@x) before it was tested"},
	{"arithmetic on a kernel address", line("v1:kaddr = add v9, 8"), ""},
	{"arithmetic on a map", line("v1:map = add @x, 8"), "arithmetic on a map"},
	{"missing argument", line("v1:i64 = mul v8"), "1 arguments"},
	{"too many arguments", line("v1:i64 = mul v8, v8, v8"), "3 arguments"},
	{"a bool for an integer", line("v1:i1 = icmp eq v8, 0; v2:i64 = mul v8, v1"), "argument 2 is an i1, not an i64"},
	{"an integer for a bool", line("v1:i64 = boolint v8"), "argument 1 is an i64, not an i1"},
	{"an integer for an address", line("v1:i64 = read.u64 [v8]"), "argument 1 is an i64, not an address that cannot be null"},
	{"an integer for a pointer", line("v1:i64 = load.u64 [v8]"), "argument 1 is an i64, not a pointer that cannot be null"},
	{"a nullable pointer for an address", line("v2:mapval(@x)? = call map_lookup_elem(@x, s0+0); v1:i64 = read.u64 [v2]"),
		"argument 1 is a nullable mapval(@x), not an address that cannot be null"},
	{"an integer for a map", line("count v8"), "argument 1 is an i64, not a map"},
	{"no operand for a value", line("call ringbuf_output(v8); v1:i64 = opaque 1"), "expects 4 arguments"},
	{"missing width", line("v1:i64 = zext v8"), "no width"},
	{"result of an op without one", line("v1:i64 = memzero s0+0, #8"), "result must be void"},
	{"integer result", line("v1:kaddr = pid"), "result must be i64"},
	{"pointer result", line("v1:kaddr = add s0+0, 8"), "result must be stack"},
	{"result of nonnull", element("v5:mapval(@n) = nonnull v2"), "result must be mapval(@x)"},

	// Comparisons and selects.
	{"comparison of numbers and addresses", line("v1:i1 = icmp ult v8, v9"), ""},
	{"comparison of bools", line("v1:i1 = icmp eq v8, 0; v2:i1 = icmp eq v1, true"), ""},
	{"comparison of a bool with a number", line("v1:i1 = icmp eq v8, 0; v2:i1 = icmp eq v1, v8"), "an i1 cannot be compared with an i64"},
	{"comparison of two pointers", line("v1:i1 = icmp eq s0+0, s0+8"), "a stack cannot be compared with a stack"},
	{"comparison of a pointer with 1", line("v1:i1 = icmp eq s0+0, 1"), "a stack cannot be compared with an i64"},
	{"null on the left", line("v2:mapval(@x)? = call map_lookup_elem(@x, s0+0); v1:i1 = icmp uge null, v2"), "compared with null for eq or ne only"},
	{"select of numbers", line("v1:i1 = icmp eq v8, 0; v2:i64 = select v1, 1, 2"), ""},
	{"select of bools", line("v1:i1 = icmp eq v8, 0; v2:i1 = select v1, true, v1"), ""},
	{"select of different types", line("v1:i1 = icmp eq v8, 0; v2:i64 = select v1, v8, v9"), "select of i64 and kaddr to i64"},
	{"select to another type", line("v1:i1 = icmp eq v8, 0; v2:kaddr = select v1, 1, 2"), "select of i64 and i64 to kaddr"},
	{"select of pointers", line("v1:i1 = icmp eq v8, 0; v2:stack = select v1, s0+0, s0+8"), "select of stack and stack to stack"},
	{"nonnull of a number", line("v1:i64 = nonnull v8"), "an i64 needs no test"},
	{"nonnull of a pointer that cannot be null", line("v1:stack = nonnull s0+0"), ""},
	{"null test on the right", line("v2:mapval(@x)? = call map_lookup_elem(@x, s0+0); v3:i1 = icmp eq null, v2; br v3, b2, b1\nb1:\n  v4:mapval(@x) = nonnull v2; jump b2\nb2:"), ""},
	{"null test, wrong branch", line("v2:mapval(@x)? = call map_lookup_elem(@x, s0+0); v3:i1 = icmp eq v2, null; br v3, b1, b2\nb1:\n  v4:mapval(@x) = nonnull v2; jump b2\nb2:"),
		"v2 is not tested on every path to here"},
	{"null test with equal targets", line("v2:mapval(@x)? = call map_lookup_elem(@x, s0+0); v3:i1 = icmp ne v2, null; br v3, b1, b1\nb1:\n  v4:mapval(@x) = nonnull v2"),
		"v2 is not tested on every path to here"},
	{"null test of another pointer", line("v1:mapval(@x)? = call map_lookup_elem(@x, s0+0); v2:mapval(@x)? = call map_lookup_elem(@x, s0+8); v3:i1 = icmp ne v1, null; br v3, b1, b2\nb1:\n  v4:mapval(@x) = nonnull v2; jump b2\nb2:"),
		"v2 is not tested on every path to here"},
	{"cast of a map", line("v1:kaddr = cast @x"), ""},
	{"cast of an unknown map", line("v1:kaddr = cast @nix"), "map @nix is not declared"},
	{"cast of a map to a number", line("v1:i64 = cast @x"), "a map cannot become i64"},
	{"cast of a pointer to a number", line("v1:i64 = cast s0+0; v2:kaddr = cast s0+0"), ""},
	{"cast of a pointer to a user address", line("v1:uaddr = cast s0+0"), "a stack cannot become uaddr"},
	{"cast of a nullable pointer", line("v2:mapval(@x)? = call map_lookup_elem(@x, s0+0); v1:i64 = cast v2"), "a nullable mapval(@x) cannot become i64"},
	{"cast to a pointer", line("v1:stack = cast v8"), "an i64 cannot become stack"},
	{"cast of addresses", line("v1:uaddr = cast v9; v2:addr = cast v8"), ""},

	// Numbers in instructions.
	{"immediate", line("v1:i64 = nsecs #3"), ""},
	{"immediate too large", line("v1:i64 = nsecs #4"), "immediate is not in 0..3"},
	{"immediate too small", line("v1:i64 = nsecs #-1"), "immediate is not in 0..3"},
	{"swap of a byte", line("v1:i64 = bswap.u8 v8"), "width u8 is not one of [u16 u32 u64]"},
	{"sign extension of unsigned", line("v1:i64 = sext.u8 v8"), "width u8 is not one of [s8 s16 s32]"},
	{"current task as a number", line("v1:i64 = curtask"), "result cannot be i64"},
	{"current task as a typed pointer", line("v1:btf(struct task_struct) = curtask"), ""},
	{"relocation of a field", line("v1:i64 = core byte_off field(struct x:y)"), ""},
	{"relocation of a field without path", line("v1:i64 = core byte_off field(struct x)"), "do not match"},
	{"relocation of a type", line("v1:i64 = core type_size field(struct x); v2:i64 = core type_exists field(struct x)"), ""},
	{"relocation of a type with path", line("v1:i64 = core type_size field(struct x:y)"), "do not match"},
	{"relocation without a type", line("v1:i64 = core type_size"), "relocation without type or kind"},
	{"number of each architecture", line(`v1:i64 = perarch "x86_64=1 aarch64=2"`), ""},
	{"number for no architecture", line(`v1:i64 = perarch "aarch64=2"`), `no number for x86_64 in "aarch64=2"`},
	{"saved register", line("v1:i64 = saved arg0(v0)"), ""},
	{"unknown saved register", line("v1:i64 = saved tralala(v0)"), `has no "tralala"`},
	{"argument of a value other than the context", line("v1:i64 = arg s0+0, #1"), "reads the context, not a stack"},

	// Globals and tables.
	{"end of a global", line("v1:i64 = global.u32 g #4"), ""},
	{"outside of a global", line("v1:i64 = global.u32 g #5"), "outside of the global's 8 bytes"},
	{"before a global", line("v1:i64 = global.u32 g #-1"), "outside of the global's 8 bytes"},
	{"unknown global", line("v1:i64 = global.u32 h"), "global h is not declared"},
	{"address of a global", line("v1:mapval(.rodata) = globaladdr g; v2:i64 = load.u64 [v1]"), ""},
	{"address of a global as a number", line("v1:i64 = globaladdr g"), "result must be a mapval of the global's section"},
	{"past the end of a global's address", line("v1:mapval(.rodata) = globaladdr g #4; v2:i64 = load.u64 [v1]"), "bytes 0 to 8 are outside the mapval(.rodata) (4 bytes)"},
	{"run-time error", line("divzero #0"), ""},
	{"run-time error past the end", line("divzero #1"), "no run-time error with index 1"},
	{"run-time error before the first", line("divzero #-1"), "no run-time error with index -1"},

	// Strings and blocks of memory.
	{"whole slot", line("memcopy s0+0, s0+8, #8"), ""},
	{"copy past the end of the source", line("memcopy s0+0, s0+9, #8"), "operand: bytes 9 to 17 are outside slot s0"},
	{"copy past the end of the destination", line("memcopy s0+9, s0+0, #8"), "operand: bytes 9 to 17 are outside slot s0"},
	{"copy of no bytes", line("memcopy s0+0, s0+8, #0"), "0 bytes"},
	{"copy of far too many bytes", line("memcopy s0+0, s0+8, #1048577"), "1048577 bytes"},
	{"name of the thread", line("comm s0+0"), ""},
	{"name of the thread past the end", line("comm s0+1"), "destination: bytes 1 to 17 are outside"},
	{"literal that fits", line("strlit abc(s0+0), #3"), ""},
	{"comparison of no bytes", line("v1:i1 = streqmem s0+0, s0+8, #0"), "immediate is not in 1..1048576"},

	// Functions of the language.
	{"length of a string", line("v1:i64 = strlen v9, #16"), ""},
	{"length of an empty string", line("v1:i64 = strlen v9, #0"), "immediate is not in 1..1048576"},
	{"a search with a variable capacity", line("v1:i64 = strfind abc(v9, v8)"), "argument 2 is not a capacity"},
	{"a search of a variable capacity", line("v1:i64 = strfindmem v9, 16, v9, v8"), "argument 4 is not a capacity"},
	{"strings past the end", line("strconcat s0+8, v9, 8, v9, 8, #16"), "operand: bytes 8 to 24 are outside"},
	{"strings of a variable capacity", line("strconcat s0+0, v9, 8, v9, v8, #16"), "argument 5 is not a capacity"},
	{"bytes past the end", line("v1:i64 = memcmp s0+0, s0+8, #16"), "operand: bytes 8 to 24 are outside"},
	{"a read past the end", line("v1:i1 = readbytes s0+8, v8, v9, #16"), "operand: bytes 8 to 24 are outside"},
	{"the address of a map as a number", line("v1:i64 = mapaddr @x"), "result cannot be i64"},
	{"path of arbitrary memory", line("path s0+0, s0+0, #16"), "argument 2 is a stack, not a pointer to a kernel type"},
	{"cookie of arbitrary memory", line("v1:i64 = socketcookie s0+0"), "argument 1 is a stack, not a pointer to a kernel type"},
	{"packet of arbitrary memory", line("v1:i64 = skboutput e0(s0+0, v8), #0"), "argument 1 is a stack, not a pointer to a kernel type"},
	{"four arguments of debugf", line("debugf abc v8, v8, v8, v8"), "4 arguments, the helper takes 3"},
	{"a bool in debugf", line("v1:i1 = icmp eq v8, 0; debugf abc v1"), "argument cannot be an i1"},
	{"a signal to a session", line("signal 9, #2"), "immediate is not in 0..1"},
	{"override with other memory", line("override s0+0, 1"), "reads the context, not a stack"},

	// Maps.
	{"count of a plain map", line("count @x, s0+0"), "map @x is plain"},
	{"scalar of a map of strings", line("v1:i64 = mapget @big, s0+0"), "value of map @big is not a scalar"},
	{"scalar of a map without layout", line("v1:i64 = mapget @bare"), "value of map @bare is not a scalar"},
	{"scalar as a truth value", line("v1:i1 = mapget @n, s0+0"), "result cannot be i1"},
	{"scalar as an address", line("v1:kaddr = mapget @n, s0+0"), ""},
	{"a pointer as a scalar", line("mapset @n, s0+0, s0+0"), "value cannot be a stack"},
	{"a value of a map of strings", line("mapgetmem @big, s0+0, s0+0"), ""},
	{"a value past the end", line("mapgetmem @big, s0+8, s0+0"), "value of map @big: bytes 8 to 24 are outside"},
	{"a value without layout", line("mapgetmem @bare, s0+0"), "map @bare has no value layout"},
	{"a key past the end", line("v1:i64 = mapget @n, s0+9"), "key of map @n: bytes 9 to 17 are outside"},
	{"kernel stack", line("v1:i64 = kstack kstacks(v0), #10"), ""},
	{"kernel stack too deep", line("v1:i64 = kstack kstacks(v0), #11"), "does not fit stack map kstacks (depth 10)"},
	{"kernel stack of no frames", line("v1:i64 = kstack kstacks(v0), #0"), "does not fit stack map kstacks"},
	{"kernel stack in the user's map", line("v1:i64 = kstack ustacks(v0), #10"), "does not fit stack map ustacks"},
	{"user stack", line("v1:i64 = ustack ustacks(v0), #1"), ""},
	{"user stack in the kernel's map", line("v1:i64 = ustack kstacks(v0), #10"), "does not fit stack map kstacks"},
	{"stack in another map", line("v1:i64 = kstack @x(v0), #10"), "@x is not a stack map"},
	{"stack in no map", line("v1:i64 = kstack nix(v0), #10"), "nix is not a stack map"},

	// Iteration and loops.
	{"walk over a scalar", line("v1:i64 = mapiter @s"), "cannot iterate over scalar map @s"},
	{"walk", line("v1:i64 = mapiter @x; v2:mapval(@x)? = mapnext @x, v1"), ""},
	{"walk of another type", line("v1:i64 = mapiter @x; v2:mapval(@n)? = mapnext @x, v1"), "result must be mapval(@x)?"},
	{"walk that was not begun", line("v2:mapval(@x)? = mapnext @x, v8"), "v8 is not an iterator"},
	{"key of an element", element("v5:mapkey(@x) = mapkey v4"), ""},
	{"key of another type", element("v5:mapkey(@n) = mapkey v4"), "result must be mapkey(@x)"},
	{"key of what is not an element", line("v5:mapkey(@x) = mapkey s0+0"), "a stack is not an element of a map"},
	{"loop that was not begun", line("v1:i64 = rangenext v8"), "v8 is not a range iterator"},
	{"loop", line("v1:i64 = rangeiter 5; v2:i64 = rangenext v1; v3:i64 = rangecut v1"), ""},
	{"loop cut without a message", line("v1:i64 = rangeiter 5; v2:i64 = rangecut v1, #1"), "no run-time error with index 1"},
	{"element of another map", element("v5:i64 = elemget @n, v4"), "v4 is an element of another map"},
	{"element of a scalar map", element("v5:i64 = elemget @s, v4"), "@s is not a keyed map"},
	{"element", element("v5:i64 = elemget @x, v4"), ""},
	{"element as a truth value", element("v5:i1 = elemget @x, v4"), "result cannot be i1"},

	// Output.
	{"event", line("emit e0(v8)"), ""},
	{"event with memory", line("emit e0(s0+0)"), ""},
	{"event with a truth value", line("v1:i1 = icmp eq v8, 0; emit e0(v1)"), "field cannot be an i1"},
	{"event with a nullable pointer", line("v2:mapval(@x)? = call map_lookup_elem(@x, s0+0); emit e0(v2)"), "field cannot be a nullable mapval(@x)"},
	{"unknown event", line("emit nix(v8)"), "event nix is not declared"},
	{"join", line("join e1(v9), #1"), ""},
	{"join of no strings", line("join e1(v9), #0"), "join of 0 strings"},
	{"join to a number", line("join e0(v9), #1"), "event e0 is not declared with a single buffer"},
	{"join to two fields", line("join e2(v9), #1"), "event e2 is not declared with a single buffer"},
	{"join to no event", line("join nix(v9), #1"), "event nix is not declared with a single buffer"},

	// Memory.
	{"load of a pointer from memory", line("store.u64 [s0+0], v0; v1:ctx = load.u64 [s0+0]"), ""},
	{"load of a pointer from part of a word", line("v1:ctx = load.u32 [s0+0]"), "result cannot be ctx"},
	{"load of a pointer from a map", element("v5:ctx = load.u64 [v4]"), "result cannot be ctx"},
	{"load of a typed pointer", line("v1:btf(struct task_struct) = curtask; v2:btf(struct mm_struct) = load.u64 [v1+field(struct task_struct:mm)]"), ""},
	{"relocated fields of the context", line("v1:i64 = load.u64 [v0+400+field(struct x:y)]"), ""},
	{"before the context", line("v1:i64 = load.u64 [v0-8]"), "not a multiple of its size"},
	{"end of the context", line("v1:i64 = load.u64 [v0+160]"), ""},
	{"single bytes of the context", line("v1:i64 = load.u8 [v0+7]"), ""},
	{"store to a typed pointer", line("v1:btf(struct task_struct) = curtask; store.u64 [v1], 1"), "cannot store to a btf(struct task_struct)"},
	{"store to a key", element("v5:mapkey(@x) = mapkey v4; store.u64 [v5], 1"), "cannot store to a mapkey(@x)"},
	{"store of a bool", line("v1:i1 = icmp eq v8, 0; store.u64 [s0+0], v1"), "cannot store an i1"},
	{"store of a pointer", line("store.u64 [s0+0], s0+8"), ""},
	{"before a slot", line("v1:i64 = load.u8 [s0-1]"), "bytes -1 to 0 are outside slot s0"},
	{"end of a slot", line("v1:i64 = load.u8 [s0+15]"), ""},
	{"variable offset in a slot", line("v1:i64 = and v8, 15; v2:stack = add s0+0, v1; v3:i64 = load.u8 [v2]"), ""},
	{"variable offset outside of a slot", line("v1:i64 = and v8, 16; v2:stack = add s0+0, v1; v3:i64 = load.u8 [v2]"), "offset 0 to 16 and 1 bytes are outside slot s0"},
	{"variable offset before a slot", line("v1:i64 = and v8, 15; v2:stack = sub s0+0, v1; v3:i64 = load.u8 [v2]"), "offset -15 to 0 and 1 bytes are outside slot s0"},
	{"variable offset in the frame", "\n  slot s0 \"\" 16 align 8 frame -16\nb0(v0:ctx):\n  memzero s0+0, #16\n  v8:i64 = nsecs\n  v1:i64 = and v8, 15\n  v2:stack = add s0+0, v1\n  v3:i64 = load.u8 [v2]\n  ret 0",
		"variable offset in a slot of the frame"},
	{"atomic add", element("atomicadd.u64 [v4+8], 1; atomicadd.u32 [v4+4], 1"), ""},
	{"atomic add of a byte", element("atomicadd.u8 [v4], 1"), "atomic add of u8"},
	{"unaligned atomic add", element("atomicadd.u64 [v4+4], 1"), "atomic add is not aligned"},
	{"atomic add past the end", element("atomicadd.u64 [v4+16], 1"), "store: bytes 16 to 24 are outside the mapval(@x) (16 bytes)"},
	{"before a map value", element("v5:i64 = load.u8 [v4-1]"), "bytes -1 to 0 are outside the mapval(@x)"},
	{"a slot whose only write is one byte off", "\n  slot s0 \"\" 16 align 8\nb0(v0:ctx):\n  memzero s0+0, #7\n  v1:i64 = load.u64 [s0+0]\n  ret 0", "byte 7 of slot"},
	{"a slot that is written after the read", "\n  slot s0 \"\" 16 align 8\nb0(v0:ctx):\n  v1:i64 = load.u64 [s0+0]\n  memzero s0+0, #8\n  ret 0", "byte 0 of slot"},
	{"a slot written on both branches", "\n  slot s0 \"\" 8 align 8\nb0(v0:ctx):\n  v1:i64 = pid\n  v2:i1 = icmp eq v1, 1\n  br v2, b1, b2\nb1:\n  store.u64 [s0+0], 1\n  jump b3\nb2:\n  store.u64 [s0+0], 2\n  jump b3\nb3:\n  v3:i64 = load.u64 [s0+0]\n  ret v3", ""},
	{"a slot half written on each branch", "\n  slot s0 \"\" 8 align 8\nb0(v0:ctx):\n  v1:i64 = pid\n  v2:i1 = icmp eq v1, 1\n  br v2, b1, b2\nb1:\n  store.u32 [s0+0], 1\n  jump b3\nb2:\n  store.u32 [s0+4], 2\n  jump b3\nb3:\n  v3:i64 = load.u64 [s0+0]\n  ret v3", "byte 0 of slot"},
	{"the last bytes of a large slot", "\n  slot s0 \"\" 256 align 8\nb0(v0:ctx):\n  memzero s0+0, #248\n  v3:i64 = load.u64 [s0+248]\n  ret v3", "byte 248 of slot"},
	{"a large slot written in two parts", "\n  slot s0 \"\" 256 align 8\nb0(v0:ctx):\n  memzero s0+0, #100\n  memzero s0+100, #156\n  v1:i1 = memeq s0+0, s0+128, #128\n  ret 0", ""},
	{"scratch memory is never unwritten", "\n  slot s0 \"\" 8 align 8 scratch 0\nb0(v0:ctx):\n  v3:i64 = load.u64 [s0+0]\n  ret v3", ""},
	{"a helper writes", "\n  slot s0 \"\" 16 align 8\nb0(v0:ctx):\n  v1:i64 = call get_current_comm(s0+0, 16)\n  v3:i64 = load.u64 [s0+8]\n  ret v3", ""},
	{"a helper writes half of a slot", "\n  slot s0 \"\" 16 align 8\nb0(v0:ctx):\n  v1:i64 = call get_current_comm(s0+0, 8)\n  v3:i64 = load.u64 [s0+8]\n  ret v3", "byte 8 of slot"},
	{"memory read by a helper", "\n  slot s0 \"\" 16 align 8\nb0(v0:ctx):\n  store.u64 [s0+0], 1\n  v1:i64 = call ringbuf_output(map(events), s0+0, 16, 0)\n  ret 0", "argument 2 of ringbuf_output: byte 8 of slot"},
	{"compared strings", "\n  slot s0 \"\" 16 align 8\nb0(v0:ctx):\n  store.u64 [s0+0], 1\n  v1:i1 = memeq s0+0, s0+8, #8\n  ret 0", "byte 8 of slot"},
	{"a name writes 16 bytes", "\n  slot s0 \"\" 24 align 8\nb0(v0:ctx):\n  comm s0+0\n  v1:i64 = load.u64 [s0+8]\n  v3:i64 = load.u64 [s0+16]\n  ret v3", "byte 16 of slot"},
	{"a value writes its bytes", "\n  slot s0 \"\" 24 align 8\nb0(v0:ctx):\n  store.u64 [s0+16], 1\n  mapgetmem @big, s0+0, s0+16\n  v1:i64 = load.u64 [s0+8]\n  ret v1", ""},

	// Calls.
	{"subprogram", line("v1:i64 = callsub sub(v8)"), ""},
	{"subprogram without its argument", line("v1:i64 = callsub sub"), "subprogram sub has 1 parameters"},
	{"unknown subprogram", line("v1:i64 = callsub nix(v8)"), "subprogram nix is not declared"},
	{"a program as a subprogram", line("v1:i64 = callsub p(v8)"), "subprogram p is not declared"},
	{"a pointer for a nullable one", element("v5:i64 = callsub cb(1, v4)"), ""},
	{"callback", line("v1:i64 = call for_each_map_elem(@x, &cb, null:stack, 0)"), ""},
	{"callback with stack memory", line("v1:i64 = call for_each_map_elem(@x, &cb, s0+0, 0)"), ""},
	{"callback with a map value", element("v5:i64 = call for_each_map_elem(@x, &cb, v4, 0)"), "argument 3 is a mapval(@x), not stack memory or null"},
	{"a number as a callback", line("v1:i64 = call for_each_map_elem(@x, v8, null:stack, 0)"), "argument 2 is an i64, not a subprogram"},
	{"a program as a callback", line("v1:i64 = call for_each_map_elem(@x, &p, null:stack, 0)"), "argument 2 is a func, not a subprogram"},
	{"a map for a helper", line("v1:i64 = call map_delete_elem(v8, s0+0)"), "argument 1 is an i64, not a map"},
	{"an unknown map for a helper", line("v1:i64 = call map_delete_elem(@nix, s0+0)"), "map @nix is not declared"},
	{"a key for a helper", line("v1:i64 = call map_delete_elem(@x, v8)"), "argument 2 is an i64, not memory"},
	{"a key for a helper past the end", line("v1:i64 = call map_delete_elem(@x, s0+12)"), "key: bytes 12 to 20 are outside"},
	{"a value for a helper past the end", line("v1:i64 = call map_update_elem(@x, s0+0, s0+8, 0)"), "value: bytes 8 to 24 are outside"},
	{"a value for a helper", line("v1:i64 = call map_update_elem(@x, s0+0, s0+0, 0)"), ""},
	{"a nullable pointer for an untyped argument", line("v2:mapval(@x)? = call map_lookup_elem(@x, s0+0); v1:i64 = call map_update_elem(@x, s0+0, s0+0, v2)"),
		"argument 4 is a nullable mapval(@x), not a number or a pointer"},
	{"a map for an untyped argument", line("v1:i64 = call map_update_elem(@x, s0+0, s0+0, @x)"), "argument 4 is a map, not a number or a pointer"},
	{"a number for memory", line("v1:i64 = call probe_read_kernel(v8, 8, 0)"), "argument 1 is an i64, not memory"},
	{"a size that may be 0", line("v1:i64 = and v8, 15; v2:i64 = call get_current_comm(s0+0, v1)"), "argument 2 is a size that may be 0"},
	{"a size of another type", line("v2:i64 = call get_current_comm(s0+0, s0+0)"), "argument 2 is a stack, not a size"},
	{"a size past the end", line("v1:i64 = and v8, 31; v2:i64 = call probe_read_kernel(s0+0, v1, 0)"), "memory: bytes 0 to 31 are outside slot s0"},
	{"a size of a record", line("v2:ringbuf(0)? = call ringbuf_reserve(map(events), v8, 0)"), "argument 2 must be a constant size"},
	{"a size of something other than a record", line("v2:ringbuf(0)? = call ringbuf_reserve(map(events), 0, 0)"), "argument 2 must be a constant size"},
	{"a record of another size", line("v2:ringbuf(8)? = call ringbuf_reserve(map(events), 16, 0)"), "result must be ringbuf(16)?"},
	{"a map value as a record", element("call ringbuf_submit(v4, 0)"), "argument 1 is a mapval(@x), not a ring buffer record"},
	{"a record from its middle", record("v5:ringbuf(16) = add v4, 8; call ringbuf_submit(v5, 0)"), "argument 1 must point to the start of the record"},
	{"a record that is submitted twice", record("call ringbuf_submit(v4, 0); call ringbuf_discard(v4, 0)"), "may be released here: call ringbuf_discard"},
	{"a record that is discarded", record("call ringbuf_discard(v4, 0)"), ""},
	{"a record submitted on one branch", line("v2:ringbuf(16)? = call ringbuf_reserve(map(events), 16, 0); v3:i1 = icmp ne v2, null; br v3, b1, b2\nb1:\n  v4:ringbuf(16) = nonnull v2; v5:i1 = icmp eq v8, 0; br v5, b3, b2\nb3:\n  call ringbuf_submit(v4, 0); jump b2\nb2:"),
		"may be neither submitted nor discarded here: b2: ret 0"},
	{"a record per iteration", line("jump b3\nb3:\n  v2:ringbuf(16)? = call ringbuf_reserve(map(events), 16, 0); v3:i1 = icmp eq null, v2; br v3, b2, b1\nb1:\n  v4:ringbuf(16) = nonnull v2; call ringbuf_submit(v4, 0); v5:i1 = icmp eq v8, 0; br v5, b3, b2\nb2:"), ""},
	{"a record of the previous iteration", line("jump b3\nb3:\n  v2:ringbuf(16)? = call ringbuf_reserve(map(events), 16, 0); v3:i1 = icmp ne v2, null; br v3, b3, b2\nb2:"),
		"the record of the iteration before may be neither submitted nor discarded"},
	{"a record passed to a block", line("v2:ringbuf(16)? = call ringbuf_reserve(map(events), 16, 0); v3:i1 = icmp ne v2, null; br v3, b1, b2\nb1:\n  v4:ringbuf(16) = nonnull v2; jump b3(v4)\nb3(v5:ringbuf(16)):\n  call ringbuf_submit(v5, 0); store.u64 [v4], 1; jump b2\nb2:"),
		"may be released here: store.u64"},
	{"result of a helper as an address", line("v1:kaddr = call ktime_get_ns()"), ""},
	{"result of a helper as a pointer", line("v1:stack = call ktime_get_ns()"), "result must be i64, kaddr, uaddr or addr"},
	{"result of a helper without one", record("v5:i64 = call ringbuf_submit(v4, 0)"), "result must be void"},
	{"more than five arguments", line("v1:i64 = call ktime_get_ns(1, 2, 3, 4, 5, 6)"), "more than 5 arguments"},

	// Limits of the rules.
	{"a void operand for a value", line("v5:void = memzero s0+0, #8; emit e0(v5)"), "argument 1 is a void, not a value"},
	{"a string of the largest size", line("v1:i64 = strlen v9, #1048576"), ""},
	{"a string past the largest size", line("v1:i64 = strlen v9, #1048577"), "immediate is not in 1..1048576"},
	{"capacities", line("v1:i64 = strfind abc(v9, 1); v2:i64 = strfind abc(v9, 1048576)"), ""},
	{"a capacity of 0", line("v1:i64 = strfind abc(v9, 0)"), "argument 2 is not a capacity"},
	{"a capacity above the maximum", line("v1:i64 = strfind abc(v9, 1048577)"), "argument 2 is not a capacity"},
	{"a variable capacity of the first string", line("strconcat s0+0, v9, v8, v9, 8, #16"), "argument 3 is not a capacity"},
	{"the largest copy", "\n  slot s0 \"\" 1048576 align 8 scratch 0\nb0(v0:ctx):\n  memzero s0+0, #1048576\n  ret 0", ""},
	{"a read of a typed pointer", line("v1:btf(struct mm_struct) = read.u64 [v9]"), ""},
	{"a read of a bool", line("v1:i1 = read.u8 [v9]"), "result cannot be i1"},
	{"three arguments of debugf", line("debugf abc v8, s0+0, v9"), ""},
	{"a nullable pointer in debugf", line("v2:mapval(@x)? = call map_lookup_elem(@x, s0+0); debugf abc v2"), "argument cannot be a nullable mapval(@x)"},
	{"the packet of an event", line("v1:btf(struct sk_buff) = curtask; v2:i64 = skboutput e0(v1, v8), #0"), ""},
	{"the packet of a missing event", line("v1:btf(struct sk_buff) = curtask; v2:i64 = skboutput nix(v1, v8), #0"), "event nix is not declared"},
	{"the second argument of path", line("v1:btf(struct path) = curtask; path s0+0, v1, #17"), "operand: bytes 0 to 17 are outside"},
	{"cookie", line("v1:btf(struct sock) = curtask; v2:i64 = socketcookie v1"), ""},
	{"signal to a thread", line("signal 9, #1"), ""},
	{"write to user memory past the end", line("v1:i1 = writeuser v8, s0+8, #9"), "operand: bytes 8 to 17 are outside"},
	{"a value of 8 bytes as a scalar", line("v1:i64 = mapadd @n, 1, s0+0"), ""},
	{"a set of a map of strings", line("mapset @big, v8, s0+0"), "value of map @big is not a scalar"},
	{"no operand for a map op", line("mapset @n, v8"), "missing key for map @n"},
	{"elements of a map of strings", line("v2:i64 = mapiter @big; v3:mapval(@big)? = mapnext @big, v2; v4:i1 = icmp ne v3, null; br v4, b1, b2\nb1:\n  v5:mapval(@big) = nonnull v3; elemgetmem @big, s0+8, v5; jump b2\nb2:"),
		"value of map @big: bytes 8 to 24 are outside"},
	{"iterator passed to the loop", line("v1:i64 = mapiter @x; jump b1(v1)\nb1(v2:i64):\n  v3:mapval(@x)? = mapnext @x, v2"), ""},
	{"range iterator passed to the loop", line("v1:i64 = rangeiter 5; jump b1(v1)\nb1(v2:i64):\n  v3:i64 = rangenext v2"), ""},
	{"rangecut without an iterator", line("v1:i64 = rangecut v8"), "v8 is not a range iterator"},

	// More about memory.
	{"a load of 4 bytes in the middle of a word", line("v1:i64 = load.u32 [s0+4]"), ""},
	{"a load of 4 bytes across words", line("v1:i64 = load.u32 [s0+6]"), "access of 4 bytes is not aligned"},
	{"an offset in the slot's address and one in the load", line("v1:stack = add s0+4, 2; v2:i64 = load.u16 [v1+2]"), ""},
	{"the last byte of the context", line("v1:i64 = load.u8 [v0+167]"), ""},
	{"a pointer in the middle of a slot", line("v1:stack = add s0+0, 8; v2:i64 = load.u64 [v1]; v3:stack = sub v1, 8; v4:i64 = load.u64 [v3+8]"), ""},
	{"a pointer before the slot", line("v1:stack = sub s0+0, 8; v2:i64 = load.u64 [v1]"), "bytes -8 to 0 are outside slot s0"},
	{"unreachable code", line("ret 0\nb7:\n  v1:i64 = load.u64 [s0+99]; v2:i64 = call get_current_comm(s0+0, v8)"), ""},
	{"contradictory branches", line("v1:i64 = and v8, 7; v2:i1 = icmp ugt v1, 7; br v2, b1, b2\nb1:\n  v3:stack = add s0+0, v1; v4:i64 = load.u8 [v3+99]; jump b2\nb2:"), ""},
	{"a map without its BPF form", line("v2:mapval(@n)? = call map_lookup_elem(@n, s0+0); v3:i1 = icmp ne v2, null; br v3, b1, b2\nb1:\n  v4:mapval(@n) = nonnull v2; v5:i64 = load.u64 [v4+99]; jump b2\nb2:"), ""},
	{"an unbounded offset in a map without its BPF form", line("v2:mapval(@n)? = call map_lookup_elem(@n, s0+0); v3:i1 = icmp ne v2, null; br v3, b1, b2\nb1:\n  v4:mapval(@n) = nonnull v2; v6:mapval(@n) = add v4, v8; v5:i64 = load.u64 [v6]; jump b2\nb2:"),
		"offset in the map value is unbounded"},
	{"an unbounded offset in a slot", line("v1:stack = add s0+0, v8; v2:i64 = load.u8 [v1]"), "offset in slot s0 \"\" 16 align 8 is unbounded"},
	{"a store at a variable offset", "\n  slot s0 \"\" 8 align 8\nb0(v0:ctx):\n  v8:i64 = nsecs\n  v1:i64 = and v8, 7\n  v2:stack = add s0+0, v1\n  store.u8 [v2], 1\n  v3:i64 = load.u64 [s0+0]\n  ret v3", ""},
	{"the value of a map from memory", "\n  slot s0 \"\" 16 align 8\n  slot s1 \"\" 8 align 8\nb0(v0:ctx):\n  store.u64 [s1+0], 1\n  memzero s0+0, #15\n  mapsetmem @big, s0+0, s1+0\n  ret 0",
		"value of map @big: byte 15 of slot"},
	{"the second operand of a comparison", "\n  slot s0 \"\" 16 align 8\nb0(v0:ctx):\n  store.u64 [s0+8], 1\n  v1:i1 = memeq s0+8, s0+0, #8\n  ret 0", "byte 0 of slot"},
	{"a sum in a slot that was not written", "\n  slot s0 \"\" 8 align 8\nb0(v0:ctx):\n  atomicadd.u64 [s0+0], 1\n  ret 0", "atomicadd: byte 0 of slot"},
	{"a slot whose address is passed to a block", "\n  slot s0 \"\" 8 align 8\nb0(v0:ctx):\n  jump b1(s0+0)\nb1(v1:stack):\n  v2:i64 = load.u64 [s0+0]\n  ret v2", ""},
	{"a slot whose address is passed to a subprogram", "\n  slot s0 \"\" 8 align 8\nb0(v0:ctx):\n  v1:i64 = callsub onstack(s0+0)\n  v2:i64 = load.u64 [s0+0]\n  ret v2", ""},
	{"a slot passed to a callback", "\n  slot s0 \"\" 8 align 8\nb0(v0:ctx):\n  v1:i64 = call for_each_map_elem(@x, &cb, s0+0, 0)\n  v2:i64 = load.u64 [s0+0]\n  ret v2", ""},
	{"an edge that is never taken", "\n  slot s0 \"\" 8 align 8\nb0(v0:ctx):\n  v1:i64 = pid\n  v2:i1 = icmp eq v1, 1\n  br v2, b1, b2\nb1:\n  store.u64 [s0+0], 1\n  jump b3\nb2:\n  store.u64 [s0+0], 2\n  jump b3\nb3:\n  v3:i64 = load.u64 [s0+0]\n  ret v3\nb4:\n  jump b3", ""},
	{"a slot that a loop writes after it reads", "\n  slot s0 \"\" 8 align 8\nb0(v0:ctx):\n  jump b1\nb1:\n  v1:i64 = load.u64 [s0+0]\n  store.u64 [s0+0], 1\n  v2:i1 = icmp eq v1, 1\n  br v2, b1, b2\nb2:\n  ret 0", "byte 0 of slot"},
	{"a slot with different bytes written on two paths", "\n  slot s0 \"\" 8 align 8\nb0(v0:ctx):\n  v1:i64 = pid\n  store.u32 [s0+0], 1\n  v2:i1 = icmp eq v1, 1\n  br v2, b1, b2\nb1:\n  store.u16 [s0+4], 1\n  jump b3\nb2:\n  store.u32 [s0+4], 2\n  jump b3\nb3:\n  v3:i64 = load.u64 [s0+0]\n  ret v3", "byte 6 of slot"},
	{"bytes 63 and 64 of a slot", "\n  slot s0 \"\" 72 align 8\nb0(v0:ctx):\n  memzero s0+0, #63\n  store.u64 [s0+64], 0\n  v1:i64 = load.u8 [s0+64]\n  v3:i64 = load.u64 [s0+56]\n  ret v3", "byte 63 of slot"},

	// More about calls.
	{"a read of 8 bytes", line("v1:i64 = call probe_read_kernel(s0+0, 8, v9)"), ""},
	{"sizes that may be 0 if allowed", line("v1:i64 = and v8, 15; v2:i64 = call probe_read_kernel(s0+0, v1, 0)"), ""},
	{"a size of 0 if not allowed", line("v2:i64 = call get_current_comm(s0+0, 0)"), "argument 2 is a size that may be 0"},
	{"a size below the kernel's bound", line("v2:i64 = call get_current_comm(s0+0, 536870911)"), "memory: bytes 0 to 536870911 are outside"},
	{"a size at the kernel's bound", line("v2:i64 = call get_current_comm(s0+0, 536870912)"), "a size without bound"},
	{"six arguments of a subprogram", line("v1:i64 = callsub sub(1, 2, 3, 4, 5, 6)"), "more than 5 arguments"},
	{"too many arguments of a subprogram", line("v1:i64 = callsub sub(v8, v8)"), "subprogram sub has 1 parameters"},
	{"a record compared with itself as null", record("v5:i1 = icmp eq v4, null; call ringbuf_submit(v4, 0)"), ""},
	{"a record that is written, then submitted", record("v5:ringbuf(16) = add v4, 8; store.u64 [v5], v8; store.u64 [v4], v8; call ringbuf_submit(v4, 0)"), ""},
	{"a record written through another pointer after it was submitted", record("v5:ringbuf(16) = add v4, 8; call ringbuf_submit(v4, 0); store.u64 [v5], v8"), "may be released here: store.u64 [v5], v8"},
	{"a released record whose address is only computed", record("call ringbuf_submit(v4, 0); v5:ringbuf(16) = add v4, 8; v6:ringbuf(16) = sub v5, 8"), ""},
	{"a released record as the last operand", record("call ringbuf_submit(v4, 0); v5:i64 = call probe_read_kernel(s0+0, 8, v4)"), "may be released here: v5:i64 = call probe_read_kernel"},
	{"the end of a record", record("v5:i64 = load.u64 [v4+8]; call ringbuf_submit(v4, 0)"), ""},
	{"two records", record("v5:ringbuf(8)? = call ringbuf_reserve(map(events), 8, 0); v6:i1 = icmp eq v5, null; br v6, b4, b3\nb4:\n  call ringbuf_discard(v4, 0); ret 0\nb3:\n  v7:ringbuf(8) = nonnull v5; call ringbuf_submit(v7, 0); call ringbuf_submit(v4, 0)"), ""},
	{"two records, the first of which is leaked", record("v5:ringbuf(8)? = call ringbuf_reserve(map(events), 8, 0); v6:i1 = icmp eq v5, null; br v6, b4, b3\nb4:\n  ret 1\nb3:\n  v7:ringbuf(8) = nonnull v5; call ringbuf_submit(v7, 0); call ringbuf_submit(v4, 0)"),
		"the record reserved by v2:ringbuf(16)? = call ringbuf_reserve(map(events), 16, 0) may be neither submitted nor discarded here: b4: ret 1"},
}

func TestVerifyRules(t *testing.T) {
	for _, tt := range ruleCases {
		m, err := ir.Parse(verifyTables + ruleTables + "func @p prog (kind kprobe) {" + tt.body + "\n}\n")
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if m.Target, err = kernel.Default("x86_64"); err != nil {
			t.Fatal(err)
		}
		switch err := ir.Verify(m); {
		case err == nil && tt.want != "":
			t.Errorf("%s: no error, want %q", tt.name, tt.want)
		case err != nil && (tt.want == "" || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: error = %v, want %q", tt.name, err, tt.want)
		}
	}
}

// TestVerifyModule checks the errors about a module's tables and about functions as a whole.
func TestVerifyModule(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"map (name @x)\nmap (name @x)", "map @x is declared twice"},
		{"map (name @x, bpf (type hash))", `map @x: BPF name "" must be 1 to 15 bytes long`},
		{"map (name @x, bpf (type hash, name abcdefghijklmno))", ""},
		{"map (name @x, bpf (type hash, name abcdefghijklmnop))", "must be 1 to 15 bytes long"},
		{"global (name g, size 1)\nglobal (name g, size 1)", "global g is declared twice"},
		{"global (name x, size 1)\nmap (name x)", ""},
		{"global (name g)", "global g: size 0, initial value of 0 bytes"},
		{`global (name g, size 1, init "a")`, ""},
		{`global (name g, size 1, init "ab")`, "global g: size 1, initial value of 2 bytes"},
		{"event (name e)\nevent (name e, id 1)", "event e is declared twice"},
		{"event (name e)\nevent (name f, id 2)", "event f at index 1 has number 2"},
		{"func @f() {\nb0:\n  ret 0\n}\nfunc @f() {\nb0:\n  ret 0\n}", "function f is declared twice"},
		{"func @f prog (kind nonsense) {\nb0(v0:ctx):\n  ret 0\n}", `@f: unknown program kind "nonsense"`},
		{"func @f(i64, i64, i64, i64, i64) {\nb0(v0:i64, v1:i64, v2:i64, v3:i64, v4:i64):\n  ret 0\n}", ""},
		{"func @f(i64, i64, i64, i64, i64, i64) {\nb0(v0:i64, v1:i64, v2:i64, v3:i64, v4:i64, v5:i64):\n  ret 0\n}", "at most 5 parameters"},
		{"func @f(i64) {\nb0:\n  ret 0\n}", "entry block has 0 parameters, the function 1"},
		{"func @f() {\nb0:\n  jump b0\n}", "edge to the entry block"},
		{"func @f() {\nb0:\n  ret true\n}", "return value is i1, not i64"},
		{"func @f(i64) {\nb0(v0:i64):\n  br v0, b1, b2\nb1:\n  ret 0\nb2:\n  ret 0\n}", "condition is i64, not i1"},
		{"func @f() {\n  slot s0 \"\" 0 align 8\nb0:\n  ret 0\n}", "slot s0: size 0, alignment 8"},
		{"func @f() {\n  slot s0 \"\" 3 align 3\nb0:\n  ret 0\n}", "slot s0: size 3, alignment 3"},
		{"func @f() {\n  slot s0 \"\" 1 align 1\n  slot s1 \"\" 2 align 2\n  slot s2 \"\" 4 align 4\nb0:\n  ret 0\n}", ""},
		{"func @f() {\nb0:\n  v1:i64 = attachid\n  ret v1\n}", "only in a program, not in a subprogram"},
		{"func @f(i64) {\nb0(v0:i64):\n  v1:i64 = add v0, v2 !4:5\n  v2:i64 = add v0, v1\n  ret v2\n}", "4:5: @f: v2 is not defined on every path to its use: v1:i64 = add v0, v2"},
		{"func @f(i64) {\nb0(v0:i64):\n  v1:i64 = add v0, v1\n  ret v1\n}", "v1 is not defined on every path to its use"},
		{"func @f(i64) {\nb0(v0:i64):\n  jump b1\nb2:\n  v1:i64 = add v0, 1\n  ret v1\nb1:\n  ret v1\n}", "v1 is not defined on every path to its use: b1: ret v1"},
		{"func @f(btf(struct s)?) {\nb0(v0:btf(struct s)?):\n  jump b1(v0)\nb1(v1:btf(struct s)):\n  ret 0\n}", "argument v0 is btf(struct s)?, parameter v1 of b1 is btf(struct s)"},
		{"func @f(btf(struct s)) {\nb0(v0:btf(struct s)):\n  jump b1(v0)\nb1(v1:btf(struct s)?):\n  ret 0\n}", ""},
		{"global (name g, size -1)", "global g: size -1, initial value of 0 bytes"},
		{"event (name e)\nevent (name f, id 1)", ""},
		{"func @f() {\nb0:\n  jump b1\nb1:\n  jump b0\n}", "edge to the entry block: b1: jump b0"},
		{"func @f(i64) {\nb0(v0:i64):\n  jump b1(v0, v0)\nb1(v1:i64):\n  ret 0\n}", "2 arguments for 1 parameters of b1: b0: jump b1(v0, v0)"},
		{"func @f(i64, ctx) {\nb0(v0:i64, v1:i64):\n  ret 0\n}", "entry parameter 1 is i64, not ctx"},
		{"func @f() {\n  slot s0 \"\" 8 align 16\nb0:\n  ret 0\n}", "slot s0: size 8, alignment 16"},
		{"func @f(i64) {\nb0(v0:i64):\n  jump b1(v1)\nb1(v2:i64):\n  v1:i64 = add v0, 1\n  ret v2\n}", "v1 is not defined on every path to its use: b0: jump b1(v1)"},
		{"func @f(i64) {\nb0(v0:i64):\n  jump b1\nb1:\n  v1:i64 = add v2, 1\n  jump b2\nb2:\n  v2:i64 = add v0, 1\n  ret 0\n}", "v2 is not defined on every path to its use: v1:i64 = add v2, 1"},
		{"func @f(btf(struct s)?, btf(struct t)?) {\nb0(v0:btf(struct s)?, v1:btf(struct t)?):\n  jump b1(v1)\nb1(v2:btf(struct s)?):\n  ret 0\n}",
			"argument v1 is btf(struct t)?, parameter v2 of b1 is btf(struct s)?"},
		// An error in one function does not hide errors in others or in the tables.
		{"map (name @x)\nmap (name @x)\nfunc @f() {\nb0:\n  ret true\n}\nfunc @g() {\nb0:\n  ret true\n}",
			"map @x is declared twice\n@f: return value is i1, not i64: b0: ret true\n@g: return value is i1"},
	} {
		m, err := ir.Parse(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		switch err := ir.Verify(m); {
		case err == nil && c.want != "":
			t.Errorf("%s: no error, want %q", c.text, c.want)
		case err != nil && (c.want == "" || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: error = %v, want %q", c.text, err, c.want)
		}
	}
}

// TestVerifyStructure checks errors that cannot be expressed in the printed form.
func TestVerifyStructure(t *testing.T) {
	const text = "func @f(i64) {\n  slot s0 \"\" 8 align 8\nb0(v0:i64):\n  store.u64 [s0+0], v0\n  v1:i64 = add v0, 1\n  jump b1\nb1:\n  ret v1\n}\n"
	for want, spoil := range map[string]func(f *ir.Func){
		"no block":                           func(f *ir.Func) { f.Blocks = nil },
		"slot s0: number is not unique":      func(f *ir.Func) { f.Slots = append(f.Slots, f.Slots[0]) },
		"slot s7: number is not unique":      func(f *ir.Func) { f.Slots[0].ID = 7 },
		"block b0: number is not unique":     func(f *ir.Func) { f.Blocks[1].ID = 0 },
		"block b9: number is not unique":     func(f *ir.Func) { f.Blocks[1].ID = 9 },
		"block b-1: number is not unique":    func(f *ir.Func) { f.Blocks[1].ID = -1 },
		"the block is another function's":    func(f *ir.Func) { f.Blocks[1].Func = nil },
		"placed in b0 but its Block differs": func(f *ir.Func) { f.Blocks[0].Values[1].Block = f.Blocks[1] },
		"number is not unique: v0":           func(f *ir.Func) { f.Blocks[0].Values[1].ID = 0 },
		"number is not unique: v99":          func(f *ir.Func) { f.Blocks[0].Values[1].ID = 99 },
		"parameters and values are mixed":    func(f *ir.Func) { f.Blocks[0].Values[1].Op = ir.OpParam },
		"op cannot be placed in a block":     func(f *ir.Func) { f.Blocks[0].Values[1].Op = ir.OpConst },
		"b0: terminator with 0 edges":        func(f *ir.Func) { f.Blocks[0].Term.Succs = nil },
		"b1: terminator with 1 edges":        func(f *ir.Func) { f.Blocks[1].Term.Succs = f.Blocks[0].Term.Succs },
		"b1: terminator with 0 edges":        func(f *ir.Func) { f.Blocks[1].Term.Arg = nil },
		"b0: edge to a block of no":          func(f *ir.Func) { f.Blocks = f.Blocks[:1] },
		"an operand is nil":                  func(f *ir.Func) { f.Blocks[0].Values[1].Args[0] = nil },
		"is not placed in the function":      func(f *ir.Func) { f.Blocks[0].Remove(1) },
		"operand add has no number":          func(f *ir.Func) { f.Blocks[1].Term.Arg = &ir.Value{ID: -1, Op: ir.OpAdd, Type: ir.TI64} },
		"operand param has no number":        func(f *ir.Func) { f.Blocks[1].Term.Arg = &ir.Value{ID: -1, Op: ir.OpParam, Type: ir.TI64} },
		"slot is not the function's":         func(f *ir.Func) { f.Slots = nil },
		"operand s0+0: slot is not the fu":   func(f *ir.Func) { f.Blocks[0].Values[0].Args[0].Type = ir.TI64 },
	} {
		m := ir.MustParse(text)
		if err := ir.Verify(m); err != nil {
			t.Fatal(err)
		}
		spoil(m.Funcs[0])
		if err := ir.Verify(m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want %q", err, want)
		}
	}
}

// TestContextOfPrograms checks that loads from the context are limited to what each program type may
// read.
func TestContextOfPrograms(t *testing.T) {
	for _, c := range []struct{ kind, load, want string }{
		{"tracepoint", "load.u64 [v0+8]", ""},
		{"tracepoint", "load.u64 [v0]", "a tracepoint program can load only bytes 8 to 2048 of its context"},
		{"tracepoint", "load.u64 [v0+2040]", ""},
		{"tracepoint", "load.u64 [v0+2048]", "a tracepoint program can load only bytes 8 to 2048 of its context"},
		{"fentry", "load.u64 [v0]", ""},
		{"fentry", "load.u32 [v0]", "program cannot load 4 bytes from its context"},
		{"kprobe", "load.u32 [v0+2]", "not a multiple of its size"},
		{"kprobe", "load.u16 [v0+2]", ""},
	} {
		m := ir.MustParse("func @p prog (kind " + c.kind + ") {\nb0(v0:ctx):\n  v1:i64 = " + c.load + "\n  ret 0\n}\n")
		if err := ir.Verify(m); err != nil && !strings.Contains(c.want, "multiple") {
			t.Errorf("%s, %s without a target: %v", c.kind, c.load, err)
		}
		var err error
		if m.Target, err = kernel.Default("x86_64"); err != nil {
			t.Fatal(err)
		}
		switch err := ir.Verify(m); {
		case err == nil && c.want != "":
			t.Errorf("%s, %s: no error, want %q", c.kind, c.load, c.want)
		case err != nil && (c.want == "" || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s, %s: error = %v, want %q", c.kind, c.load, err, c.want)
		}
	}
}

// TestContextOfArchitectures checks that an object for several architectures may read up to the end of
// the largest context among them.
func TestContextOfArchitectures(t *testing.T) {
	body := "func @p prog (kind kprobe) {\nb0(v0:ctx):\n  v1:i64 = load.u64 [v0+168]\n  ret v1\n}\n"
	for _, c := range []struct {
		arches []*arch.Arch
		ok     bool
	}{{nil, false}, {[]*arch.Arch{arch.ByName("x86_64"), arch.ByName("arm64")}, true}} {
		m := ir.MustParse(body)
		var err error
		if m.Target, err = kernel.Default("x86_64"); err != nil {
			t.Fatal(err)
		}
		m.Arches = c.arches
		if err := ir.Verify(m); (err == nil) != c.ok {
			t.Errorf("%d architectures: error = %v", len(c.arches), err)
		}
	}
}
