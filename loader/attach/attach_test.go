// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"btc/internal/kernelfs"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/host"
	"btc/loader/resolve"
	"btc/loader/sites"
)

func look(t *testing.T) *host.Host {
	t.Helper()
	h, err := host.Probe()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func one(p manifest.Program) *manifest.Manifest {
	return &manifest.Manifest{Script: manifest.Script{File: "x.bt", Source: "text"}, Programs: []manifest.Program{p}}
}

// needTracepoints skips the test if this user cannot list tracepoints, to which patterns would expand.
func needTracepoints(t *testing.T) {
	t.Helper()
	dir, err := kernelfs.Tracefs()
	if err == nil {
		_, err = os.ReadDir(dir + "/events/sched")
	}
	if err != nil {
		t.Skip("skipped: ", err)
	}
}

// counted returns a program that counts its runs in a map.
func counted(t *testing.T, typ ebpf.ProgramType, at ebpf.AttachType) (*ebpf.Program, func() uint64) {
	t.Helper()
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		t.Skip("skipped: cannot make BPF maps here: ", err)
	}
	t.Cleanup(func() { m.Close() })
	prog, err := ebpf.NewProgram(
		&ebpf.ProgramSpec{Type: typ, AttachType: at, License: "GPL", Instructions: asm.Instructions{
			asm.LoadMapValue(asm.R1, m.FD(), 0), asm.Mov.Imm(asm.R2, 1),
			asm.StoreXAdd(asm.R1, asm.R2, asm.DWord), asm.Mov.Imm(asm.R0, 0), asm.Return()}},
	)
	if err != nil {
		t.Skip("skipped: cannot load BPF programs here: ", err)
	}
	t.Cleanup(func() { prog.Close() })
	return prog, func() uint64 {
		var b []byte
		if b, err = m.LookupBytes(uint32(0)); err != nil {
			t.Fatal(err)
		}
		return binary.NativeEndian.Uint64(b)
	}
}

// attached expands and attaches one attach point, and returns a function that returns the number of
// runs.
func attached(t *testing.T, p manifest.Program, typ ebpf.ProgramType, opts sites.Options) func() uint64 {
	t.Helper()
	links, count := linked(t, p, typ, opts)
	t.Cleanup(func() { CloseAll(links) })
	return count
}

// linked is like attached, but leaves closing the links to the caller.
func linked(t *testing.T, p manifest.Program, typ ebpf.ProgramType, opts sites.Options) ([]io.Closer, func() uint64) {
	t.Helper()
	return linkedAfter(t, p, typ, opts, func() {})
}

// linkedAfter is like linked, and calls between after the sites are found and before anything is attached.
func linkedAfter(t *testing.T, p manifest.Program, typ ebpf.ProgramType, opts sites.Options, between func()) ([]io.Closer, func() uint64) {
	t.Helper()
	h := look(t)
	x, err := sites.Expand(h, one(p), opts)
	if err != nil {
		t.Fatal(err)
	}
	between()
	plan := &x.Plans[0]
	prog, count := counted(t, typ, plan.AttachType)
	progs := make([]*ebpf.Program, len(plan.Matches))
	for i := range progs {
		progs[i] = prog
	}
	made, err := Attach(plan, Programs{plan.Strategy, progs}, Options{PIDs: opts.PIDs, Follow: opts.Follow}, h)
	if err != nil {
		CloseAll(made.Links)
		t.Fatal(err)
	}
	if made.Probes(plan) != len(plan.Matches) {
		t.Errorf("attached %d of %d probes", made.Probes(plan), len(plan.Matches))
	}
	return made.Links, count
}

// TestAttachers checks that the kernel's kinds, and no others, have a row in the table.
func TestAttachers(t *testing.T) {
	for _, kind := range probe.Kinds() {
		if _, ok := attachers[kind]; ok != (probe.Lookup(kind).Runner == probe.Kernel) {
			t.Errorf("%s: has an attacher: %t", kind, ok)
		}
	}
}

