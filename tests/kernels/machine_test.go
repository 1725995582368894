// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// machineScript changes the machine during runs; each part prints its name and what the run has printed.
const machineScript = `
cpu1=/sys/devices/system/cpu/cpu1/online
begin() { echo "== $1"; rm -f /tmp/out; shift; "$@" >/tmp/out 2>&1 & tracer=$!; until grep -q Attached /tmp/out; do sleep 0.1; kill -0 $tracer || break; done; }
finish() { kill -INT $tracer 2>/dev/null; wait $tracer; echo "exit $?"; cat /tmp/out; }
writers() { for i in 1 2 3 4; do taskset $1 dd if=/dev/zero of=/dev/null bs=1 count=2000 2>/dev/null & writers="$writers $!"; done; }
[ -e $cpu1 ] || echo "no hotplug"
writers=
begin goes btrun /o/cpus.o
writers 3
for i in 1 2 3; do echo 0 >$cpu1; sleep 0.5; echo 1 >$cpu1; sleep 0.5; done
echo 0 >$cpu1
sleep 2
echo 1 >$cpu1
wait $writers
sleep 2
kill -USR1 $tracer
sleep 2
finish
echo 0 >$cpu1
writers=
begin comes btrun /o/cpus.o
echo 1 >$cpu1
sleep 2
writers 2
wait $writers
kill -USR1 $tracer
sleep 2
finish
seconds() { cut -d. -f1 /proc/uptime; }
clock() {
	sleep 2; date -s "2035-05-05 10:00:00" >/dev/null; sleep 2; date -s "2001-01-01 10:00:00" >/dev/null; sleep 2; date -s "2035-05-05 10:00:00" >/dev/null
}
date -s "2025-05-05 10:00:00" >/dev/null
begin clock btrun --timeout 8s --every 2s /o/clock.o
from=$(seconds)
clock
wait $tracer
echo "exit $?"
echo "took $(($(seconds) - from))"
cat /tmp/out
date -s "2001-01-01 10:00:00" >/dev/null
begin series btrun --timeout 4s /o/series.o
sleep 1; date -s "2035-05-05 10:00:00" >/dev/null; sleep 1; date -s "2025-05-05 10:00:00" >/dev/null
wait $tracer
echo "exit $?"
cat /tmp/out
echo +memory >/sys/fs/cgroup/cgroup.subtree_control || echo "no memory controller"
limited() {
	echo "== memory $1 $2"
	mkdir /sys/fs/cgroup/limited
	echo $1 >/sys/fs/cgroup/limited/memory.max
	sh -c 'echo 0 >/sys/fs/cgroup/limited/cgroup.procs; exec btrun -q /o/'$2'.o' >/tmp/out 2>&1
	echo "exit $?"
	head -c 4000 /tmp/out
	sleep 0.5
	rmdir /sys/fs/cgroup/limited && echo "nothing left"
}
limited 134217728 small
limited 67108864 large
limited 12582912 small
limited 4194304 small
`

// TestMachine checks runs during which the machine changes: CPUs go offline and come online, the wall clock is set, and
// the memory of a cgroup v2 is limited. Counts are exact, probes on each CPU return, durations follow no wall clock, and
// without memory a run ends, with a message if it is not killed.
func TestMachine(t *testing.T) {
	out := boot(t, "machine", 2, map[string]string{
		"cpus": `tracepoint:syscalls:sys_enter_write /comm == "dd" && args.count == 1/ { @n = count(); @k[1] = count(); @s = stats(1); @plain++; }
			profile:hz:49 { @p[cpu] = count(); } software:cpu-clock:10000000 { @soft[cpu] = count(); } self:signal:SIGUSR1 { clear(@p); clear(@soft); }`,
		"clock":  `interval:s:1 { @n = count(); printf("year %s\n", strftime("%Y", nsecs)); @d = max((nsecs - @last) / 1000000); @last = nsecs; } begin { @last = nsecs; }`,
		"series": `config = { unstable_tseries=enable } interval:ms:100 { @n = count(); @t = tseries(1, 1s, 10, "sum"); }`,
		"small":  `begin { @a[1] = 1; @n = count(); exit(); }`,
		"large":  `config = { max_map_keys = 4000000; } begin { @m[1] = 1; exit(); }`,
	}, machineScript)
	part := func(name string) string {
		_, rest, found := strings.Cut(out, "== "+name+"\n")
		if !found {
			t.Errorf("no part %q in:\n%s", name, out)
		}
		text, _, _ := strings.Cut(rest, "\n== ")
		return text
	}
	number := func(text, prefix string) int {
		m := regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(prefix)+` *(\d+)`).FindAllStringSubmatch(text, -1)
		if m == nil {
			return -1
		}
		n, _ := strconv.Atoi(m[len(m)-1][1])
		return n
	}
	if strings.Contains(out, "no hotplug") {
		t.Error("this kernel has no CPU hotplug")
	}
	for _, name := range []string{"goes", "comes"} {
		text := part(name)
		for _, prefix := range []string{"@n:", "@k[1]:", "@plain:", "@s: { .count ="} {
			if n := number(text, prefix); n != 8000 {
				t.Errorf("%s: %s %d, want 8000\n%s", name, prefix, n, text)
			}
		}
		if number(text, "@p[1]:") < 10 || number(text, "@soft[1]:") < 10 || !strings.Contains(text, "exit 0\n") {
			t.Errorf("%s: the probes of CPU 1 are not back\n%s", name, text)
		}
	}
	text := part("clock")
	if took, n := number(text, "took"), number(text, "@n:"); took < 7 || took > 20 || n < 6 || n > 9 || number(text, "@d:") > 4000 {
		t.Errorf("clock: took %d s, %d intervals\n%s", took, n, text)
	}
	if n := strings.Count(text, "@n: "); n < 4 || n > 5 || !strings.Contains(text, "year 2025\n") || !strings.Contains(text, "year 2035\n") || !strings.Contains(text, "year 2001\n") {
		t.Errorf("clock: %d reports\n%s", n, text)
	}
	if text := part("series"); !strings.Contains(text, "exit 0\n") || number(text, "@n:") < 20 || number(text, "@n:") > 45 {
		t.Errorf("series: %s", text)
	}
	for name, ok := range map[string]bool{"134217728 small": true, "67108864 large": false, "12582912 small": false, "4194304 small": false} {
		text := part("memory " + name)
		status := number(text, "exit")
		if !strings.Contains(text, "nothing left") || ok && (status != 0 || number(text, "@n:") != 1) || status == 0 && number(text, "@n:") != 1 ||
			status != 0 && status != 137 && strings.Count(text, "btrun: ")+strings.Count(text, ": error: ") != 1 || strings.Contains(text, "goroutine ") {
			t.Errorf("memory %s: %s", name, text)
		}
		if name == "67108864 large" && !strings.Contains(text, "memory") {
			t.Errorf("message without the reason: %s", text)
		}
	}
	if t.Failed() {
		t.Log(out)
	}
}
