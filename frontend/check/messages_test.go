// SPDX-License-Identifier: Apache-2.0

package check

import (
	"strings"
	"testing"

	"btc/frontend/diag"
)

// messages are the errors for invalid scripts, each with an example, the code, and a stable part of the
// message or hint. If bpftrace has the same error, the wording is the same.
var messages = []struct {
	script string
	code   diag.Code
	text   string
}{
	{`begin { $x = ; }`, "E0101", `expected expression`},
	{`{ print(1); }`, "E0101", `expected attach point`},
	{`begin /1 { print(1); }`, "E0101", `expected '/' to close predicate`},
	{`begin { print(1) print(2); }`, "E0101", `expected ';'`},
	{`import "x.bt" begin { }`, "E0101", `expected ';' after import`},
	{`import x; begin { }`, "E0101", `expected string after 'import'`},
	{`begin { $ = 1; }`, "E0101", `expected identifier after '$'`},
	{`begin { let x; }`, "E0101", `expected variable after 'let'`},
	{`begin { for x : @m { } }`, "E0101", `expected variable in for loop`},
	{`begin { for $x : 5 { } }`, "E0101", `expected map or range in for loop`},
	{`let m = hash(1); begin { }`, "E0101", `root-level let statements need to be map declarations, e.g. let @a = hash(2);`},
	{`let @m = hash(-1); begin { }`, "E0101", `expected positive integer for map declaration max entries`},
	{`begin { if 1 { } else print(1); }`, "E0101", `expected '{' or 'if' after 'else'`},
	{`fn f(x : int64) : void { } begin { }`, "E0101", `expected variable in function argument`},
	{`begin { pid++; }`, "E0106", `increment/decrement requires a variable or map`},
	{`begin { pid = 1; }`, "E0106", `invalid assignment target`},
	{`begin { print("\xzz"); }`, "E0103", `invalid hex escape sequence`},
	{`begin { print("\777"); }`, "E0103", `octal escape sequence out of range '\777'`},
	{`begin { print(1q); }`, "E0104", `invalid integer suffix 'q'`},
	{`begin { print(1_); }`, "E0104", `trailing underscore in integer literal`},
	{`begin { } )`, "E0101", `syntax: expected '{'`},
	{`begin { ) }`, "E0101", `unexpected input in block`},
	{`begin { print("abc); }`, "E0102", `unterminated string`},
	{`begin { print(&pid); }`, "E0106", `address-of operator (&) can only be used on a map or variable`},
	{`begin { print((x=1, x=2)); }`, "E0108", `Named argument list already contains name: x`},
	{`macro m(pid) { pid } begin { }`, "E0113", `builtin 'pid' can't be used as a macro argument`},
	{`let $x = 1; begin { }`, "E0101", `root-level let statements need to be map declarations, e.g. let`},
	{`begin { print($0); }`, "E0105", `param $0 is out of integer range`},
	{`struct x { int a; } __attribute__((packed; begin { }`, "E0112", `__attribute__ syntax error`},
	{`begin { print(foo); }`, "E0201", `Unknown identifier: 'foo'`},
	{`begin { foo(1); }`, "E0202", `Unknown function: 'foo'`},
	{`begin { print(@x); }`, "E0203", `Undefined map: @x`},
	{`begin { for $kv : @x { } }`, "E0203", `Undefined map: @x`},
	{`begin { print((enum foo)1); }`, "E0205", `Unknown enum: foo`},
	{`begin { print(((struct foo *)0)->x); }`, "E0205", `Unknown struct/union: 'struct foo'`},
	{`begin { $x = (foo *)0; }`, "E0205", `Cannot resolve unknown type "foo"`},
	{`begin { print($x); }`, "E0204", `Undefined or undeclared variable: $x`},
	{`begin { print(curtask.yy); }`, "E0206", `Struct/union of type 'struct task_struct' does not contain a field named 'yy'`},
	{`begin { $r = (x=1,z=2); print($r.y); }`, "E0206", `Record does not contain a field named 'y'`},
	{`begin { $a = 1; print($a.y); }`, "E0207", `Can not access field 'y' on expression of type 'int8'`},
	{`fentry:vfs_read { print(args.y); }`, "E0206", `Can't find function parameter y`},
	{`begin { $a = 1; print($a.0); }`, "E0207", `Can not access index '0' on expression of type 'int8'`},
	{`begin { $a = (1,2); print($a.5); }`, "E0208", `Invalid tuple index: 5. Found 2 elements in tuple.`},
	{`begin { $i = 1; $a = (1,2); print($a[$i]); }`, "E0207", `Array-style access for tuples only valid for integer literals`},
	{`begin { $i = 1; print($i[0]); }`, "E0207", `The array index operator [] can only be used on arrays, pointers, and tuples, found int8.`},
	{`begin { print(comm[-1]); }`, "E0207", `The array index operator [] only accepts non-negative integer indices. Got:`},
	{`begin { print(comm[50]); }`, "E0208", `the index 50 is out of bounds for array of size 16`},
	{`begin { $p = (void *)1; print($p[0]); }`, "E0207", `The array index operator [] cannot be used on a pointer to an unsized type`},
	{`tracepoint:sched:sched_switch { print(args.common_pid); }`, "E0206", `BPF does not support accessing common tracepoint fields`},
	{`begin { print(comm + 1); }`, "E0209", `The + operator can not be used on expressions of types`},
	{`begin { print(!comm); }`, "E0209", `The ! operator can not be used on expressions of type 'string[16]'`},
	{`begin { print(*comm); }`, "E0209", `Can not dereference type 'string[16]'. It is not a pointer.`},
	{`begin { print(**curtask); }`, "E0209", `Can not dereference struct/union of type 'struct task_struct'. It is not a pointer.`},
	{`struct A { int a[2]; } begin { $a = (struct A *)0; print($a.a < $a.a); }`, "E0209", `The < operator cannot be used on arrays.`},
	{`struct A { int a[2]; int b[3]; } begin { $a = (struct A *)0; print($a.a == $a.b); }`, "E0209", `Only arrays of same size support comparison operators.`},
	{`begin { print(1 == "a"); }`, "E0210", `Type mismatch for '==': comparing int8 with string[2]`},
	{`begin { if (comm) { } }`, "E0221", `Invalid condition: string[16]`},
	{`begin { print(pid ? 1 : "a"); }`, "E0227", `Branches must return the same type or compatible types: have 'int8' and 'string[2]'`},
	{`begin { @x = 1; @x = "a"; }`, "E0210", `Type mismatch for @x: trying to assign value of type 'string[2]' when map already has a type 'int8'`},
	{`begin { $x = 1; $x = "a"; }`, "E0210", `Type mismatch for $x: trying to assign value of type 'string[2]' when variable already has a type 'int8'`},
	{`begin { @x[1] = 1; @x["a"] = 1; }`, "E0211", `Argument mismatch for @x: trying to access with arguments: 'string[2]' when map expects arguments: 'int8'`},
	{`begin { @x[1] = 1; print(@x["a"]); }`, "E0211", `Argument mismatch for @x: trying to access with arguments: 'string[2]' when map expects arguments: 'int8'`},
	{`begin { $x = count(); }`, "E0212", `count() must be assigned directly to a map`},
	{`begin { @a = hist(1); @b[@a] = 1; }`, "E0212", `Value 'hist_t' cannot be used as a map key.`},
	{`begin { @a = stats(1); @b[(@a, 1)] = 1; }`, "E0212", `stats_t cannot be part of a map key`},
	{`kprobe:f { @a[ctx,1] = 1; }`, "E0212", `context cannot be part of a map key`},
	{`begin { @a = hist(1); print((@a, 1)); }`, "E0212", `Map type hist_t cannot exist inside a tuple.`},
	{`begin { @a = hist(1); print((b=@a, c=1)); }`, "E0212", `Map type hist_t cannot exist inside a record.`},
	{`begin { let $x : sum_t; }`, "E0220", `Invalid variable declaration type: sum_t`},
	{`let @a = percpuhash(1); begin { @a[1] = 1; }`, "E0228", `Incompatible map types. Type from declaration:`},
	{`begin { print((int64)comm); }`, "E0213", `Cannot cast from "string[16]" to "int64"`},
	{`begin { print((int64)*curtask); }`, "E0213", `Cannot cast from C type "struct task_struct"`},
	{`begin { print((struct nope)1); }`, "E0205", `Unknown struct/union: 'struct nope'`},
	{`begin { $x = (int32[])(int8)1; }`, "E0213", `Cannot determine array size: the element size is incompatible with the cast integer size`},
	{`enum E { A } begin { print((enum E)5); }`, "E0213", `doesn't contain a variant value of 5`},
	{`begin { print((int64)(int64)1); }`, "W0209", `Unnecessary cast: expression is already of type int64`},
	{`begin { $x = (int8)(1 + 2); }`, "W0209", `Unnecessary cast: expression is already of type int8`},
	{`begin { $x = (struct task_struct *)curtask; }`, "W0209", `Unnecessary cast: expression is already of type struct task_struct *`},
	{`tracepoint:syscalls:sys_enter_write { $x = (char *)args.buf; }`, "W0209", `Unnecessary cast: expression is already of type uint8 *`},
	{`begin { $x = (int16)300; }`, "W0209", `Unnecessary cast: expression is already of type int16`},
	{`begin { printf(1); }`, "E0218", `printf() expects a string literal as the first argument`},
	{`begin { clear(1); }`, "E0214", `clear() expects a map argument`},
	{`begin { $b = buf("abc", 3); print(buf($b, 2)); }`, "E0214", `buf() expects an integer, string, or array argument but saw buffer`},
	{`begin { print(buf((1, 2), 2)); }`, "E0214", `buf() expects an integer, string, or array argument but saw (int8,int8)`},
	{`begin { $x = 5; print(buf($x)); }`, "E0214", `buf() expects a length argument for non-array type int8`},
	{`begin { print(strncmp(1, "a", 1)); }`, "E0214", `only supports`},
	{`tracepoint:sched:sched_switch { override(1); }`, "E0216", `override can not be used with "tracepoint" probes`},
	{`begin { @ = hist(1, 9); }`, "E0214", `hist: bits 9 must be 0..5`},
	{`begin { @ = lhist(1, 0, 10, 0); }`, "E0214", `lhist() step must be >= 1 (0 provided)`},
	{`begin { @ = lhist(1, 0, 10000, 1); }`, "E0214", `lhist() too many buckets, must be <= 1000 (would need 10000)`},
	{`begin { @ = lhist(1, 10, 5, 1); }`, "E0214", `lhist() min must be less than max`},
	{`begin { @ = lhist(1, 0, 10, 20); }`, "E0214", `lhist() step is too large for the given range`},
	{`config = { unstable_tseries=enable } begin { @ = tseries(1, 1s, 2000000); }`, "E0214", `tseries() num_intervals must be < 1000000 (2000000 provided)`},
	{`begin { @ = hist(1, 1); @ = hist(1, 2); }`, "E0212", `Different bits in a single hist unsupported`},
	{`begin { @ = lhist(1, 0, 10, 1); @ = lhist(1, 0, 20, 1); }`, "E0212", `Different lhist bounds in a single map unsupported`},
	{`config = { unstable_dw_ustack=error } uprobe:a:b { @ = dw_ustack; }`, "E0219", `dw_ustack feature is not enabled by default. To enable this unstable feature, set the config flag to enable. unstable_dw_ustack=enable`},
	{`config = { unstable_dw_ustack=enable } uprobe:a:b { @ = dw_ustack(perf, 2000); }`, "E0214", `dw_ustack([int limit]): limit shouldn't exceed 1024, 2000 given`},
	{`config = { unstable_dw_ustack=enable } uprobe:a:b { @ = dw_ustack(fancy); }`, "E0214", `Invalid stack mode: fancy`},
	{`config = { unstable_tseries=enable } begin { @ = tseries(1, 1s, 2); @ = tseries(1, 1s, 3); }`, "E0212", `Different tseries bounds in a single map unsupported`},
	{`kprobe:f { @ = kstack(2000); }`, "E0214", `kstack([int limit]): limit shouldn't exceed 1024, 2000 given`},
	{`kprobe:f { print(reg("blah")); }`, "E0214", `'blah' is not a valid register on this architecture (x86_64)`},
	{`begin { print(pid(x)); }`, "E0214", `Invalid PID namespace mode: x (expects: curr_ns or init)`},
	{`begin { print(nsecs(x)); }`, "E0214", `Invalid timestamp mode: x`},
	{`begin { print(strftime("%H", nsecs(monotonic))); }`, "E0214", `strftime() can not take a monotonic timestamp`},
	{`begin { print(1, 2); }`, "E0214", `Non-map print() only takes 1 argument, 2 found`},
	{`begin { @a[1] = hist(1); print(@a[1]); }`, "E0212", `Map type hist_t cannot print the value of individual keys. You must print the whole map.`},
	{`begin { @a = 1; while (pid) { print(@a); } }`, "W0216", `Due to it's asynchronous nature using 'print()' in a loop can lead to unexpected behavior.`},
	{"struct s { char a[513]; };\nkprobe:f { @[*(struct s *)arg0] = 1; }", "E0212", `cannot be used as a map key`},
	{`begin { print(memcmp((uint32)1, (uint16)1, 3)); }`, "E0214", `memcmp() of type uint16 compares at most 2 bytes`},
	{`begin { print(sizeof({@a = 1; 1})); }`, "E0212", `Map assignments not allowed inside of sizeof`},
	{`begin { strncmp("a", "b", 1); }`, "W0203", `Return value discarded.`},
	{`interval:s:1 { print(args); }`, "E0216", `The args builtin can only be used with tracepoint, rawtracepoint, fentry/fexit, and uprobe probes`},
	{`fentry:bpf:12:y { print(args.z); }`, "E0216", `The args builtin cannot be used for 'fentry/fexit:bpf' probes`},
	{`interval:s:1 { print(arg0); }`, "E0216", `The arg0 builtin can only be used with 'kprobes', 'uprobes' and 'usdt' probes`},
	{`interval:s:1 { print(retval); }`, "E0216", `The retval builtin can only be used with 'kretprobe' and 'uretprobe' and 'fentry' probes`},
	{`tracepoint:syscalls:sys_exit_read { print(retval); }`, "E0216", ` (try to use args.ret instead)`},
	{`interval:s:1 { print(func); }`, "E0216", `The func builtin can not be used with`},
	{`tracepoint:sched:sched_switch { print(ctx); }`, "E0216", `Use args instead of ctx in tracepoint`},
	{`fn f() : void { print(probe); } begin { f(); }`, "E0216", `can only be used inside of a probe.`},
	{`begin { return "a"; }`, "E0225", `Probe return values can only be integers. Found string[2]`},
	{`foo:bar { }`, "E0301", `Invalid probe type: foo`},
	{`qqq*:bar { }`, "E0301", `No probe type matched for`},
	{`kprobe { }`, "E0302", `kprobe probe type requires 1 or 2 arguments, found 0`},
	{`kprobe: { }`, "E0302", `kprobes should be attached to a function or an address`},
	{`interval:foo:1 { }`, "E0302", `foo is not an accepted unit of time`},
	{`software:foo:1 { }`, "E0302", `foo is not a software probe`},
	{`hardware:foo:1 { }`, "E0302", `foo is not a hardware probe`},
	{`software:*:1 { }`, "E0302", `wildcards are not allowed for software probe type`},
	{`watchpoint:0x1000:3:w { }`, "E0302", `watchpoint length must be one of (1,2,4,8)`},
	{`watchpoint:0x1000:4:q { }`, "E0302", `watchpoint mode must be combination of (r,w,x)`},
	{`begin:x { }`, "E0302", `begin probe type requires 0 arguments, found 1`},
	{`self:x:y { }`, "E0302", `is not a supported trigger`},
	{`self:signal:FOO { }`, "E0302", `is not a supported signal`},
	{`kretprobe:f+3 { }`, "E0302", `Offset not allowed`},
	{`kprobe:f+3+4 { }`, "E0302", `Cannot take more than one offset`},
	{`kprobe:f+z { }`, "E0302", `Invalid offset`},
	{`uprobe:/bin/*:0x100 { }`, "E0302", `Cannot use wildcards with absolute address`},
	{`fentry:a:b:c { }`, "E0302", `Only the 'bpf' variant of this probe supports 4 arguments`},
	{`iter:task, iter:task_file { }`, "E0302", `iter probe only supports one attach point.`},
	{`interval:*:1 { }`, "E0302", `* is not an accepted unit of time`},
	{`uprobe:/bin/bash:x:readline { }`, "E0302", `unsupported language type: x`},
	{`begin { } struct A { int x; }`, "E0107", `C definitions must appear before probes and functions`},
	{`begin { } config = { max_strlen = 3 }`, "E0107", `config must appear before probes and functions`},
	{`begin { } import "x.bt";`, "E0107", `root imports must appear before probes and functions`},
	{`config = { max_strlen = 3 } config = { max_strlen = 3 } begin { }`, "E0107", `duplicate config block`},
	{`config = { X = 1 } begin { }`, "E0219", `X: not a known configuration option`},
	{`config = { btf = 1 } begin { }`, "E0219", `can only be set as an environment variable`},
	{`config = { symbol_source = 1 } begin { }`, "W0217", `is deprecated and has no effect`},
	{`config={license="Potato"} begin { }`, "E0219", `Invalid value for license. Found: Potato. Valid values:`},
	{`config = { max_strlen = "x" } begin { }`, "E0219", `Invalid value for max_strlen. Found: x. Expected a number from 1 to`},
	{`config = { print_maps_on_exit = 2 } begin { }`, "E0219", `Found: 2. Valid values: true, false, 1, 0`},
	{`let @a = percpuhash(5); begin { @a[1] = 1; }`, "E0228", `a value of type int8 needs a hash or lruhash: write let @a = hash(5)`},
	{`let @a = lruhash(5); begin { @a[1] = count(); }`, "E0228", `count() needs a percpuhash or percpulruhash: write let @a = percpuhash(5)`},
	{`interval:s:x { }`, "E0302", `Invalid rate of interval probe: invalid integer: x`},
	{`let @a = foo(1); begin { @a[1] = 1; }`, "E0228", `Invalid bpf map type: foo`},
	{`let @a = foo(1); begin { @a[1] = 1; }`, "E0228", `Valid map types: hash, lruhash, percpuhash, percpulruhash`},
	{`let @a = hash(1); begin { }`, "W0206", `Unused map: @a`},
	{`begin { @a = 1; @a[1] = 1; }`, "E0211", `@a used as a map with an explicit key (non-scalar map), previously used without an explicit key (scalar map)`},
	{`begin { @a[1] = 1; @a = 1; }`, "E0211", `@a used as a map without an explicit key (scalar map), previously used with an explicit key (non-scalar map)`},
	{`begin { print(hist(1)); }`, "E0212", `hist() must be assigned directly to a map`},
	{`begin { @a[1] = hist(1); for $kv : @a { } }`, "E0212", `Loop expression does not support type: hist_t`},
	{`begin { unroll(101) { } }`, "E0231", `unroll maximum value is 100`},
	{`begin { unroll(0) { } }`, "E0231", `unroll minimum value is 1`},
	{`begin { for $i : 0..3 { if $i { return 1; } return; } }`, "E0225", `Return value used in loop is inconsistent`},
	{`begin { return; print(1); }`, "W0202", `Unreachable statement.`},
	{`macro m() { @x = 1; } begin { m(); }`, "E0116", `Unhygienic access to map: @x`},
	{`macro a() { b() } macro b() { a() } begin { a(); }`, "E0117", `Recursive macro call detected. Call chain: a > b > a`},
	{`macro a() { return; } begin { a(); }`, "E0114", `'return' statement is not allowed in a macro`},
	{`begin { $t = (1,2); $t.0 = 3; }`, "E0106", `Tuples and records are immutable once created. Consider creating a new value and assigning it instead.`},
	{`begin { print(comptime pid); }`, "E0218", `Unable to resolve comptime expression`},
	{`begin { print(getopt("a", pid)); }`, "E0214", `Second argument to 'getopt' must be a string literal, integer literal, or a boolean literal.`},
	{`begin { @a = 1; print(has_key(@a, 2)); }`, "E0211", `call to has_key() expects a map with explicit keys`},
	{`begin { @a = 1; print(len(@a)); }`, "E0211", `expects a map with explicit keys (non-scalar map)`},
	{`begin { @g[1,"ab"] = 1; print(has_key(@g, (1,2))); }`, "E0211", `Argument mismatch for @g: trying to access with arguments: '(int8,int8)' when map expects arguments: '(int8,string[3])'`},
	{`begin { print(str(0, 5000)); }`, "W0210", `length param (5000) is too long and will be shortened to`},
	{`uprobe:/bin/sh:main { print(uaddr("?")); }`, "E0214", `uaddr() expects a string that is a valid symbol ("?" provided)`},
	{`begin { print(-1 < 18446744073709551615); }`, "E0223", `unable to fold literals due to overflow or underflow`},
	{`begin { print(18446744073709551615 && -1); }`, "E0223", `unable to fold literals due to overflow or underflow`},
	{`begin { print(true % false); }`, "E0223", `unable to fold literals due to overflow or underflow`},
	{`tracepoint:no:such { }`, "W0215", `does not exist in the target's kernel`},
}