func TestTracepoint(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: needs root")
	}
	needTracepoints(t)
	for _, name := range []string{"sys_enter_getpriority", "sys_enter_getpriorit*"} {
		count := attached(t,
			manifest.Program{Kind: "tracepoint", Attach: manifest.Attach{Text: "t", Target: "syscalls", Name: name}},
			ebpf.TracePoint, sites.Options{})
		before := count()
		for range 5 {
			getpriority()
		}
		if n := count() - before; n < 5 {
			t.Errorf("%s: counted %d calls, want 5", name, n)
		}
	}
}

// TestDetach checks that no program runs after Detach, even if links are not closed yet.
func TestDetach(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: needs root")
	}
	needTracepoints(t)
	links, count := linked(
		t,
		manifest.Program{
			Kind:   "tracepoint",
			Attach: manifest.Attach{Text: "t", Target: "syscalls", Name: "sys_enter_getpriorit*"},
		},
		ebpf.TracePoint,
		sites.Options{},
	)
	more, _ := linked(t, manifest.Program{Kind: "interval", Attach: manifest.Attach{Text: "i", Unit: "s", Count: 1}},
		ebpf.PerfEvent, sites.Options{})
	links = append(links, more...)
	before := count()
	getpriority()
	if count() == before {
		t.Error("program does not run")
	}
	free := Detach(links)
	defer free()
	before = count()
	getpriority()
	if n := count() - before; n != 0 {
		t.Errorf("program ran %d times after Detach", n)
	}
}

func TestUprobe(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: needs root")
	}
	// A copy of a program, so that other processes are not counted.
	sh, err := exec.LookPath("getent")
	if err != nil {
		t.Skip("skipped: no getent")
	}
	data, err := os.ReadFile(sh)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "prog")
	if err := os.WriteFile(path, data, 0o755); err != nil {
		t.Fatal(err)
	}
	m, err := exec.Command("readelf", "-h", path).Output()
	if err != nil {
		t.Skip("skipped: no readelf")
	}
	entry := uint64(0)
	for line := range strings.Lines(string(m)) {
		if _, v, ok := strings.Cut(line, "Entry point address:"); ok {
			for _, c := range strings.TrimSpace(v)[2:] {
				entry = entry<<4 | uint64(strings.IndexRune("0123456789abcdef", c))
			}
		}
	}
	count := attached(t,
		manifest.Program{Kind: "uprobe", Attach: manifest.Attach{Text: "u", Target: path, Addr: entry}}, ebpf.Kprobe,
		sites.Options{})
	for range 3 {
		exec.Command(path, "--version").Run()
	}
	if n := count(); n != 3 {
		t.Errorf("counted %d starts, want 3", n)
	}
}

// TestSwappedFile checks that the file whose functions were found is the one that is attached to, although another is
// at its path by then: directly, through a symbolic link, and with one link for several sites.
func TestSwappedFile(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: needs root")
	}
	data, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Skip("skipped: ", err)
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		t.Skip("skipped: ", err)
	}
	run := func(path string) {
		if err := exec.Command(path).Run(); err != nil {
			t.Fatal(err)
		}
	}
	for _, pids := range [][]int{nil, {os.Getpid(), 1}} {
		dir := t.TempDir()
		path, old, other := filepath.Join(dir, "prog"), filepath.Join(dir, "old"), filepath.Join(dir, "other")
		for _, name := range []string{path, other} {
			if err := os.WriteFile(name, data, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		swap := func() {
			if err := errors.Join(os.Rename(path, old), os.Symlink("other", path)); err != nil {
				t.Fatal(err)
			}
		}
		p := manifest.Program{Kind: "uprobe", Attach: manifest.Attach{Text: "u", Target: path, Addr: f.Entry}}
		links, count := linkedAfter(t, p, ebpf.Kprobe, sites.Options{PIDs: pids, Follow: len(pids) > 0}, swap)
		run(path)
		if n := count(); n != 0 {
			t.Errorf("%v: counted %d starts of a file that was not checked", pids, n)
		}
		run(old)
		if n := count(); n != 1 {
			t.Errorf("%v: counted %d starts, want 1", pids, n)
		}
		CloseAll(links)
	}
}

// TestFirstByte checks that the first byte of a file that contains only code can be probed.
func TestFirstByte(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: needs root")
	}
	path := filepath.Join(t.TempDir(), "flat")
	if err := os.WriteFile(path, []byte("\x90\x90\x90\x90\xc3 no ELF file"), 0o755); err != nil {
		t.Fatal(err)
	}
	attached(t, manifest.Program{Kind: "uprobe", Attach: manifest.Attach{Text: "u", Target: path}}, ebpf.Kprobe,
		sites.Options{Unsafe: true})
}

