// SPDX-License-Identifier: Apache-2.0

package loaders

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"btc/tests/tier"
)

const onWork = `tracepoint:syscalls:sys_enter_lseek /comm == "loaderwork"/ `

// formatScripts use features that the map formats of other programs treat differently.
var formatScripts = []string{
	onWork + `{ @h = hist(args.offset); @k[args.whence] = hist(args.offset); @neg = hist((int64)args.offset - 5); }`,
	onWork + `{ @h[comm] = hist(args.offset * 1000, 3); @top = hist(0xffffffffffffffff); }`,
	onWork + `{ @l = lhist(args.offset, 2, 10, 2); @k[comm, args.whence] = lhist(args.offset, 0, 8, 4); @one = lhist(args.offset, 11, 12, 1); }`,
	onWork + `{ @a = avg(args.offset); @s = stats(args.offset); @k[args.offset, comm] = stats(args.offset); @sum = sum(args.offset); @c = count(); }`,
	onWork + `{ @[args.offset, comm, args.whence, (int64)args.offset - 7] = count(); @m[str("abc", 5), (uint8)args.offset] = avg(args.offset); }`,
	onWork + `{ @low = min(args.offset); @high = max(args.offset + 3); @high_k[comm, args.whence] = max(args.offset); @low_k[args.offset] = min(args.offset * 7); }`,
	onWork + `{ @n++; @k[comm, args.offset]++; @two[comm] += 2; }`,
	onWork + `{ @h = hist(args.offset); @max = max(args.offset); @min[comm] = min(args.offset); @s[comm] = stats(args.offset); @a = avg(args.offset); @t = sum(args.offset); }
		end { print(@h); clear(@h); print(@h); print(@max); clear(@max); print(@max); print(@min); zero(@min); print(@min); zero(@s); print(@s); clear(@a); print(@a); zero(@t); print(@t); }`,
	onWork + `{ printf("%s %d %s\n", comm, args.offset, str(args.whence)); printf("%d\n", (uint8)args.offset); @n = count(); }
		end { printf("end %d\n", getopt("x", 3)); }`,
	onWork + `{ @h[args.offset] = hist(args.offset); @a[comm] = avg(args.offset); if (@a[comm] > 5) { @n = count(); } delete(@h[3]); @s[comm] = min((int64)args.offset - 20); @t = max((int64)args.offset - 20); @o[comm] += args.offset; @d[comm]--; }`,
}

// TestFormatsUnderBtrun checks that under btrun, an object in the format of another program prints the
// same as one in btrun's own format.
func TestFormatsUnderBtrun(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	b := build(t, runtime.GOARCH)
	if out, err := exec.Command("go", "build", "-o", b.dir, "btc/cmd/btrun").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	print := func(script string, options ...string) string {
		b.compileScript(t, script, b.path("x.o"), options...)
		out, err := exec.Command(b.path("btrun"), "-q", b.path("x.o"), "-c", b.path(workload)).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
		return string(out)
	}
	for i, script := range formatScripts {
		want := print(script)
		if !strings.Contains(want, "@") {
			t.Errorf("%s: no output: %s", script, want)
		}
		for _, format := range []string{"ebpf_exporter", "gadget"} {
			t.Run(fmt.Sprintf("%d-%s", i, format), func(t *testing.T) {
				if d := cmp.Diff(want, print(script, "--for", format)); d != "" {
					t.Errorf("%s (-want +got):\n%s", script, d)
				}
			})
		}
	}
}

// TestExporterFormats checks that ebpf_exporter exports the same numbers for a workload as btrun does
// for Prometheus.
func TestExporterFormats(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	if !*all {
		tier.Real.Need(t, "a loader that is fetched")
	}
	b := build(t, runtime.GOARCH)
	if out, err := exec.Command("go", "build", "-o", b.dir, "btc/cmd/btrun").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for i, script := range formatScripts[:7] {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			object := b.path("x.o")
			b.compileScript(t, script, object, "--for", "ebpf_exporter")
			config, err := exec.Command(b.path("btc"), "export", "ebpf_exporter", object).Output()
			if err != nil {
				t.Fatal(err)
			}
			found := overCPUs(readPage(t, serve(t, b, object, string(config), b.workload(""))))
			cmd := exec.Command(b.path("btrun"), "-f", "prometheus", "-o", b.path("x.prom"), object, "-c",
				b.path(workload))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			text, err := os.ReadFile(b.path("x.prom"))
			if err != nil {
				t.Fatal(err)
			}
			checked := 0
			for name, want := range readPage(t, string(text)) {
				own, ok := strings.CutPrefix(name, "btc_x_")
				if !ok {
					continue
				}
				own, labels, _ := strings.Cut(own, "{")
				if own = strings.TrimSuffix(strings.TrimSuffix(own, "total"), "_"); own == "" {
					own = "AT_"
				}
				if labels != "" {
					own += "{" + labels
				}
				checked++
				compareSeries(t, own, want, found)
			}
			if checked == 0 {
				t.Errorf("no metrics of btrun:\n%s", text)
			}
		})
	}
}

// TestExporterProfile checks that ebpf_exporter samples the CPU clock for profile probes.
func TestExporterProfile(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	if !*all {
		tier.Real.Need(t, "a loader that is fetched")
	}
	b := build(t, runtime.GOARCH)
	object := b.path("x.o")
	b.compileScript(t, `profile:ms:2 /comm == "sha256sum"/ { @samples = count(); @busy[comm]++; }`, object, "--for",
		"ebpf_exporter")
	config, err := exec.Command(b.path("btc"), "export", "ebpf_exporter", object).Output()
	if err != nil {
		t.Fatal(err)
	}
	busy := []string{"sh", "-c", "timeout 1 sha256sum /dev/zero || true"}
	found := readPage(t, serve(t, b, object, string(config), busy))
	all, own := found["ebpf_exporter_samples"], found[`ebpf_exporter_busy{comm="sha256sum"}`]
	// 500 per second of CPU time, of which there may be little on a loaded machine.
	if all == nil || own == nil || all.value < 5 || all.value > 600 || own.value != all.value {
		t.Errorf("samples: %+v, by name %+v", all, own)
	}
}

// overCPUs replaces the series of the CPUs by their smallest value if the name begins with "low",
// otherwise by their largest value.
func overCPUs(found map[string]*series) map[string]*series {
	out := map[string]*series{}
	for name, x := range found {
		own := strings.TrimSuffix(withoutCPU(name), "{}")
		if y := out[own]; y == nil || (x.value < y.value) == strings.HasPrefix(own, "ebpf_exporter_low") {
			out[own] = x
		}
	}
	return out
}

// compareSeries compares a series that btrun wrote with those of ebpf_exporter.
func compareSeries(t *testing.T, name string, want *series, found map[string]*series) {
	t.Helper()
	got := found["ebpf_exporter_"+name]
	if got == nil {
		t.Errorf("%s: not found on the page", name)
		return
	}
	for le, n := range want.buckets {
		if have, ok := got.buckets[le]; le >= 0 && le < 1<<52 && (!ok || have != n) {
			t.Errorf("%s: bucket %g = %g, want %g", name, le, have, n)
		}
	}
	if want.buckets != nil && got.buckets[math.Inf(1)] != want.buckets[math.Inf(1)] {
		t.Errorf("%s: %g values, want %g", name, got.buckets[math.Inf(1)], want.buckets[math.Inf(1)])
	}
	if want.buckets == nil && (got.value != want.value || got.count != want.count || got.sum != want.sum) {
		t.Errorf("%s: %+v, want %+v", name, got, want)
	}
}
