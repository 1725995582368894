// SPDX-License-Identifier: Apache-2.0

// Package loaders loads objects with programs that know nothing about btc, and with package btrace, and
// checks the contents of maps and ring buffers against the workload. docs/loaders.md has a table of
// what each of them supports.
//
// btrace and agent (cilium/ebpf) are always available. Other loaders only run with -all (make
// test-loaders), from the directory of tests/setup/loaders.sh; missing ones are skipped. Loading needs
// root.
package loaders

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"btc/tests/tier"
)

// cases are scripts with the expected result after the workload (command work): the lines of maps that
// are not empty, with the sum over all CPUs, and the number of events. WORK is the path of the
// workload. Each of the 12 keys occurs 400 times.
var cases = []testCase{
	{"count", `tracepoint:syscalls:sys_enter_lseek /comm == "loaderwork"/ { @calls = count(); }`, "calls[0] = {count: 4800}"},
	{"keyed-count", `tracepoint:syscalls:sys_enter_lseek /comm == "loaderwork"/ { @[args.offset] = count(); }`, each("AT_[{offset: %d}] = {count: 400}", none)},
	{"sum", `tracepoint:syscalls:sys_enter_lseek /comm == "loaderwork"/ { @[comm] = sum(args.offset); }`, "AT_[{comm: loaderwork}] = {sum: 26400}"},
	{"avg", `tracepoint:syscalls:sys_enter_lseek /comm == "loaderwork"/ { @[args.offset] = avg(args.offset); }`, each("AT_[{offset: %d}] = {count: 400, total: %d}", total)},
	{"stats", `tracepoint:syscalls:sys_enter_lseek /comm == "loaderwork"/ { @[args.offset] = stats(args.offset); }`, each("AT_[{offset: %d}] = {count: 400, total: %d}", total)},
	{"min-max", `tracepoint:syscalls:sys_enter_lseek /comm == "loaderwork"/ { @low[comm] = min(args.offset); @high[comm] = max(args.offset); }`, "high[{comm: loaderwork}] = {set: 1, max: 11}\nlow[{comm: loaderwork}] = {set: 1, min: 0}"},
	{"hist", `tracepoint:syscalls:sys_enter_lseek /comm == "loaderwork"/ { @h = hist(args.offset); }`, "h[0] = {slots: [1:400 2:400 3:800 4:1600 5:1600]}"},
	{"keyed-hist", `tracepoint:syscalls:sys_enter_lseek /comm == "loaderwork"/ { @h[comm] = hist(args.offset); }`, "h[{comm: loaderwork}] = {slots: [1:400 2:400 3:800 4:1600 5:1600]}"},
	{"printf", `tracepoint:syscalls:sys_enter_lseek /comm == "loaderwork"/ { printf("%d %s\n", args.offset, comm); }`, "4800 events"},
	{"print-long", `tracepoint:syscalls:sys_enter_lseek /comm == "loaderwork"/ { printf("%s %s %d\n", str(args.whence), comm, args.offset); }`, "4800 events"},
	{"stacks", `tracepoint:syscalls:sys_enter_lseek /comm == "loaderwork"/ { @[kstack(1)] = count(); }`, "4800 in stacks"},
	{
		"arguments",
		`tracepoint:syscalls:sys_enter_openat /comm == "loaderwork" && args.flags == 0x80100/ { @[str(args.filename, 64), args.flags, args.__syscall_nr] = count(); }`,
		"AT_[{filename: /proc/version/absent, flags: 524544, __syscall_nr: OPENAT}] = {count: 12}",
	},
	{"results", `tracepoint:syscalls:sys_exit_openat /comm == "loaderwork" && args.ret == -20/ { @[args.ret, args.__syscall_nr] = count(); }`, "AT_[{ret: -20, __syscall_nr: OPENAT}] = {count: 12}"},
	{"options", `tracepoint:syscalls:sys_enter_lseek /comm == "loaderwork" && args.offset < getopt("below", 6)/ { @ = count(); }`, "AT_[0] = {count: 2400}"},
	{"tuple-value", `tracepoint:syscalls:sys_enter_lseek /comm == "loaderwork"/ { @last[comm] = (args.offset, "x", (int8)-2); }`, "last[{comm: loaderwork}] = {value: {offset: 11, f1: x, f2: -2}}"},
	{"signed", `tracepoint:syscalls:sys_enter_lseek /comm == "loaderwork"/ { @[(int8)-3, "a", comm] = sum((int64)args.offset - 6); }`, "AT_[{key0: -3, key1: a, comm: loaderwork}] = {sum: -2400}"},
	{"uprobe", `uprobe:WORK:main.step { @[comm] = count(); }`, "AT_[{comm: loaderwork}] = {count: 4800}"},
	{"kprobe", `kprobe:do_sys_openat2 /comm == "loaderwork" && str(uptr(arg1)) == "/proc/version/absent"/ { @[(int32)arg0, comm] = count(); }`, "AT_[{arg0: -100, comm: loaderwork}] = {count: 12}"},
	{"usdt", `usdt:PROBES:other:step { @ = count(); }`, "AT_[0] = {count: 4800}"},
}

