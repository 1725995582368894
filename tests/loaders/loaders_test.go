// Package loaders has objects loaded by programs that know nothing of btc, and holds what they
// find in maps and ring buffers against what the workload did: docs/manifest.md says what an object
// promises without its manifest.
//
// The loaders are agent (cilium/ebpf), which is always there, and those of this machine. Loading
// needs root. A loader that is missing is skipped.
package loaders

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"
)

// cases are scripts, and what a loader finds after the workload (command work): lines of maps that
// are not empty, of CPUs the sum, and the number of events. WORK is the workload's path. Each key of 12 occurs 400 times.
var cases = []struct{ name, script, want string }{
	{"count", `tracepoint:syscalls:sys_enter_lseek /comm == "loaderwork"/ { @calls = count(); }`, "calls[0] = {count: 4800}"},
	{"keyed-count", `tracepoint:syscalls:sys_enter_lseek /comm == "loaderwork"/ { @[args.offset] = count(); }`, each("AT_[{offset: %d}] = {count: 400}", none)},
	{"sum", `tracepoint:syscalls:sys_enter_lseek /comm == "loaderwork"/ { @[comm] = sum(args.offset); }`, "AT_[{comm: loaderwork}] = {sum: 26400}"},
	{"avg", `tracepoint:syscalls:sys_enter_lseek /comm == "loaderwork"/ { @[args.offset] = avg(args.offset); }`, each("AT_[{offset: %d}] = {count: 400, total: %d}", total)},
	{"stats", `tracepoint:syscalls:sys_enter_lseek /comm == "loaderwork"/ { @[args.offset] = stats(args.offset); }`, each("AT_[{offset: %d}] = {count: 400, total: %d}", total)},
	{"min-max", `tracepoint:syscalls:sys_enter_lseek /comm == "loaderwork"/ { @low[comm] = min(args.offset); @high[comm] = max(args.offset); }`,
		"high[{comm: loaderwork}] = {set: 1, max: 11}\nlow[{comm: loaderwork}] = {set: 1, min: 0}"},
	{"hist", `tracepoint:syscalls:sys_enter_lseek /comm == "loaderwork"/ { @h = hist(args.offset); }`, "h[0] = {slots: [1:400 2:400 3:800 4:1600 5:1600]}"},
	{"keyed-hist", `tracepoint:syscalls:sys_enter_lseek /comm == "loaderwork"/ { @h[comm] = hist(args.offset); }`, "h[{comm: loaderwork}] = {slots: [1:400 2:400 3:800 4:1600 5:1600]}"},
	{"printf", `tracepoint:syscalls:sys_enter_lseek /comm == "loaderwork"/ { printf("%d %s\n", args.offset, comm); }`, "4800 events"},
	{"print-long", `tracepoint:syscalls:sys_enter_lseek /comm == "loaderwork"/ { printf("%s %s %d\n", str(args.whence), comm, args.offset); }`, "4800 events"},
	{"stacks", `tracepoint:syscalls:sys_enter_lseek /comm == "loaderwork"/ { @[kstack(1)] = count(); }`, "4800 in stacks"},
	{"options", `tracepoint:syscalls:sys_enter_lseek /comm == "loaderwork" && args.offset < getopt("below", 6)/ { @ = count(); }`, "AT_[0] = {count: 2400}"},
	{"uprobe", `uprobe:WORK:main.step { @[comm] = count(); }`, "AT_[{comm: loaderwork}] = {count: 4800}"},
}

