// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"btc/cmd/btc/cost"
	"btc/compile"
	"btc/internal/manifest"
	"btc/loader/object"
	"btc/loader/options"
	"btc/loader/run"
	"btc/targets/kernel"
)

// more are scripts on the same system calls in addition to those of tests/bench/events.
var more = map[string]string{
	"two-maps":        `t:syscalls:sys_enter_getpgid { @a[pid] = count(); @b[comm] = sum(args.pid); }`,
	"uid-gid":         `t:syscalls:sys_enter_getpgid { @[uid, gid] = count(); }`,
	"cgroup":          `t:syscalls:sys_enter_getpgid { @[cgroup] = count(); }`,
	"three-keys":      `t:syscalls:sys_enter_getpgid { @[pid, tid, cpu] = max(args.pid); }`,
	"time":            `t:syscalls:sys_enter_getpgid { @ = max(nsecs); }`,
	"elapsed":         `t:syscalls:sys_enter_getpgid { @ = lhist(elapsed, 0, 1000000000, 10000000); }`,
	"random":          `t:syscalls:sys_enter_getpgid { @ = max(rand); }`,
	"filter-passes":   `t:syscalls:sys_enter_getpgid /args.pid > 7 && uid == 0/ { @ = count(); }`,
	"if-else":         `t:syscalls:sys_enter_getpgid { if (args.pid % 2 == 0) { @even = count(); } else { @odd = count(); } }`,
	"delete":          `t:syscalls:sys_enter_getpgid { @x[tid] = nsecs; delete(@x, tid); }`,
	"last-value":      `t:syscalls:sys_enter_getpgid { @x[pid] = args.pid; }`,
	"string-value":    `t:syscalls:sys_enter_chdir { @x[pid] = str(args.filename); }`,
	"compare-strings": `t:syscalls:sys_enter_chdir /str(args.filename) == "/nowhere/at/all"/ { @ = count(); }`,
	"strncmp":         `t:syscalls:sys_enter_chdir /strncmp(str(args.filename), "/nowhere", 8) == 0/ { @ = count(); }`,
	"printf-comm":     `t:syscalls:sys_enter_getpgid { printf("%s %d\n", comm, pid); }`,
	"printf-none":     `t:syscalls:sys_enter_getpgid { printf("x\n"); }`,
	"print-tuple":     `t:syscalls:sys_enter_getpgid { print((pid, args.pid)); }`,
	"curtask":         `t:syscalls:sys_enter_getpgid { @[curtask->comm] = count(); }`,
	"avg":             `t:syscalls:sys_enter_getpgid { @[comm] = avg(args.pid); }`,
	"ppid":            `t:syscalls:sys_enter_getpgid { @[curtask->real_parent->tgid, comm] = count(); }`,
	"hist-keyed":      `t:syscalls:sys_enter_getpgid { @[pid] = hist(args.pid); }`,
	"while":           `t:syscalls:sys_enter_getpgid { $i = 0; while ($i < 20) { $i++; @ = sum($i); } }`,
	"arithmetic":      `t:syscalls:sys_enter_getpgid { $x = (uint64)args.pid; @ = sum(($x * 7 + 3) / 5 % 1000 ^ $x >> 3); }`,
	"buf":             `t:syscalls:sys_enter_chdir { printf("%r\n", buf(args.filename, 16)); }`,
	"strftime":        `t:syscalls:sys_enter_getpgid { printf("%s\n", strftime("%H:%M:%S", nsecs)); }`,
}

// compared is a script with its estimated and measured cost, in ns above an empty clause.
type compared struct {
	name            string
	estimate, costs float64
	loops           bool
}

// compareAll prints estimates and measured costs side by side.
func compareAll(w io.Writer, only []string) error {
	table, err := cost.Default()
	if err != nil {
		return err
	}
	stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		return fmt.Errorf("BPF statistics: %w", err)
	}
	defer stats.Close()
	scripts := map[string]string{}
	for name, text := range more {
		scripts[name] = text
	}
	files, err := filepath.Glob("tests/bench/events/*.bt")
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no tests/bench/events (run it in the top directory of the repository): %v", err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		scripts[strings.TrimSuffix(filepath.Base(f), ".bt")] = string(text)
	}
	var all []compared
	for name, text := range scripts {
		if len(only) > 0 && !slices.Contains(only, name) {
			continue
		}
		c, err := compareOne(table, name, text)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, c)
	}
	report(w, all)
	return nil
}

// floor is the smallest cost used in a ratio, in ns: the resolution of the clock.
const floor = 2

func report(w io.Writer, all []compared) {
	slices.SortFunc(all, func(a, b compared) int { return cmp.Compare(a.name, b.name) })
	var ratios []float64
	fmt.Fprintf(w, "%-18s %10s %10s %7s\n", "script", "estimate", "measured", "ratio")
	for _, c := range all {
		ratio := max(c.estimate, floor) / max(c.costs, floor)
		note := ""
		if c.loops {
			note = "  a loop counts as one iteration: not in the range below"
		} else {
			ratios = append(ratios, ratio)
		}
		fmt.Fprintf(w, "%-18s %10.1f %10.1f %7.2f%s\n", c.name, c.estimate, c.costs, ratio, note)
	}
	slices.Sort(ratios)
	if len(ratios) == 0 {
		return
	}
	product := 0.0
	for _, r := range ratios {
		product += math.Log(r)
	}
	fmt.Fprintf(w, "%d scripts: ratio %.2f to %.2f, median %.2f, geometric mean %.2f\n", len(ratios),
		ratios[0], ratios[len(ratios)-1], ratios[len(ratios)/2], math.Exp(product/float64(len(ratios))))
}