// TestProbeAsText checks that the name of the probe is a constant string if it is known.
func TestProbeAsText(t *testing.T) {
	for _, expr := range []string{`strcontains(probe, "vfs")`, `strncmp(probe, "kprobe", 6)`, `strlen(probe)`} {
		mustCheck(t, "kprobe:vfs_read { print("+expr+"); }")
		mustCheck(t, "kprobe:vfs_* { print("+expr+"); }")
		mustCheck(t, "interval:$1:1 { $x = probe; print($x == \"interval:s:1\"); }")
	}
}

func TestMessages(t *testing.T) {
	for _, m := range messages {
		_, l := checkText(m.script)
		if !says(l, m.code, m.text) {
			var b strings.Builder
			diag.Render(&b, l, diag.RenderOptions{})
			t.Errorf("%s\nwant %s: %s\ngot %s", m.script, m.code, m.text, &b)
		}
	}
}

// TestTooLargeSaysNothingOfMaps checks that a map that is written only in a part that is too large to
// check is not reported as unwritten.
func TestTooLargeSaysNothingOfMaps(t *testing.T) {
	for _, read := range []string{"print(@x)", "$y = @x + 1", "@z = @x"} {
		_, l := checkText("begin { " + read + "; unroll(100) { unroll(100) { unroll(100) { @a++; @b++; } } } @x = 1; }")
		if l.Len() != 1 || !says(l, diag.TooLarge, "statements") {
			var b strings.Builder
			diag.Render(&b, l, diag.RenderOptions{})
			t.Errorf("%s\nwant one message, got\n%s", read, &b)
		}
	}
}