// workload is the process name of the workload in this run, because other runs may cause events, too.
var workload = fmt.Sprintf("load%d", os.Getpid())

// ours replaces the name of the workload in the tables by that of this run.
func ours(text string) string { return strings.ReplaceAll(text, "loaderwork", workload) }

type testCase struct{ name, script, want string }

// guestOnly are cases for guests: this machine's kernel may have no kprobes.
var guestOnly = map[string]bool{"kprobe": true}

// loaders run an object and the workload and return the result in the form of the cases.
var loaders = []struct {
	name string
	all  bool // only runs with -all
	run  func(t *testing.T, b built, name string) string
	// refused are the cases that the loader does not support, with the result; docs/loaders.md gives
	// the reasons.
	refused map[string]string
}{
	{"btrace", false, library, libraryDiffers},
	{"agent", false, agent, map[string]string{"usdt": ""}},
	{"libbpf-bookworm", true, libbpfBookworm, map[string]string{"usdt": ""}},
	{"libbpf-sid", true, libbpfSid, map[string]string{"usdt": ""}},
	{"ebpf_exporter", true, exporter, exporterRefused},
	{"gadget", true, gadget, gadgetRefused},
	{"bpftool-bookworm", true, bpftoolBookworm, loadsOnly()},
	{"bpftool-sid", true, bpftoolSid, map[string]string{"usdt": "does not support autoattach", "printf": "", "print-long": ""}},
}

// libraryDiffers are results that package btrace returns in another form: the parts of tuples have no names.
var libraryDiffers = map[string]string{"tuple-value": "last[{comm: loaderwork}] = {[11 x -2]}"}

// gadgetRefused are the results of Inspektor Gadget that differ. It attaches uprobes to containers only. It
// numbers powers of two starting with the one for 0 and 1.
var gadgetRefused = map[string]string{
	"stacks": "refused", "usdt": "", "uprobe": "", "tuple-value": "refused",
	"signed":     "AT_[{comm: loaderwork, key0: -3, key1: a}] = {sum: -2400}",
	"arguments":  "AT_[{filename: /proc/version/absent, flags: 524544, syscall_nr: OPENAT}] = {count: 12}",
	"results":    "AT_[{ret: -20, syscall_nr: OPENAT}] = {count: 12}",
	"hist":       "h[0] = {slots: [0:800 1:800 2:1600 3:1600]}",
	"keyed-hist": "h[{comm: loaderwork}] = {slots: [0:800 1:800 2:1600 3:1600]}"}

// loadsOnly returns the expectations for a loader that attaches nothing.
func loadsOnly() map[string]string {
	none := map[string]string{}
	for _, c := range cases {
		none[c.name] = ""
	}
	return none
}

// exporterRefused are the cases that ebpf_exporter does not support or shows differently.
var exporterRefused = map[string]string{
	"printf": "refused", "print-long": "refused", "stacks": "refused", "usdt": "",
	"tuple-value": "refused", "signed": "refused",
	"arguments": "AT_[{filename: /proc/version/absent, flags: 524544, key_syscall_nr: OPENAT}] = {count: 12}",
	"results":   "AT_[{key_syscall_nr: OPENAT, ret: -20}] = {count: 12}"}

var all = flag.Bool("all", tier.Real.Runs(), "run the loaders that tests/setup/loaders.sh fetches, too (default: the tier real runs)")

