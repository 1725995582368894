// SPDX-License-Identifier: Apache-2.0

package loaders

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"btc/tests/tier"
)

// gadget runs an object compiled for Inspektor Gadget with ig. If btc refuses to write an image, it
// returns "refused".
func gadget(t *testing.T, b built, name string) string {
	image, ok := b.compileGadget(t, name)
	if !ok {
		return "refused"
	}
	var options []string
	if strings.HasSuffix(name, "hist") { // displayed differently
		options = []string{"--annotate", scriptMap(name) + ":metrics.print=false"}
	}
	return gadgetFound(name, runGadget(t, b, image, "btc-"+name, b.workload(name), options...))
}

// compileGadget compiles a case for Inspektor Gadget, and returns the image that btc export writes next to the
// object. ok is false for a script that btc refuses.
func (b built) compileGadget(t *testing.T, name string) (image string, ok bool) {
	t.Helper()
	object := b.path("gadget-" + name + ".o")
	b.compile(t, name, object, "--for", "gadget")
	image = b.path("gadget-" + name + ".tar")
	cmd := exec.Command(b.path("btc"), "export", "gadget", object, "-o", image, "-t", "btc-"+name)
	if out, err := cmd.CombinedOutput(); err != nil {
		if !strings.Contains(string(out), "can be shown by Inspektor Gadget") {
			t.Fatalf("%v\n%s", err, out)
		}
		os.Remove(object)
		return "", false
	}
	return image, true
}