// says reports whether the message or hint of a diagnostic with the given code contains text.
func says(l *diag.List, code diag.Code, text string) bool {
	for _, d := range l.Sorted() {
		for _, s := range append([]string{d.Message}, d.Hints...) {
			if d.Code == code && strings.Contains(s, text) {
				return true
			}
		}
	}
	return false
}

// TestAllErrorsAtOnce checks that all errors are reported in one run: maps that are never written along
// with other mistakes.
func TestAllErrorsAtOnce(t *testing.T) {
	_, l := checkText(`kprobe:vfs_read /@strat[tid]/ {
  @start[tid] = nsecs;
  print(foo);
  print(@nope);
  @y = @never[1];
  $a = $undefined;
  bar(1);
  print(curtask.nofield);
  printf("%d", "x", @never2 + 1);
}`)
	for _, m := range []struct {
		code diag.Code
		text string
	}{
		{diag.NeverWritten, "@strat is read, but never written"}, {diag.NeverWritten, "did you mean @start?"}, {diag.UnknownName, "'foo'"},
		{diag.UndefinedMap, "Undefined map: @nope"}, {diag.NeverWritten, "@never is read"}, {diag.UndefinedVar, "$undefined"},
		{diag.UnknownFunction, "'bar'"}, {diag.UnknownField, "'nofield'"}, {diag.BadFormat, "too many arguments"}, {diag.NeverWritten, "@never2 is read"},
	} {
		if !says(l, m.code, m.text) {
			t.Errorf("message not found: %s: %s", m.code, m.text)
		}
	}
}
