// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"strings"
	"testing"

	"btc/frontend/types"
)

// TestSignsOfAggregations checks the sign of a map that aggregates numbers of both signs.
func TestSignsOfAggregations(t *testing.T) {
	for _, agg := range []string{"sum", "min", "max", "avg", "stats"} {
		for _, script := range []string{"@ = F((uint8)pid); @ = F(-1);", "@ = F(-1); @ = F((uint8)pid);"} {
			if m := mustCheck(t, "kprobe:f { "+strings.ReplaceAll(script, "F", agg)+" }").Maps[0]; !m.Value.Signed {
				t.Errorf("%s of %s: unsigned", script, agg)
			}
		}
	}
}

// TestTypes checks types and constants of expressions.
func TestTypes(t *testing.T) {
	tests := []struct{ expr, typ, value string }{
		{"1", "int8", "1"},
		{"127 + 1", "int16", "128"},
		{"-1", "int8", "-1"},
		{"-6 / 2", "int8", "-3"},
		{"5 - 7", "int8", "-2"},
		{"18446744073709551615", "uint64", "-1"},
		{"1 << 63", "uint64", "-9223372036854775808"},
		{"~0", "uint64", "-1"},
		{"0xff & 0x0f", "int8", "15"},
		{"1 == 1", "bool", "1"},
		{"\"a\" == \"a\\0b\"", "bool", "1"},
		{"\"hello\"", "string[6]", "hello"},
		{"\"hello\" + 2", "string[4]", "llo"},
		{"\"hello\" + 8", "string[1]", ""},
		{"\"foo\" + \"bar\"", "string[7]", "foobar"},
		{"\"abc\" < \"abd\"", "bool", "1"},
		{"\"\" || false", "bool", "0"},
		{"\"no\" ? 1 : 2", "int8", "1"},
		{"0x8000000000000000 << 1", "int8", "0"},
		{"-1 << 63", "int64", "-9223372036854775808"},
		{"-(-0x8000000000000000)", "uint64", "-9223372036854775808"},
		{"comptime (1, 1 + 1).1", "int8", "2"},
		{"comptime (sizeof(struct task_struct) < 8)", "bool", "0"},
		{"__builtin_ncpus", "uint64", ""},
		{"{ 7 }", "int8", "7"},
		{"\"/\"[0]", "int8", "47"},
		{"(uint8)300", "uint8", "44"},
		{"(int8)200", "int8", "-56"},
		{"(uint64)3 - (uint64)5", "int64", "-2"},
		{"(int64)31 >= (uint64)(-8)", "bool", "1"},
		{"(uint64)31 >= (uint64)(-8)", "bool", "0"},
		{"18446744073709551615 > 5", "bool", "1"},
		{"9223372036854775807 <= -1", "bool", "0"},
		{"(enum pid_type)(-255)", "enum pid_type", "-255"},
		{"true ? 1 : 300", "int8", "1"},
		{"false ? 1 : \"abc\"", "string[4]", "abc"},
		{"str(7 + 5)", "string[3]", "12"},
		{"str(-5)", "string[3]", "-5"},
		{"str(\"hello\", 3)", "string[4]", "hel"},
		{"default_str_length", "uint64", "1024"},
		{"AF_INET6", "int8", "10"},
		{"sizeof(uint32)", "int8", "4"},
		{"sizeof(((int8)1,(int64)1,(int8)1,(int64)1))", "int8", "32"},
		{`sizeof((buf("abc", 3), 1))`, "int8", "8"},
		{"sizeof((((struct in6_addr *)0)->in6_u, (int8)1))", "int8", "24"},
		{"sizeof((*(struct in_addr *)0, (uint16)1))", "int8", "16"},
		{"sizeof(((int8)1, *(struct in_addr *)0))", "int8", "16"},
		{"sizeof((enum pid_type)77)", "int8", "8"},
		{"sizeof(struct sockaddr_in)", "int64", "16"},
		{"-sizeof(uint32)", "int8", "-4"},
		{"sizeof(-sizeof(uint32))", "int8", "8"},
		{"sizeof(pid ? sizeof(uint32) : (int8)1)", "int8", "2"},
		{"(sizeof(uint32) - 10) / 2", "int8", "-3"},
		{"(offsetof(struct sockaddr_in, sin_port) - 9) / 2", "int64", "-3"},
		{"-(~13550702861445653067)", "int64", "-4896041212263898548"},
		{"~(-5)", "int8", "4"},
		{"(-9223372036854775808) * 36", "int8", "0"},
		{"9223372036854775807 * -3", "int64", "-9223372036854775805"},
		{"-1 * -9223372036854775808", "uint64", "-9223372036854775808"},
		{"(uint64)1 << (int8)63", "int64", "-9223372036854775808"},
		{"(uint64)1 << 63", "uint64", "-9223372036854775808"},
		{"1 << (uint8)63", "uint64", "-9223372036854775808"},
		{"-(-(uint16)9)", "uint64", "9"},
		{"~(~(uint16)9)", "uint64", "9"},
		{"-(-(-(uint8)3))", "uint64", "253"},
		{"1 > 2 ? -1 : (uint64)13550702861445653067", "int64", "-4896041212263898549"},
		{"1 > 2 ? -1 : 13550702861445653067", "uint64", "-4896041212263898549"},
		{"(1 ? 5 : (int8)3) / -2", "int64", "0"},
		{"(a=1, b=-7).b / 2", "int8", "-3"},
		{"(true ? -7 : 5) / 2", "int8", "-3"},
		{"true ? (uint8)1 : (int8)2", "int16", "1"},
		{"(uint64)9223372036854775809 > $#", "bool", ""},
		{"pid", "uint32", ""},
		{"pid + 1", "uint64", ""},
		{"pid - 1", "int64", ""},
		{"nsecs / 1000", "uint64", ""},
		{"(int32)pid", "int32", ""},
		{"arg0", "uint64", ""},
		{"arg0 > 10", "bool", ""},
		{"comm", "string[16]", ""},
		{"comm == \"x\"", "bool", ""},
		{"(pid, comm)", "(uint32,string[16])", ""},
		{"(pid, (1, comm)).1.1", "string[16]", ""},
		{"(a=1, b=comm).b", "string[16]", ""},
		{"curtask", "struct task_struct *", ""},
		{"curtask->comm", "string[16]", ""},
		{"curtask->real_parent->pid", "int32", ""},
		{"curtask.fs.root", "struct path", ""},
		{"((struct sock *)arg0)->__sk_common.skc_v6_daddr.in6_u.u6_addr8", "string[16]", ""},
		{"((struct sock *)arg0)->__sk_common.skc_v6_daddr.in6_u.u6_addr8[3]", "int8", ""},
		{"*(uint16 *)arg1", "uint16", ""},
		{"((uint32 *)arg1)[pid]", "uint32", ""},
		{"*arg1", "uint64", ""},
		{"kstack", "kstack", ""},
		{"ustack(perf, 3)", "ustack", ""},
		{"str(arg0)", "string[1024]", ""},
		{"str(arg0, 16)", "string[17]", ""},
		{"ntop(arg0)", "inet", ""},
		{"ksym(arg0)", "ksym_t", ""},
		{"func", "ksym_t", ""},
		{"probe", "string", ""},
		{"probetype", "string[7]", "kprobe"},
		{"probe == \"kprobe:f\"", "bool", "1"},
		{"bswap((uint16)arg0)", "uint16", ""},
		{"$1", "int64", ""},
		{"str($1)", "string[1024]", ""},
		{"strftime(\"%H\", nsecs)", "timestamp", ""},
		{"if (pid > 1) { 1 } else { 300 }", "int16", ""},
		{"{ $x = 1; $x > 1 }", "bool", ""},
		{"arg0 ? \"yes\" : \"no\"", "string[4]", ""},
		{"retval ?: 1", "", ""},
	}
	for _, tt := range tests {
		if tt.typ == "" {
			continue
		}
		info, l := checkText("kprobe:f { print(" + tt.expr + "); }")
		if l.HasErrors() {
			t.Errorf("%s: %v", tt.expr, l.Err())
			continue
		}
		e := exprOf(t, info)
		value := ""
		if e.Const != nil {
			value = fmt.Sprint(e.Const.Int)
			if e.Const.IsStr {
				value = e.Const.Str
			}
		}
		if e.Type.String() != tt.typ || value != tt.value {
			t.Errorf("%s: type %s, value %q; want %s, %q", tt.expr, e.Type, value, tt.typ, tt.value)
		}
	}
}