// each returns a line for each key, followed by the values that more returns for it.
func each(format string, more func(key int) []any) string {
	var lines []string
	for i := range 12 {
		lines = append(lines, fmt.Sprintf(format, append([]any{i}, more(i)...)...))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func none(int) []any { return nil }

// total returns the sum of the offsets that are equal to the key.
func total(key int) []any { return []any{400 * key} }

// built describes the built programs and objects.
type built struct {
	dir    string
	probes bool // whether the program with static probes was built
}

func (b built) path(name string) string { return filepath.Join(b.dir, name) }

// build builds the programs and objects for an architecture and returns their directory.
func build(t *testing.T, goarch string) built {
	t.Helper()
	b := buildPrograms(t, goarch)
	for _, c := range cases {
		b.compile(t, c.name, b.path(c.name+".o"))
	}
	return b
}

// compilers are the C compilers by architecture, with their Debian names.
var compilers = map[string]string{"amd64": "x86_64-linux-gnu-gcc", "arm64": "aarch64-linux-gnu-gcc"}

// buildPrograms builds the compiler, and the loaders and workloads for an architecture.
func buildPrograms(t *testing.T, goarch string) built {
	t.Helper()
	b := built{dir: t.TempDir()}
	run := func(env []string, name string, args ...string) {
		cmd := exec.Command(name, args...)
		cmd.Env = append(os.Environ(), env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
		}
	}
	run([]string{"CGO_ENABLED=0"}, "go", "build", "-o", b.dir, "btc/cmd/btc")
	for _, program := range []string{"agent", "library"} {
		run([]string{"CGO_ENABLED=0", "GOARCH=" + goarch}, "go", "build", "-o", b.dir, "btc/tests/loaders/"+program)
	}
	run([]string{"CGO_ENABLED=0", "GOARCH=" + goarch}, "go", "build", "-o", b.path(workload),
		"btc/tests/loaders/work")
	gcc := compilers[goarch]
	if _, err := exec.LookPath(gcc); err == nil {
		run(nil, gcc, "-O2", "-static", "-o", b.path("loaderprobes"), "../workload/usdt/usdt.c")
		b.probes = true
	}
	return b
}

// compile compiles the script of a case to an object.
func (b built) compile(t *testing.T, name, object string, options ...string) {
	t.Helper()
	i := slices.IndexFunc(cases, func(c testCase) bool { return c.name == name })
	b.compileScript(t, cases[i].script, object, options...)
}

func (b built) compileScript(t *testing.T, script, object string, options ...string) {
	t.Helper()
	script = strings.NewReplacer("WORK", b.path(workload), "PROBES", b.path("loaderprobes")).Replace(ours(script))
	cmd := exec.Command(b.path("btc"), append([]string{"compile", "-e", script, "-o", object}, options...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// TestLoaders loads each object with each loader on this machine.
func TestLoaders(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	b := build(t, runtime.GOARCH)
	for _, l := range loaders {
		t.Run(l.name, func(t *testing.T) {
			if l.all && !*all {
				tier.Real.Need(t, "a loader that is fetched")
			}
			for _, c := range cases {
				if guestOnly[c.name] {
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					want := c.want
					if other, ok := l.refused[c.name]; ok {
						want = other
					}
					if c.name == "usdt" && !b.probes {
						t.Skip("skipped: no C compiler for a program with static probes")
					}
					want = strings.ReplaceAll(ours(want), "OPENAT", fmt.Sprint(unix.SYS_OPENAT))
					if d := cmp.Diff(want, l.run(t, b, c.name)); d != "" {
						t.Errorf("found (-want +got):\n%s", d)
					}
				})
			}
		})
	}
}

// workload returns the command that causes the events of a case.
func (b built) workload(name string) []string {
	if name == "usdt" {
		return []string{b.path("loaderprobes"), "4800"}
	}
	return []string{b.path(workload)}
}

// output runs a command that loads the object of a case.
func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var messages bytes.Buffer
	cmd.Stderr = &messages
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(cmd.Args, " "), err, out, messages.String())
	}
	return string(out)
}

func agent(t *testing.T, b built, name string) string {
	return found(t, b.path(name+".o"), agentOutput(t, b, name))
}

func agentOutput(t *testing.T, b built, name string) string {
	t.Helper()
	return output(t, withTracefs(append([]string{b.path("agent"), b.path(name + ".o")}, b.workload(name)...)...))
}

// withTracefs returns a command for which tracefs and bpffs are mounted, as on most hosts.
func withTracefs(args ...string) *exec.Cmd {
	const script = `[ -e /sys/kernel/tracing/events ] || mount -t tracefs tracefs /sys/kernel/tracing
mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf; exec "$@"`
	return exec.Command(
		"unshare",
		append([]string{"--mount", "--propagation", "private", "sh", "-c", script, "sh"}, args...)...)
}

// found converts the output of a loader (see command agent) to the form of the cases.
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
		if len(f) == 3 && f[0] == "events" { // printed in guests
			n, err := strconv.Atoi(f[2])
			if err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			records += n
			continue
		}
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
		case len(f) > 2 && f[0] == "map" && (strings.Contains(f[1], ".") || strings.HasPrefix(f[1], "scratch")):
			// variables, and memory that programs use at run time
		case len(f) == 3 && f[0] == "event":
			records++
		case len(f) > 3 && f[0] == "map" && spec.Maps[f[1]] != nil:
			m := spec.Maps[f[1]]
			value := sum(parts[1:])
			if m.Key == nil || bytes.Count(value, []byte{0}) == len(value) {
				continue
			}
			if m.Type == ebpf.PerCPUHash && keysStacks(spec) {
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

// keysStacks reports whether the script of an object has stacks of one frame.
func keysStacks(spec *ebpf.CollectionSpec) bool {
	for name := range spec.Maps {
		if strings.HasPrefix(name, "kstack_1_") {
			return true
		}
	}
	return false
}

// sum adds up the values of all CPUs, word by word.
func sum(values [][]byte) []byte {
	total := slices.Clone(values[0])
	for _, v := range values[1:] {
		for i := 0; i+8 <= len(v); i += 8 {
			binary.NativeEndian.PutUint64(total[i:],
				binary.NativeEndian.Uint64(total[i:])+binary.NativeEndian.Uint64(v[i:]))
		}
	}
	return total
}

// text formats bytes according to their type, like bpftool.
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