func TestTimers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: needs root")
	}
	for _, p := range []manifest.Program{
		{Kind: "interval", Attach: manifest.Attach{Text: "i", Unit: "ms", Count: 5}},
		{Kind: "profile", Attach: manifest.Attach{Text: "p", Unit: "hz", Count: 200}},
		{Kind: "software", Attach: manifest.Attach{Text: "s", Target: "cpu-clock", Count: 1e6}},
	} {
		count := attached(t, p, ebpf.PerfEvent, sites.Options{})
		for end := deadline(); count() == 0 && !end(); {
			spin()
		}
		if count() == 0 {
			t.Errorf("%s never fired", p.Kind)
		}
	}
}

// TestBisect checks that a list of functions is bisected until the rejected ones are isolated.
func TestBisect(t *testing.T) {
	var names, used, refused []string
	for i := range 100 {
		names = append(names, fmt.Sprint(i))
	}
	bad := map[string]bool{"7": true, "8": true, "99": true}
	calls := 0
	err := bisect(names, func(part []string) error {
		calls++
		for _, n := range part {
			if bad[n] {
				return fmt.Errorf("link: %w", unix.EINVAL)
			}
		}
		used = append(used, part...)
		return nil
	}, func(n string) { refused = append(refused, n) })
	if err != nil || len(used) != 97 || strings.Join(refused, " ") != "7 8 99" || calls > 40 {
		t.Errorf("error = %v, %d used, rejected %v, %d calls", err, len(used), refused, calls)
	}
	err = bisect(names, func(part []string) error { return unix.EPERM }, func(string) { t.Error("refused") })
	if !errors.Is(err, unix.EPERM) {
		t.Errorf("error = %v", err)
	}
}

// TestKprobeError checks that a function that exists, but cannot be probed, is not reported as missing.
func TestKprobeError(t *testing.T) {
	if k, err := kallsyms(); err != nil || len(k.Find("vfs_read")) == 0 {
		t.Skip("skipped: the kernel's functions cannot be listed")
	}
	gone := fmt.Errorf("creating perf_kprobe PMU: %w", os.ErrNotExist)
	for _, c := range []struct {
		name    string
		offset  uint64
		err     error
		missing bool
		want    string
	}{
		{"no_such_function", 0, gone, true, "No matches for kprobe vmlinux:no_such_function."},
		{"no_such_function", 0, unix.EINVAL, true, "No matches for kprobe vmlinux:no_such_function."},
		{"vfs_read", 0, gone, false, "refuses a kprobe"},
		{"vfs_read", 3, gone, false, "in the middle of an instruction"},
		{"vfs_read", 0, fmt.Errorf("a step: %w", unix.EINVAL), false, "does not allow probing it: invalid argument"},
		{"vfs_read", 0, unix.EPERM, false, "operation not permitted"},
	} {
		err := kprobeError(probe.Kprobe, &resolve.Match{Group: "vmlinux", Name: c.name, Offset: c.offset}, c.err)
		if resolve.IsMissing(err) != c.missing || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s+%d, %v: error = %v", c.name, c.offset, c.err, err)
		}
	}
}