// each is a line for each key, which is followed by what more returns for it.
func each(format string, more func(key int) []any) string {
	var lines []string
	for i := range 12 {
		lines = append(lines, fmt.Sprintf(format, append([]any{i}, more(i)...)...))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func none(int) []any { return nil }

// total is the sum of the offsets that are the key.
func total(key int) []any { return []any{400 * key} }

// built is where the programs and objects are.
type built struct{ dir string }

func (b built) path(name string) string { return filepath.Join(b.dir, name) }

// build makes programs and objects for an architecture, and returns their directory.
func build(t *testing.T, goarch string) built {
	t.Helper()
	b := built{t.TempDir()}
	run := func(env []string, name string, args ...string) {
		cmd := exec.Command(name, args...)
		cmd.Env = append(os.Environ(), env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
		}
	}
	run([]string{"CGO_ENABLED=0"}, "go", "build", "-o", b.dir, "btc/cmd/btc")
	run([]string{"CGO_ENABLED=0", "GOARCH=" + goarch}, "go", "build", "-o", b.dir, "btc/tests/loaders/agent")
	run([]string{"CGO_ENABLED=0", "GOARCH=" + goarch}, "go", "build", "-o", b.path("loaderwork"), "btc/tests/loaders/work")
	for _, c := range cases {
		run(nil, b.path("btc"), "compile", "-e", strings.ReplaceAll(c.script, "WORK", b.path("loaderwork")), "-o", b.path(c.name+".o"))
	}
	return b
}

// TestLoaders has each loader run each object on this machine.
func TestLoaders(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	b := build(t, runtime.GOARCH)
	for _, c := range cases {
		t.Run("agent/"+c.name, func(t *testing.T) {
			out, err := withTracefs(b.path("agent"), b.path(c.name+".o"), b.path("loaderwork")).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if d := cmp.Diff(c.want, found(t, b.path(c.name+".o"), string(out))); d != "" {
				t.Errorf("found (-want +got):\n%s", d)
			}
		})
	}
}

// withTracefs is a command that finds tracefs mounted, as on most hosts.
func withTracefs(args ...string) *exec.Cmd {
	const script = `[ -e /sys/kernel/tracing/events ] || mount -t tracefs tracefs /sys/kernel/tracing; exec "$@"`
	return exec.Command("unshare", append([]string{"--mount", "--propagation", "private", "sh", "-c", script, "sh"}, args...)...)
}

// found is what a loader printed (see command agent), in the form of cases.
func found(t *testing.T, object, out string) string {
	t.Helper()
	spec, err := ebpf.LoadCollectionSpec(object)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	records, stacks := 0, uint64(0)
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		var parts [][]byte
		if len(f) > 2 {
			for _, text := range f[2:] {
				b, err := hex.DecodeString(text)
				if err != nil {
					t.Fatalf("%v: %s", err, line)
				}
				parts = append(parts, b)
			}
		}
		switch {
		case len(f) == 3 && f[0] == "event":
			records++
		case len(f) > 3 && f[0] == "map" && spec.Maps[f[1]] != nil:
			m := spec.Maps[f[1]]
			value := sum(parts[1:])
			if strings.HasPrefix(f[1], ".") || m.Key == nil || bytes.Count(value, []byte{0}) == len(value) {
				continue
			}
			if m.Type == ebpf.PerCPUHash && uses(spec, "kstack_1") {
				stacks += binary.NativeEndian.Uint64(value)
			}
			lines = append(lines, fmt.Sprintf("%s[%s] = %s", f[1], text(m.Key, parts[0]), text(m.Value, value)))
		default:
			t.Fatalf("unexpected line: %s", line)
		}
	}
	slices.Sort(lines)
	switch {
	case records > 0:
		return fmt.Sprintf("%d events", records)
	case stacks > 0:
		return fmt.Sprintf("%d in stacks", stacks)
	}
	return strings.Join(lines, "\n")
}

func uses(spec *ebpf.CollectionSpec, name string) bool { return spec.Maps[name] != nil }

// sum adds up the values of CPUs, word by word.
func sum(values [][]byte) []byte {
	total := slices.Clone(values[0])
	for _, v := range values[1:] {
		for i := 0; i+8 <= len(v); i += 8 {
			binary.NativeEndian.PutUint64(total[i:], binary.NativeEndian.Uint64(total[i:])+binary.NativeEndian.Uint64(v[i:]))
		}
	}
	return total
}

// text prints bytes as their type says, as bpftool does.
func text(t btf.Type, b []byte) string {
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Int:
		return fmt.Sprint(number(t, b))
	case *btf.Array:
		elem, err := btf.Sizeof(t.Type)
		if err != nil {
			return err.Error()
		}
		if elem == 1 {
			s, _, _ := strings.Cut(string(b), "\x00")
			return s
		}
		var parts []string
		for i := range int(t.Nelems) {
			if s := text(t.Type, b[i*elem:][:elem]); s != "0" {
				parts = append(parts, fmt.Sprintf("%d:%s", i, s))
			}
		}
		return "[" + strings.Join(parts, " ") + "]"
	case *btf.Struct:
		var parts []string
		for _, m := range t.Members {
			parts = append(parts, m.Name+": "+text(m.Type, b[m.Offset.Bytes():]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return fmt.Sprint(t)
}

func number(t *btf.Int, b []byte) int64 {
	if t.Size == 4 {
		return int64(binary.NativeEndian.Uint32(b))
	}
	return int64(binary.NativeEndian.Uint64(b))
}
