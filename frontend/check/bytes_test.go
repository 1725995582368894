// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"
	"testing"
)

// TestBytes checks which arrays of one-byte integers are strings, and of which strings the bytes after a NUL are kept. In
// bpftrace, those of char are strings in all types of the kernel and of programs; of others, all in kernel structs and
// none in tracepoints.
func TestBytes(t *testing.T) {
	for _, tt := range []struct {
		probe, expr, typ string
		raw              bool
	}{
		{"tracepoint:sock:inet_sock_set_state", "args.daddr", "uint8[4]", false},
		{"tracepoint:sock:inet_sock_set_state", "args.daddr_v6[10]", "uint8", false},
		{"tracepoint:sched:sched_switch", "args.next_comm", "string[16]", false},
		{"kprobe:f", "curtask->comm", "string[16]", false},
		{"kprobe:f", "((struct in6_addr *)arg0)->in6_u.u6_addr8", "string[16]", true},
		{"kprobe:f", "((struct in6_addr *)arg0)->in6_u.u6_addr8[3]", "int8", false},
	} {
		e := exprOf(t, mustCheck(t, tt.probe+" { print("+tt.expr+"); }"))
		if e.Type.String() != tt.typ || e.Type.Raw != tt.raw {
			t.Errorf("%s: type %s, raw %v, want %s, %v", tt.expr, e.Type, e.Type.Raw, tt.typ, tt.raw)
		}
	}
	e := exprOf(t, mustCheck(t, "kprobe:f { $a = ((struct in6_addr *)arg0)->in6_u.u6_addr8; @a = $a; $b = @a; print($b); }"))
	if !e.Type.Raw {
		t.Error("a map with the bytes of a variable does not keep those after a NUL")
	}
}

// TestLate checks which expressions are computed at load time as literals are.
func TestLate(t *testing.T) {
	for expr, want := range map[string]bool{
		"($1 - 10) / 2": true, "-$1": true, "$# - 5": true, "-7 % $1": true, "sizeof(struct task_struct) / -2": true,
		"~$1": false, "$1 / (uint8)2": false, "pid / $1": false, "(uint64)$1 / 2": false, "5 / 2": false,
	} {
		if e := exprOf(t, mustCheck(t, "kprobe:f { print("+expr+"); }")); e.Late != want {
			t.Errorf("%s: late %v, want %v", expr, e.Late, want)
		}
	}
}

// TestSignsOfLateValues checks that values of parameters take the sign of their peer, as literals do, and which comparisons
// depend on their sign.
func TestSignsOfLateValues(t *testing.T) {
	for expr, want := range map[string]string{
		"arg0 + $1": "uint64", "$1 * arg0": "uint64", "arg0 << $1": "uint64", "arg0 + ($1 - 1)": "uint64", "arg0 - $1": "int64", "$1 + $2": "int64",
		"$1 + 1": "int64", "(int8)arg0 + $1": "int64", "(uint8)arg0 + $1": "uint64", "-5 + $1": "int64",
	} {
		if e := exprOf(t, mustCheck(t, "kprobe:f { print("+expr+"); }")); e.Type.String() != want {
			t.Errorf("%s: type %s, want %s", expr, e.Type, want)
		}
	}
	for expr, want := range map[string]bool{
		"arg0 > $1": true, "$1 <= arg0": true, "arg0 > -$1": true, "arg0 > $1 - 5": true,
		"$1 > $2": false, "$1 > 5": false, "(int64)arg0 > $1": false, "(uint32)arg0 > $1": true, "arg0 > $#": false, "arg0 == $1": false,
	} {
		info := mustCheck(t, "kprobe:f { print("+expr+"); }")
		if e := exprOf(t, info); e.LateSign != want {
			t.Errorf("%s: depends on the sign: %v, want %v", expr, e.LateSign, want)
		}
		if bare := slices.Contains([]string{"arg0 > $1", "$1 <= arg0", "(uint32)arg0 > $1"}, expr); bare != (info.Params != nil && info.Params[0].Sign) {
			t.Errorf("%s: needs the sign of the parameter: %v", expr, !bare)
		}
	}
}

// TestFullStrings checks which strings may lack a NUL: those of char arrays, and what they are joined to if it is not longer.
func TestFullStrings(t *testing.T) {
	const head = "$c = ((struct task_struct *)arg0)->comm; "
	for script, want := range map[string]bool{
		"print($c)": true, "@x = $c; $d = @x; print($d)": true, `print(pid ? $c : "a")`: true, `print(pid ? "a" : $c)`: true,
		`print("a")`: false, "print(str(arg0))": false, `print(pid ? $c : "a string that is longer than comm")`: false,
	} {
		if e := exprOf(t, mustCheck(t, "kprobe:f { "+head+script+"; }")); e.Type.Full != want {
			t.Errorf("%s: full %v, want %v", script, e.Type.Full, want)
		}
	}
}

// TestArgumentSigns checks the types of argN: those of usdt probes are signed, because their notes have signs.
func TestArgumentSigns(t *testing.T) {
	for probe, want := range map[string]string{"usdt:/bin/sh:p": "int64", "uprobe:/bin/sh:f": "uint64", "kprobe:f": "uint64"} {
		if e := exprOf(t, mustCheck(t, probe+" { print(arg0); }")); e.Type.String() != want {
			t.Errorf("%s: arg0 is %s, want %s", probe, e.Type, want)
		}
	}
	if e := exprOf(t, mustCheck(t, `usdt:/bin/sh:p { print(reg("sp")); }`)); e.Type.String() != "uint64" {
		t.Errorf("reg() in a usdt probe is %s", e.Type)
	}
}

// TestUnaryOfAggregation checks that a unary operator needs a number, as in bpftrace.
func TestUnaryOfAggregation(t *testing.T) {
	for _, expr := range []string{"!@c", "-@s", "~@s"} {
		_, l := checkText("kprobe:f { @c = count(); @s = sum(5); print(" + expr + "); print(-(int64)@s); }")
		if l.Errors() != 1 {
			t.Errorf("%s: %d errors: %v", expr, l.Errors(), l.Err())
		}
	}
}
