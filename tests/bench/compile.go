// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// clauses are repeated in generated scripts; %d is replaced by a number that makes their names unique.
var clauses = []string{
	"tracepoint:syscalls:sys_enter_openat { @opens%d[comm, str(args.filename)] = count(); }",
	"tracepoint:syscalls:sys_enter_read /args.count > %d/ { @start%[1]d[tid] = nsecs; }",
	"tracepoint:syscalls:sys_exit_read /@start%d[tid]/ { @ns%[1]d = hist(nsecs - @start%[1]d[tid]); delete(@start%[1]d, tid); }",
	`tracepoint:sched:sched_switch /args.prev_pid == %d/ { printf("%%s %%d -> %%d\n", args.prev_comm, args.prev_pid, args.next_pid); }`,
	"tracepoint:syscalls:sys_exit_write { if (args.ret < 0) { @errors%d[-args.ret]++; } else { @bytes%[1]d = sum(args.ret); } }",
}

// generated returns a script of n clauses.
func generated(n int) string {
	var b strings.Builder
	for i := range n {
		// The two clauses of a latency pair have the same number.
		fmt.Fprintf(&b, clauses[i%len(clauses)]+"\n", i/len(clauses))
	}
	return b.String()
}

// input is a script to compile; n is its number of clauses if it is generated.
type input struct {
	name, path string
	n          int
}

// largestScripts is the number of real scripts that are compiled: the largest ones.
const largestScripts = 6

// compile measures the whole process that compiles a script.
func (b *bench) compile() error {
	a := axis{Name: "compile", Title: "Compile time, whole process"}
	m := axis{Name: "compile-memory", Title: "Memory at its peak while compiling"}
	var inputs []input
	for _, n := range []int{1, 10, 100, 300, 1000} {
		path := filepath.Join(b.dir, fmt.Sprintf("clauses-%d.bt", n))
		if err := os.WriteFile(path, []byte(generated(n)), 0o644); err != nil {
			return err
		}
		inputs = append(inputs, input{fmt.Sprintf("%d clauses", n), path, n})
	}
	inputs = append(inputs, b.largest()...)
	var oneLiner, real, realMemory, grown []row
	var counts []int // clauses of the generated scripts
	for _, in := range inputs {
		if !b.matches(in.name) {
			continue
		}
		rounds := b.rounds
		switch {
		case in.n >= 300 && b.quick:
			rounds = 1
		case in.n >= 300:
			rounds = min(rounds, 3)
		}
		var times, memory [2][]float64
		err := b.alternate(rounds, func(k int, t tool) error {
			took, kib, err := process(t.compile(in.path, filepath.Join(b.dir, "compile.o")))
			times[k] = append(times[k], took.Seconds()*1e3)
			memory[k] = append(memory[k], float64(kib)/1024)
			return err
		})
		if err != nil {
			a.note("%s left out: %v", in.name, firstLine(err))
			continue
		}
		t, mem := paired(in.name, "ms", times[0], times[1]), paired(in.name, "MiB", memory[0], memory[1])
		a.add(t)
		m.add(mem)
		switch {
		case in.n == 0:
			real, realMemory = append(real, t), append(realMemory, mem)
		case in.n == 1:
			oneLiner = append(oneLiner, t)
			m.mean("a one-liner", mem.Ratio, 0.1)
		}
		if in.n > 0 {
			grown = append(grown, t)
			counts = append(counts, in.n)
		}
	}
	if len(oneLiner) > 0 {
		a.mean("a one-liner", geometric(oneLiner), 0.05)
	}
	if len(real) > 0 {
		a.mean("the largest real scripts, geometric mean", geometric(real), 0.05)
		m.mean("the largest real scripts, geometric mean", geometric(realMemory), 0.1)
	}
	b.result.put(a)
	b.result.put(m)
	if g := growth(counts, grown); len(g.Rows) > 0 {
		b.result.put(g)
	}
	return nil
}

// growth returns the cost of an additional clause between two sizes. It is constant if the compile time
// is linear in the size of the script.
func growth(counts []int, times []row) axis {
	a := axis{Name: "growth", Title: "Compile time of one more clause"}
	for i := 1; i < len(times); i++ {
		more := float64(counts[i] - counts[i-1])
		each := func(from, to figure) figure { return exactly((to.Median - from.Median) / more * 1e3) }
		name := fmt.Sprintf("from %d to %d clauses", counts[i-1], counts[i])
		a.add(compared(name, "us", each(times[i-1].Btc, times[i].Btc), each(times[i-1].Ref, times[i].Ref)))
	}
	return a
}

// largest returns the largest scripts of the examples and the corpus.
func (b *bench) largest() []input {
	var files []string
	for _, dir := range []string{"examples", "tests/corpus"} {
		list, _ := filepath.Glob(filepath.Join(b.root, dir, "*.bt"))
		files = append(files, list...)
	}
	size := func(path string) int64 {
		fi, err := os.Stat(path)
		if err != nil {
			return 0
		}
		return fi.Size()
	}
	slices.SortFunc(files, func(x, y string) int { return int(size(y) - size(x)) })
	var out []input
	for _, f := range files {
		if len(out) == largestScripts {
			break
		}
		if _, _, err := process(b.ref.compile(f, "")); err != nil {
			continue // not comparable
		}
		out = append(out, input{filepath.Base(f), f, 0})
	}
	return out
}

// process runs a command and returns its elapsed time and its maximum resident set size in KiB.
func process(cmd *exec.Cmd) (time.Duration, int64, error) {
	start := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(start)
	if err != nil {
		return took, 0, fmt.Errorf("%v: %s", err, tail(string(out)))
	}
	return took, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss, nil
}
