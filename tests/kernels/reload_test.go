// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"regexp"
	"strconv"
	"testing"

	"btc/tests/tier"
)

// reloadScript replaces objects while processes write single bytes, and prints how many they have written.
const reloadScript = `
run() {
	cp /o/$1-a.o /tmp/x.o
	btrun -q --reload=/tmp/result /tmp/x.o >/tmp/out 2>&1 &
	tracer=$!
	until [ -s /tmp/result ]; do sleep 0.1; kill -0 $tracer || break; done
	rm -f /tmp/stop /tmp/done
	writers=
	for i in 1 2 3 4; do
		while [ ! -e /tmp/stop ]; do dd if=/dev/zero of=/dev/null bs=1 count=500 2>/dev/null; echo 500 >>/tmp/done; done &
		writers="$writers $!"
	done
	for version in b a b a; do
		sleep 0.3
		cp /o/$1-$version.o /tmp/next.o
		mv /tmp/next.o /tmp/x.o
		btrun --request-reload $tracer --reload=/tmp/result || echo "not reloaded"
	done
	sleep 0.3
	touch /tmp/stop
	wait $writers
	kill -INT $tracer
	wait $tracer
	echo "== $1 $(wc -l </tmp/done)"
	cat /tmp/out
	rm -f /tmp/result
}
run kprobe
run pair
run fentry
echo "== end 0"
`

// TestReload replaces objects with kprobes, kretprobes and fentry programs on a function that is called all the time on four CPUs.
// No event is counted twice, and only as many are counted by neither object as the message says, or none without it.
func TestReload(t *testing.T) {
	const count = ` /comm == "dd" && arg2 == 1/ { @n = count(); @plain[1] += 1; }`
	scripts := map[string]string{}
	for name, text := range map[string]string{
		"kprobe": `kprobe:vfs_write` + count,
		"pair":   `kprobe:vfs_write /comm == "dd" && arg2 == 1/ { @in[tid] = 1; } kretprobe:vfs_write /comm == "dd" && @in[tid]/ { @n = count(); @plain[1] += 1; _ = delete(@in, tid); }`,
		"fentry": `fentry:vfs_write /comm == "dd" && args.count == 1/ { @n = count(); @plain[1] += 1; }`,
	} {
		scripts[name+"-a"] = text
		scripts[name+"-b"] = text + ` interval:s:100 { @more = count(); }`
	}
	for _, kernel := range []string{"6.12", "5.10"} {
		t.Run(kernel, func(t *testing.T) {
			if kernel != "6.12" {
				tier.Kernels.Need(t, "boots one more kernel")
			}
			out := bootKernel(t, kernel, "reload", 4, scripts, reloadScript)
			parts := regexp.MustCompile(`(?m)^== (\w+) (\d+)$`).FindAllStringSubmatchIndex(out, -1)
			if len(parts) != 4 {
				t.Fatalf("%d parts:\n%s", len(parts), out)
			}
			for i, p := range parts[:3] {
				name, report := out[p[2]:p[3]], out[p[1]:parts[i+1][0]]
				rounds, _ := strconv.ParseInt(out[p[4]:p[5]], 10, 64)
				want, missed := 500*rounds, numbers(report, `up to (\d+) events were counted by neither`)
				for _, m := range []string{`(?m)^@n: (\d+)$`, `(?m)^@plain\[1\]: (\d+)$`} {
					if got := numbers(report, m); got > want || got < want-missed || want == 0 {
						t.Errorf("%s: %s counted %d of %d writes, and the messages say that at most %d are missing:\n%s", name, m, got, want, missed, report)
					}
				}
				t.Logf("%s: %d writes, at most %d counted by neither object", name, want, missed)
			}
			if regexp.MustCompile(`not reloaded|rror`).MatchString(out) {
				t.Error(out)
			}
		})
	}
}

// numbers adds the numbers that a pattern matches.
func numbers(text, pattern string) (sum int64) {
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		n, _ := strconv.ParseInt(m[1], 10, 64)
		sum += n
	}
	return sum
}
