// SPDX-License-Identifier: Apache-2.0

package check

import "testing"

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
