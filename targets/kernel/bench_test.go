// SPDX-License-Identifier: Apache-2.0

package kernel

import "testing"

// lookups does the lookups of a medium-sized script.
func lookups(tb testing.TB, t *Target) {
	sock, ok := t.Struct("sock")
	if !ok {
		tb.Fatal("no struct sock")
	}
	for _, name := range []string{"__sk_common", "sk_protocol", "sk_rcvbuf"} {
		if _, ok := sock.Field(name); !ok {
			tb.Fatal("no field", name)
		}
	}
	common, _ := sock.Field("__sk_common")
	for _, name := range []string{"skc_family", "skc_daddr", "skc_rcv_saddr", "skc_dport", "skc_num", "skc_v6_daddr"} {
		if _, ok := common.Type.Field(name); !ok {
			tb.Fatal("no field", name)
		}
	}
	task, _ := t.Struct("task_struct")
	if _, ok := task.Field("real_parent"); !ok {
		tb.Fatal("no field real_parent")
	}
	for _, f := range []string{"tcp_sendmsg", "tcp_v4_connect", "vfs_read"} {
		if !t.HasFunc(f) {
			tb.Fatal("no function", f)
		}
	}
	for _, e := range [][2]string{{"sched", "sched_switch"}, {"syscalls", "sys_enter_openat"}, {"block", "block_rq_issue"}} {
		ev, ok := t.Tracepoint(e[0], e[1])
		if !ok || ev.Fields[len(ev.Fields)-1].Type() == nil {
			tb.Fatal("no event", e)
		}
	}
	if _, _, ok := t.EnumConst("TCP_ESTABLISHED"); !ok {
		tb.Fatal("no TCP_ESTABLISHED")
	}
}

// BenchmarkCold opens the default target and does the lookups of one script, as in each compilation.
func BenchmarkCold(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		t, err := Default("x86_64")
		if err != nil {
			b.Fatal(err)
		}
		lookups(b, t)
	}
}

// BenchmarkWarm does the lookups repeatedly on one target.
func BenchmarkWarm(b *testing.B) {
	t, err := Default("x86_64")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		lookups(b, t)
	}
}

// BenchmarkAllFuncs lists every traceable function, as for the pattern *.
func BenchmarkAllFuncs(b *testing.B) {
	for b.Loop() {
		t, err := Default("x86_64")
		if err != nil {
			b.Fatal(err)
		}
		if n := len(t.Funcs("*")); n < 10000 {
			b.Fatal("only", n, "functions")
		}
	}
}