// TestLocations checks how objects in memory are reached.
func TestLocations(t *testing.T) {
	tests := []struct{ probe, expr, location string }{
		{"kprobe:f", "curtask->pid", "pointer kernel [struct task_struct:pid]"},
		{"kprobe:f", "((struct sock *)arg0)->__sk_common.skc_daddr", "pointer kernel [struct sock:__sk_common.skc_daddr]"},
		{"kprobe:f", "curtask->real_parent->comm", "pointer kernel [struct task_struct:comm]"},
		{"kprobe:f", "((struct sock *)arg0)->__sk_common.skc_v6_daddr.in6_u.u6_addr32[2]", "pointer kernel [struct sock:__sk_common.skc_v6_daddr.in6_u.u6_addr32[2]]"},
		{"kprobe:f", "curtask->comm[pid]", "pointer kernel [struct task_struct:comm index*1<16]"},
		{"uprobe:/bin/sh:f", "((struct sockaddr *)arg0)->sa_family", "pointer user [struct sockaddr:sa_family]"},
		{"uprobe:/bin/sh:f", "curtask->pid", "pointer kernel [struct task_struct:pid]"},
		{"kprobe:f", "((int32 *)arg0)[3]", "pointer kernel [12]"},
		{"kprobe:f", "((int32 *)arg0)[arg1]", "pointer kernel [index*4]"},
		{"kprobe:f", "*uptr((int32 *)arg0)", "pointer user []"},
		{"tracepoint:sched:sched_switch", "args.next_pid", "ctx kernel [struct trace_event_raw_sched_switch:next_pid]"},
		{"tracepoint:sched:sched_switch", "args->next_comm", "ctx kernel [struct trace_event_raw_sched_switch:next_comm]"},
		{"tracepoint:syscalls:sys_enter_openat", "args.filename", "ctx user [24]"},
		{"tracepoint:syscalls:sys_exit_openat", "args.ret", "ctx user [16]"},
		{"kprobe:f", "((struct own *)arg0)->in.b", "pointer kernel [8]"},
		{"kprobe:f", "((struct own *)arg0)->path.dentry", "pointer kernel [16 struct path:dentry]"},
		{"kprobe:f", "comm[2]", "value none [2]"},
	}
	const own = "struct own { int a; struct { char c; int b; } in; struct path path; };\n"
	for _, tt := range tests {
		info := mustCheck(t, own+tt.probe+" { print("+tt.expr+"); }")
		e := exprOf(t, info)
		if e.Location == nil {
			t.Errorf("%s: no location", tt.expr)
			continue
		}
		if got := locationText(e.Location); got != tt.location {
			t.Errorf("%s: %s, want %s", tt.expr, got, tt.location)
		}
	}
}