// compareOne estimates a script and measures it.
func compareOne(table *cost.Table, name, text string) (compared, error) {
	c := compared{name: name}
	var empties []string
	for line := range strings.Lines(text) {
		point, _, _ := strings.Cut(line, " ")
		if strings.Contains(point, ":") && !slices.Contains(empties, point) {
			empties = append(empties, point)
			text += "\n" + point + " { }\n"
		}
	}
	read := func() (*object.Object, *kernel.Target, error) {
		t, err := kernel.Default("x86_64")
		if err != nil {
			return nil, nil, err
		}
		out, diags := compile.Compile(compile.Input{Name: name + ".bt", Text: text, Target: t, Compiler: "costs"})
		if out == nil {
			return nil, nil, fmt.Errorf("%v", diags)
		}
		m, err := manifest.Parse(out.Manifest)
		if err != nil {
			return nil, nil, err
		}
		o, err := object.Parse(out.Object, m)
		return o, t, err
	}
	o, t, err := read()
	if err != nil {
		return c, err
	}
	estimates, err := cost.Estimate(o, t, table)
	if err != nil {
		return c, err
	}
	if o, _, err = read(); err != nil { // the estimate modifies the object
		return c, err
	}
	costs, err := runCosts(o, len(estimates))
	if err != nil {
		return c, err
	}
	clauses := len(estimates) - len(empties)
	for i := range clauses {
		c.estimate += estimates[i].NS
		c.costs += costs[i]
		c.loops = c.loops || estimates[i].Loops
	}
	// Each clause is compared with the empty one on its event.
	for i := range clauses {
		for j := clauses; j < len(estimates); j++ {
			if estimates[j].Probe == estimates[i].Probe {
				c.estimate -= estimates[j].NS
				c.costs -= costs[j]
				break
			}
		}
	}
	return c, nil
}

// runCosts runs an object with the workload. It returns the cost of a run of each of its programs,
// in manifest order.
func runCosts(o *object.Object, n int) ([]float64, error) {
	before, err := programIDs()
	if err != nil {
		return nil, err
	}
	s, err := run.Load(o, run.Options{Report: options.Report{Quiet: true}})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if err := s.Attach(); err != nil {
		return nil, err
	}
	go s.Serve()
	defer s.Finish()
	defer s.Stop()
	after, err := programIDs()
	if err != nil {
		return nil, err
	}
	var progs []*ebpf.Program
	for _, id := range after {
		if slices.Contains(before, id) {
			continue
		}
		p, err := ebpf.NewProgramFromID(id)
		if err != nil {
			return nil, err
		}
		defer p.Close()
		progs = append(progs, p)
	}
	if len(progs) != n {
		return nil, fmt.Errorf("%d programs, but %d estimates", len(progs), n)
	}
	work(500) // warm up caches, insert the first elements
	costs := make([]float64, n)
	all := make([][]float64, n)
	for range batches {
		stats := make([]*ebpf.ProgramStats, n)
		for i, p := range progs {
			if stats[i], err = p.Stats(); err != nil {
				return nil, err
			}
		}
		work(300)
		for i, p := range progs {
			now, err := p.Stats()
			if err != nil {
				return nil, err
			}
			all[i] = append(all[i], float64(now.Runtime-stats[i].Runtime)/float64(max(now.RunCount-stats[i].RunCount, 1)))
		}
	}
	for i := range costs {
		costs[i] = slices.Min(all[i])
	}
	return costs, nil
}

// programIDs returns the IDs of the programs that this process has open, in the order of loading.
func programIDs() (all []ebpf.ProgramID, err error) {
	fds, err := filepath.Glob("/proc/self/fdinfo/*")
	for _, fd := range fds {
		text, err := os.ReadFile(fd)
		if err != nil || !strings.Contains(string(text), "\nprog_type:") {
			continue
		}
		for line := range strings.Lines(string(text)) {
			var id uint32
			if _, err := fmt.Sscanf(line, "prog_id: %d", &id); err == nil {
				all = append(all, ebpf.ProgramID(id))
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all), err
}

var (
	shortPath = append([]byte("/nowhere/at/all"), 0)
	longPath  = append([]byte("/nowhere/"+strings.Repeat("long-name/", 19)+"end"), 0) // 202 bytes
)

// work makes n calls of each of three system calls that nothing else makes.
func work(n int) {
	for i := range n {
		unix.RawSyscall(unix.SYS_GETPGID, uintptr(1<<22+i&0xfff), 0, 0)
	}
	for range n {
		unix.RawSyscall(unix.SYS_CHDIR, uintptr(unsafe.Pointer(&shortPath[0])), 0, 0)
	}
	for range n {
		unix.RawSyscall(unix.SYS_CHROOT, uintptr(unsafe.Pointer(&longPath[0])), 0, 0)
	}
}
