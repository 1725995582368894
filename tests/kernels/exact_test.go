// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"strconv"
	"strings"
	"testing"
)

// exactParts are probes that interrupt each other, as kprobe and as fentry: on the work of a system
// call, on the timers and softirqs that interrupt it, and on functions that all of these call. (Kprobes
// on one CPU share a busy flag; fentry programs do not.)
var exactParts = []string{
	"kprobe:vfs_write", "kretprobe:vfs_write", "fentry:vfs_write", "fexit:vfs_write",
	"kprobe:try_to_wake_up", "fentry:try_to_wake_up", "fexit:try_to_wake_up",
	"kprobe:hrtimer_interrupt", "fentry:hrtimer_interrupt", "fentry:ip_rcv", "kprobe:ip_rcv", "fentry:net_rx_action", "fexit:net_rx_action",
	"profile:hz:499", "rawtracepoint:softirq_entry", "tracepoint:irq:softirq_exit", "rawtracepoint:hrtimer_expire_entry",
}

// TestExact triggers these events on four CPUs at once. Each program counts in shared maps and in a map
// of its own; the shared count must be the sum of the others. (QEMU interrupts an emulated CPU only
// between blocks of instructions. Interrupts within a block are tested by tests/run, on a real CPU.)
func TestExact(t *testing.T) {
	var script strings.Builder
	for i, probe := range exactParts {
		n := strconv.Itoa(i)
		script.WriteString(probe + " { @parts" + n + " = count(); @all = count(); @plain++; @keyed[1] = sum(1); @hist[1] = hist(4); @stats[1] = stats(5); }\n")
	}
	out := boot(t, "exact", 4, map[string]string{"exact": script.String()}, `
work() {
	writers=
	for i in 1 2 3 4; do dd if=/dev/zero of=/dev/null bs=1 count=1500 2>/dev/null & writers="$writers $!"; done
	ping -q -c 10 -i 0.05 127.0.0.1 >/dev/null
	wait $writers
}
btrun /o/exact.o >/tmp/out 2>&1 &
tracer=$!
until grep -q Attached /tmp/out; do sleep 0.2; kill -0 $tracer || break; done
work
kill -INT $tracer
wait $tracer
cat /tmp/out
`)
	// number returns the number after a prefix at the start of a line.
	number := func(prefix string) int {
		_, rest, _ := strings.Cut("\n"+out, "\n"+prefix)
		end := strings.IndexFunc(rest, func(r rune) bool { return r != ' ' && (r < '0' || r > '9') })
		n, _ := strconv.Atoi(strings.TrimSpace(rest[:max(end, 0)]))
		return n
	}
	want := 0
	for i, probe := range exactParts {
		n := number("@parts" + strconv.Itoa(i) + ": ")
		if n == 0 {
			t.Errorf("%s never fired", probe)
		}
		want += n
	}
	for name, prefix := range map[string]string{
		"count()": "@all: ", "++": "@plain: ", "sum() with a key": "@keyed[1]: ",
		"hist() with a key": "@hist[1]:\n[4, 8) ", "stats() with a key": "@stats[1]: { .count = ",
	} {
		if got := number(prefix); got != want {
			t.Errorf("%s = %d, want %d, the sum of its parts", name, got, want)
		}
	}
	t.Logf("%d events", want)
	if t.Failed() {
		t.Log(out)
	}
}