// gadgetFound returns the contents of rows of ig in the form of the cases.
func gadgetFound(name string, rows []map[string]any) string {
	events := 0
	totals := map[string]map[string]float64{} // summed over the intervals, by map and key
	for _, row := range rows {
		symbol, key := scriptMap(name), "0"
		for column, name := range map[string]string{"min": "low", "max": "high"} { // per CPU
			if row[column] != nil {
				symbol = name
				delete(row, "cpu")
			}
		}
		var parts []string
		for _, column := range slices.Sorted(maps.Keys(row)) {
			if !valueColumns[column] {
				parts = append(parts, fmt.Sprintf("%s: %v", column, row[column]))
			}
		}
		if parts != nil {
			key = "{" + strings.Join(parts, ", ") + "}"
		}
		if len(parts) == len(row) {
			events++
			continue
		}
		at := symbol + "[" + key + "]"
		first := totals[at] == nil
		if first {
			totals[at] = map[string]float64{}
		}
		total := totals[at]
		for column, value := range row {
			switch value := value.(type) {
			case float64:
				switch {
				case column == "max" && !first:
					total[column] = max(total[column], value)
				case column == "min" && !first:
					total[column] = min(total[column], value)
				case valueColumns[column]:
					total[column] += value
				}
			case []any:
				for i, n := range value {
					total[fmt.Sprintf("slot %d", i)] += n.(float64)
				}
			}
		}
	}
	if events > 0 {
		return fmt.Sprintf("%d events", events)
	}
	var lines []string
	for at, values := range totals {
		lines = append(lines, fmt.Sprintf("%s = {%s}", at, totalText(values)))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// valueColumns are the columns with values.
var valueColumns = map[string]bool{"count": true, "sum": true, "total": true, "slots": true, "value": true,
	"min": true, "max": true}

// totalText formats values as in the cases.
func totalText(values map[string]float64) string {
	var parts, slots []string
	for _, column := range []string{"count", "sum", "total", "value"} {
		if n, ok := values[column]; ok {
			parts = append(parts, fmt.Sprintf("%s: %.0f", column, n))
		}
	}
	for i := range 64 {
		if n := values[fmt.Sprintf("slot %d", i)]; n > 0 {
			slots = append(slots, fmt.Sprintf("%d:%.0f", i, n))
		}
	}
	for _, column := range []string{"min", "max"} {
		if n, ok := values[column]; ok {
			parts = append(parts, fmt.Sprintf("set: 1, %s: %.0f", column, n))
		}
	}
	if slots != nil {
		parts = append(parts, "slots: ["+strings.Join(slots, " ")+"]")
	}
	return strings.Join(parts, ", ")
}

// scriptMap returns the name of the only map of a case, as seen by other loaders.
func scriptMap(name string) string {
	i := slices.IndexFunc(cases, func(c testCase) bool { return c.name == name })
	symbol, _, _ := strings.Cut(cases[i].want, "[")
	return symbol
}

// runGadget runs an image with ig, and the workload, and returns the rows printed by ig.
func runGadget(t *testing.T, b built, image, name string, workload []string, options ...string) []map[string]any {
	t.Helper()
	program := filepath.Join(filepath.Dir(fetched(t, "bookworm")), "ig")
	if _, err := os.Stat(program); err != nil {
		t.Skip("skipped: no ig: tests/setup/loaders.sh could not build it")
	}
	const script = `set -e; mount -t tmpfs tmpfs /var/lib; mkdir /var/lib/ig
mountpoint -q /sys/kernel/debug || mount -t debugfs debugfs /sys/kernel/debug
[ -e /sys/kernel/tracing/events ] || mount -t tracefs tracefs /sys/kernel/tracing
mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf
program=$1 name=$3; "$program" image import "$2" >/dev/null; shift 3
exec "$program" -v run "$name" --verify-image=false --pull never -o json "$@"`
	args := []string{"--mount", "--propagation", "private", "sh", "-c", script, "sh", program, image, name}
	cmd := exec.Command("unshare", append(args, options...)...)
	cmd.Env = append(os.Environ(), "HOST_ROOT=/")
	var out bytes.Buffer
	cmd.Stdout = &out
	messages, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	attached := make(chan bool)
	var once sync.Once
	done := make(chan bool)
	go func() {
		defer close(done)
		lines := bufio.NewScanner(io.TeeReader(messages, &log))
		for lines.Scan() {
			if strings.Contains(lines.Text(), "Attaching ") || strings.Contains(lines.Text(), "starting ebpfInstance") {
				once.Do(func() { close(attached) })
			}
		}
		once.Do(func() { close(attached) })
	}()
	select {
	case <-attached:
	case <-time.After(60 * time.Second):
	}
	time.Sleep(time.Second) // loading and attaching
	if out, err := exec.Command(workload[0], workload[1:]...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	time.Sleep(500 * time.Millisecond) // for events that are still in the buffers
	cmd.Process.Signal(syscall.SIGINT)
	<-done
	if err := cmd.Wait(); err != nil {
		t.Fatalf("ig: %v\n%s", err, log.String())
	}
	rows, err := decodeRows(&out)
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	return rows
}

// decodeRows reads the rows that ig prints: one, or a list, at a time.
func decodeRows(r io.Reader) (rows []map[string]any, err error) {
	d := json.NewDecoder(r)
	for {
		var v any
		if err := d.Decode(&v); err == io.EOF {
			return rows, nil
		} else if err != nil {
			return nil, err
		}
		switch v := v.(type) {
		case map[string]any:
			rows = append(rows, v)
		case []any:
			for _, row := range v {
				rows = append(rows, row.(map[string]any))
			}
		}
	}
}

// TestGadgetSources checks that the programs of a clause with several probes send a printf to one data
// source, and that programs that are never attached send to none.
func TestGadgetSources(t *testing.T) {
	b := build(t, runtime.GOARCH)
	object := b.path("x.o")
	b.compileScript(t, `begin { printf("%s\n", "start"); }
		t:syscalls:sys_enter_lseek, t:syscalls:sys_enter_read { printf("%s %d\n", comm, pid); @n = count(); }
		t:syscalls:sys_enter_lseek, t:syscalls:sys_exit_lseek { printf("%s\n", probe); }
		t:syscalls:sys_enter_lseek { printf("%d\n", args.offset); @[probe] = min(pid); }`, object, "--for", "gadget")
	out, err := exec.Command(b.path("btc"), "export", "gadget", object).Output()
	if err != nil {
		t.Fatal(err)
	}
	var sources []string
	for line := range strings.Lines(string(out)) {
		if name, ok := strings.CutSuffix(strings.TrimSpace(line), ":"); ok && strings.HasPrefix(line, "  ") &&
			line[2] != ' ' {
			sources = append(sources, name)
		}
	}
	if want := []string{"n", "AT", "printf1", "printf5", "begin_0"}; !slices.Equal(sources, want) {
		t.Errorf("data sources and programs are %q, want %q:\n%s", sources, want, out)
	}
}

// TestGadgetEvents checks that Inspektor Gadget shows the values of a printf as columns, and sets
// parameters.
func TestGadgetEvents(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	if !*all {
		tier.Real.Need(t, "a loader that is fetched")
	}
	b := build(t, runtime.GOARCH)
	object, image := b.path("x.o"), b.path("x.tar")
	const script = onWork + `/args.offset >= getopt("from", 11) && args.offset <= $1/ {
		printf("%d %s %s %d %d\n", pid, comm, str(args.fd), args.offset, (int16)-3); }`
	b.compileScript(t, strings.Replace(script, "/ /", " && ", 1), object, "--for", "gadget", "--", "11")
	if out, err := exec.Command(b.path("btc"), "export", "gadget", object, "-o", image, "-t", "btc-x").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	rows := runGadget(t, b, image, "btc-x", b.workload(""), "--from", "9", "--param1", "10")
	for _, row := range rows {
		offset := row["offset"].(float64)
		if row["comm"] != workload || row["pid"].(float64) < 2 || row["fd"] != "" || row["arg4"].(float64) != -3 ||
			offset < 9 ||
			offset > 10 {
			t.Fatalf("event = %v", row)
		}
	}
	if len(rows) != 800 {
		t.Errorf("%d events, want 800", len(rows))
	}
}

// TestGadgetProfile checks that Inspektor Gadget samples the CPU clock for profile probes, and does not
// attach programs that it does not support.
func TestGadgetProfile(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	if !*all {
		tier.Real.Need(t, "a loader that is fetched")
	}
	b := build(t, runtime.GOARCH)
	object, image := b.path("x.o"), b.path("x.tar")
	const script = `begin { @start = nsecs; } interval:s:1 { @tick = count(); } kprobe:no_such_* { @none = count(); }
profile:ms:2 /comm == "sha256sum"/ { @busy[comm]++; @samples[pid, comm] = count(); }`
	b.compileScript(t, script, object, "--for", "gadget")
	out, err := exec.Command(b.path("btc"), "export", "gadget", object, "-o", image, "-t", "btc-x").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, probe := range []string{"begin", "interval:s:1", "kprobe:no_such_*", "@start"} {
		if !strings.Contains(string(out), "omitted: "+probe) {
			t.Errorf("%s not reported as omitted:\n%s", probe, out)
		}
	}
	busy, samples := 0.0, 0.0
	for _, row := range runGadget(t, b, image, "btc-x", []string{"sh", "-c", "timeout 1 sha256sum /dev/zero || true"}) {
		if n, ok := row["value"].(float64); ok && row["comm"] == "sha256sum" {
			busy += n
		}
		if n, ok := row["count"].(float64); ok && row["comm"] == "sha256sum" && row["pid"].(float64) > 1 {
			samples += n
		}
	}
	// 500 per second of CPU time, of which there may be little on a loaded machine.
	if busy < 5 || busy > 600 || busy != samples {
		t.Errorf("got %g and %g samples", busy, samples)
	}
}