func locationText(p *Location) string {
	var steps []string
	for _, s := range p.Steps {
		switch {
		case s.CORE != "":
			steps = append(steps, s.CORE+":"+s.Path)
		case s.Index != nil && s.Len > 0:
			steps = append(steps, fmt.Sprintf("index*%d<%d", s.Scale, s.Len))
		case s.Index != nil:
			steps = append(steps, fmt.Sprintf("index*%d", s.Scale))
		case s.DataLoc:
			steps = append(steps, "data_loc")
		default:
			steps = append(steps, fmt.Sprint(s.Off))
		}
	}
	root := [...]string{"pointer", "value", "ctx", "arg"}[p.Root]
	return fmt.Sprintf("%s %s [%s]", root, p.Space, strings.Join(steps, " "))
}

// TestMaps checks the shapes of maps, derived from all their uses.
func TestMaps(t *testing.T) {
	tests := []struct{ script, want string }{
		{"@ = 1", "@ plain - int8"},
		{"@x = (uint8)1; @x = 100000", "@x plain - uint32"},
		{"@x = (uint8)1; @x = -1", "@x plain - int16"},
		{"@x++", "@x plain - int64"},
		{"@x += 5", "@x plain - int64"},
		{"@x = (uint32)1; @x--", "@x plain - int64"},
		{"@x[pid, comm] = count()", "@x count (uint32,string[16]) uint64"},
		{"@x[(pid, comm)] = count(); @x[1, \"a\"] = count()", "@x count (uint32,string[16]) uint64"},
		{"@x[\"ab\"] = 1; @x[\"abcdef\"] = 1", "@x plain string[7] int8"},
		{"@x[pid] = 1; @x[(int32)arg0] = 1", "@x plain int64 int8"},
		{"@ = sum(-1)", "@ sum - int64"},
		{"@ = sum(arg0)", "@ sum - uint64"},
		{"@ = avg(1); @ = avg(-5)", "@ avg - int64"},
		{"@ = hist(arg0, 3)", "@ hist bits=3 - uint64"},
		{"@ = lhist(arg0, 0, 100, 10)", "@ lhist 0..100/10 - uint64"},
		{"@a = count(); if (@a > 5) { exit(); }", "@a count read - uint64"},
		{"@a = count(); print(@a)", "@a count - uint64"},
		{"@a = count(); clear(@a); zero(@a)", "@a count cleared - uint64"},
		{"@a[1] = 1; delete(@a[1])", "@a plain deleted int8 int8"},
		{"@a[1] = 1; delete(@a, 1)", "@a plain deleted int8 int8"},
		{"@a = $x; $x = (1, \"a\")", ""},
		{"$x = (1, \"a\"); @a = $x; $x = (pid, \"abc\")", "@a plain - (uint32,string[4])"},
		{"@st[kstack(3)] = 1; @st[kstack(bpftrace, 3)] = 2", "@st plain kstack int8"},
		{"@p = curtask; @q = @p->pid", "@p plain - struct task_struct *; @q plain - int32"},
		{"@a = arg0 ? count() : count()", "@a count - uint64"},
		{"@b = @a + 1", "@b plain - int64; @a plain - int8"},
		{"@b = @a; @a = 5", "@b plain - int8; @a plain - int8"},
		{"@a = @a + nsecs", "@a plain - uint64"},
		{"@a = @a - nsecs", "@a plain - int64"},
		{"@a = @b; @b = @a", "@a plain - int8; @b plain - int8"},
	}
	for _, tt := range tests {
		if tt.want == "" {
			continue
		}
		info := mustCheck(t, "kprobe:f { "+tt.script+" }")
		var all []string
		for _, m := range info.Maps {
			all = append(all, mapText(m))
		}
		if got := strings.Join(all, "; "); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.script, got, tt.want)
		}
	}
}

