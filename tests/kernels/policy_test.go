// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"strings"
	"testing"

	"btc/tests/tier"
)

// policyScript runs objects under policies; each run prints its name, its output and its exit status.
const policyScript = `
chmod 755 / /etc
mkdir -p /etc/btrun
policy() { printf %s "$1" >/etc/btrun/policy.json; chmod 644 /etc/btrun/policy.json; }
run() { echo "== $1"; shift; timeout 60 "$@" 2>&1; echo "exit $?"; }
policy '{"probes": ["kprobe:vfs_open", "tracepoint:sched:sched_switch", "interval"], "allow": ["signal"],
"max_memory": "64M", "max_duration": "2s"}'
cd /o
while :; do cat /proc/version >/dev/null; sleep 0.05; done &
run permitted btrun -q kprobe.o
run tracepoint btrun -q switch.o
run offset btrun -q offset.o
run return btrun -q return.o
run pattern btrun -q pattern.o
run fentry btrun -q fentry.o
run raw btrun -q raw.o
run stream sh -c 'cat raw.o raw.json | btrun -q -'
run system btrun -q --unsafe system.o
run allow btrun -q --allow system system.o
run plain btrun -q system.o
run output btrun -q -o /tmp/out kprobe.o
run memory btrun -q big.o
run time btrun -q --timeout 3s kprobe.o
run ends btrun -q timer.o
run btf env BPFTRACE_BTF=/sys/kernel/btf/vmlinux btrun -q kprobe.o
[ -e /tmp/out ] && echo "a file was written"
policy '{"probe": []}'
run unknown btrun -q kprobe.o
policy '{"allow": null}'
run null btrun -q kprobe.o
policy '{}'
chmod 666 /etc/btrun/policy.json
run writable btrun -q kprobe.o
policy '{"budget": "0.001%"}'
run budget btrun -q loop.o
rm /etc/btrun/policy.json
run none btrun -q raw.o
kill $!
`

// A policy holds on the kernels that users have, whatever the kernel calls a probe and whether it has BTF, and a
// budget of the policy detaches a probe.
func TestPolicy(t *testing.T) {
	scripts := map[string]string{
		"kprobe":  `kprobe:vfs_open { printf("opened\n"); exit(); } interval:ms:10 { @ = count(); }`,
		"switch":  `tracepoint:sched:sched_switch { @ = count(); } interval:ms:300 { exit(); }`,
		"offset":  `kprobe:vfs_open+1 { printf("opened\n"); exit(); }`,
		"return":  `kretprobe:vfs_open { printf("opened\n"); exit(); }`,
		"pattern": `kprobe:vfs_ope* { printf("opened\n"); exit(); } kprobe:vfs_rea* { printf("read\n"); exit(); }`,
		"fentry":  `fentry:vfs_open { printf("opened\n"); exit(); }`,
		"raw":     `rawtracepoint:sched_switch { printf("switched\n"); exit(); }`,
		"system":  `begin { system("echo ran"); exit(); }`,
		"big":     `let @x = hash(1000000); begin { @x[1] = 1; exit(); }`,
		"timer":   `interval:ms:100 { @ = count(); } end { printf("ended\n"); }`,
		"loop":    `kprobe:vfs_open { @[comm] = count(); } interval:ms:10 { @n = count(); } end { printf("ended\n"); }`,
	}
	for _, name := range []string{"5.10", "6.1", "6.12", "sid"} {
		t.Run(name, func(t *testing.T) {
			if *kernel == "" && name != "5.10" {
				tier.Kernels.Need(t, "boots one more kernel")
			}
			out := bootKernel(t, name, "policy", 0, scripts, policyScript)
			for what, want := range map[string]string{
				"permitted":  "opened\n",
				"tracepoint": "@: ",
				"offset":     "vfs_open+1 is not permitted on this host",
				"return":     "kretprobe:vfs_open is not permitted on this host",
				"pattern":    "is not permitted on this host",
				"fentry":     "fentry:vfs_open is not permitted on this host",
				"raw":        "rawtracepoint:sched_switch is not permitted on this host",
				"stream":     "rawtracepoint:sched_switch is not permitted on this host",
				"system":     "--unsafe is not permitted on this host",
				"allow":      "--allow system is not permitted on this host",
				"plain":      "no option allows it on this host: /etc/btrun/policy.json:1 permits signal",
				"output":     "writing /tmp/out is not permitted on this host",
				"memory":     "the limit is 64 MiB: it is from /etc/btrun/policy.json:2",
				"time":       "policy.json:2 permits at most 2s",
				"ends":       "ended\n",
				"btf":        "reading /sys/kernel/btf/vmlinux is not permitted on this host",
				"unknown":    "unknown key \"probe\"; did you mean probes?",
				"null":       "nothing runs",
				"writable":   "can be written by others",
				"budget":     "Detached by the budget of 0.001%: kprobe:vfs_open covers",
				"none":       "switched\n",
			} {
				_, rest, found := strings.Cut(out, "== "+what+"\n")
				text, _, _ := strings.Cut(rest, "\n== ")
				ran := what == "permitted" || what == "tracepoint" || what == "ends" || what == "budget" ||
					what == "none"
				if !found || !strings.Contains(text, want) || strings.Contains(text, "exit 0") != ran ||
					!ran && (strings.Contains(text, "opened\n") || strings.Contains(text, "\nran")) {
					t.Errorf("%s: want %q in:\n%s", what, want, text)
				}
			}
			if strings.Contains(out, "a file was written") {
				t.Error("a file was written")
			}
		})
	}
}