func mapText(m *Map) string {
	text := m.Name + " " + string(m.Shape)
	if m.Bits > 0 {
		text += fmt.Sprintf(" bits=%d", m.Bits)
	}
	if m.Shape == "lhist" {
		text += fmt.Sprintf(" %d..%d/%d", m.Min, m.Max, m.Step)
	}
	for _, f := range []struct {
		on   bool
		word string
	}{{m.Read, " read"}, {m.Cleared, " cleared"}, {m.Deleted, " deleted"}} {
		if f.on {
			text += f.word
		}
	}
	key := "-"
	if !m.Scalar() {
		key = m.Key.String()
	}
	return text + " " + key + " " + m.Value.String()
}

// TestPoints checks the resolution of attach points.
func TestPoints(t *testing.T) {
	tests := []struct{ point, want string }{
		{"BEGIN", "begin"},
		{"k:vfs_read", "kprobe:vfs_read"},
		{"kprobe:vfs_read+0x10", "kprobe:vfs_read+16"},
		{"kr:vfs_*", "kretprobe:vfs_* pattern"},
		{"kprobe:xfs:xfs_file_read", "kprobe:xfs:xfs_file_read"},
		{"t:sched:sched_switch", "tracepoint:sched:sched_switch"},
		{"tracepoint:sched:sched_wak*", "tracepoint:sched:sched_wak* pattern"},
		{"u:libc:malloc", "uprobe:libc:malloc"},
		{"uprobe:/bin/bash:\"a+b\"+4", "uprobe:/bin/bash:a+b+4"},
		{"p:hz:99", "profile:hz:99"},
		{"interval:1s", "interval:us:1000000"},
		{"i:ms:100", "interval:ms:100"},
		{"interval:1e9", "interval:us:1000000"},
		{"one=begin, two=end", "begin; end"},
	}
	for _, tt := range tests {
		info := mustCheck(t, tt.point+" { }")
		var all []string
		for _, p := range info.Programs {
			text := p.Point.Text
			if p.Point.Pattern {
				text += " pattern"
			}
			all = append(all, text)
		}
		if got := strings.Join(all, "; "); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.point, got, tt.want)
		}
	}
}

// TestInstances checks which attach points share the facts of a body.
func TestInstances(t *testing.T) {
	tests := []struct {
		script           string
		programs, bodies int
	}{
		{"kprobe:vfs_read, kprobe:vfs_write { @ = count() }", 2, 1},
		{"kprobe:vfs_read, kretprobe:vfs_read { @ = count() }", 2, 2},
		{"tracepoint:syscalls:sys_exit_open, tracepoint:syscalls:sys_exit_openat { @ = args.ret }", 2, 2},
		{"tracepoint:sched:sched_wakeup* { @ = args.pid }", 2, 2},
		{"tracepoint:sched:sched_wakeup* { @ = count() }", 1, 1},
		{"kprobe:vfs_read, kprobe:vfs_write { @[probe] = count() }", 2, 2},
	}
	for _, tt := range tests {
		info := mustCheck(t, tt.script)
		bodies := map[*Body]bool{}
		for _, p := range info.Programs {
			bodies[p.Body] = true
		}
		if len(info.Programs) != tt.programs || len(bodies) != tt.bodies {
			t.Errorf("%s: %d programs with %d bodies, want %d with %d", tt.script, len(info.Programs), len(bodies), tt.programs, tt.bodies)
		}
	}
}

// TestParams checks whether parameters are numbers, strings, or both.
func TestParams(t *testing.T) {
	info := mustCheck(t, `kprobe:f /pid == $1 && comm == $2/ { printf("%s %d %d", str($3), $3, $#); }`)
	var got []string
	for _, p := range info.Params {
		got = append(got, fmt.Sprintf("$%d %v %v", p.N, p.Int, p.Str))
	}
	if want := "[$1 true false $2 false true $3 true true]"; fmt.Sprint(got) != want || !info.ParamCount {
		t.Errorf("parameters %v, %v, want %s", got, info.ParamCount, want)
	}
}

// TestParamsWithGaps checks that the first parameters need not be used, including one whose number the
// parser rejects.
func TestParamsWithGaps(t *testing.T) {
	info, _ := checkText(`kprobe:f { print($0); print($3); }`)
	if n := len(info.Params); n == 0 || info.Params[n-1].N != 3 {
		t.Errorf("parameters %v, want $3 to be the last", info.Params)
	}
}

// TestComparisons checks in which type operands are compared.
func TestComparisons(t *testing.T) {
	tests := []struct{ expr, want string }{
		{"arg0 > 0", "uint64"},
		{"(int64)arg0 > 0", "int64"},
		{"(int32)arg0 > pid", "int64"},
		{"arg0 > -1", "int64"},
		{"comm == \"bash\"", "string[16]"},
		{"curtask == 0", "uint64"},
	}
	for _, tt := range tests {
		e := exprOf(t, mustCheck(t, "kprobe:f { print("+tt.expr+"); }"))
		if e.Operands == nil || e.Operands.String() != tt.want {
			t.Errorf("%s: compared as %v, want %s", tt.expr, e.Operands, tt.want)
		}
	}
}

// TestHostConstants checks that constants that differ between hosts are not folded.
func TestHostConstants(t *testing.T) {
	e := exprOf(t, mustCheck(t, "kprobe:f { print(TCP_ESTABLISHED); }"))
	if e.Const == nil || e.Const.Int != 1 {
		t.Errorf("TCP_ESTABLISHED = %+v", e.Const)
	}
	e = exprOf(t, mustCheck(t, "kprobe:f { print(sizeof(struct task_struct) + 1); }"))
	if e.Const == nil || !e.Const.Host {
		t.Errorf("size of a kernel struct folded to a constant: %+v", e.Const)
	}
	e = exprOf(t, mustCheck(t, "struct own { long a; };\nkprobe:f { print(sizeof(struct own)); }"))
	if e.Const == nil || e.Const.Host || e.Const.Int != 8 || e.Type.Kind != types.Int {
		t.Errorf("sizeof of a struct of the script = %+v", e.Const)
	}
}
