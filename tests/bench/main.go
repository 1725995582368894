// SPDX-License-Identifier: Apache-2.0

// Bench measures btc against bpftrace, side by side on the running kernel:
//
//	go run ./tests/bench [-quick] [-only AXIS,...] [-case RE] [-rounds N] [-out DIR] [-bin DIR]
//
// The axes are compile (time and memory of the whole process), code (instructions after loading, and
// those processed by the verifier), events (cost of one event), output (events printed without loss),
// latency (delay until they are printed, and the loss in a burst), loader (start, memory, size) and attach
// (many probes). Two more only run if named by -only: fleet (snapshots, a thousand hosts in a real
// Prometheus, btc merge, btc replay) and why (what the counters of --why add to an event). Runs of the two tools alternate and change their order each round; results are
// medians, with the minimum and the maximum. docs/bench keeps the figures of axes that are no longer
// measured: layouts and filters.
// It writes bench.json, bench.svg and bench.md.
// It needs root, a kernel with BPF statistics (5.8), and the bpftrace that tests/setup/oracle.sh
// installs.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"btc/tests/stripped"
)

// bench is one run of the benchmark.
type bench struct {
	root   string // top of the repository
	dir    string // temporary files
	bin    string // directory of btc and btrun; "" builds them
	before string // directory of the btc and btrun to compare with; "" to compare with bpftrace
	quick  bool
	rounds int
	match  *regexp.Regexp // cases to measure; nil for all
	btc    btcTool
	ref    refTool
	result result
}

// axes are run in this order; those with asked set only run if -only names them.
var axes = []struct {
	name  string
	run   func(*bench) error
	asked bool
}{
	{name: "compile", run: (*bench).compile},
	{name: "code", run: (*bench).code},
	{name: "events", run: (*bench).events},
	{name: "output", run: (*bench).output},
	{name: "latency", run: (*bench).latency},
	{name: "loader", run: (*bench).loader},
	{name: "attach", run: (*bench).attach},
	{name: "fleet", run: (*bench).fleet, asked: true},
	{name: "why", run: (*bench).why, asked: true},
}

func main() {
	if os.Getenv(inside) == "" {
		os.Exit(enter())
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	b := &bench{}
	only := flag.String("only", "", "axes to measure, separated by commas")
	match := flag.String("case", "", "regular expression of cases (events, code)")
	out := flag.String("out", "docs/bench", "directory of the results; they replace those of the axes measured")
	flag.StringVar(&b.bin, "bin", "", "directory of the btc and btrun to measure, instead of building them")
	flag.StringVar(&b.before, "before", "", "directory of an earlier btc and btrun, to compare with instead of bpftrace")
	flag.BoolVar(&b.quick, "quick", false, "fewer rounds and sizes, to look at a change")
	flag.IntVar(&b.rounds, "rounds", 0, "rounds of each measurement (default 7, quick 3)")
	flag.Parse()
	if b.rounds == 0 {
		b.rounds = 7
		if b.quick {
			b.rounds = 3
		}
	}
	if b.before != "" && *out == "docs/bench" {
		return errors.New("-before requires -out")
	}
	if *match != "" {
		var err error
		if b.match, err = regexp.Compile(*match); err != nil {
			return err
		}
	}
	if err := b.prepare(); err != nil {
		return err
	}
	defer b.cleanUp()
	path := filepath.Join(b.root, *out, "bench.json")
	if filepath.IsAbs(*out) {
		path = filepath.Join(*out, "bench.json")
	}
	if old, err := os.ReadFile(path); err == nil {
		if err := json.Unmarshal(old, &b.result); err != nil {
			return fmt.Errorf("%s: %v", path, err)
		}
	}
	b.result.Host = b.host()
	fmt.Println(b.result.Host)
	for _, a := range axes {
		if *only == "" && a.asked || *only != "" && !slices.Contains(strings.Split(*only, ","), a.name) {
			continue
		}
		start := time.Now()
		if err := a.run(b); err != nil {
			return fmt.Errorf("%s: %v", a.name, err)
		}
		fmt.Printf("-- %s: %.0f s\n", a.name, time.Since(start).Seconds())
		if err := b.result.write(filepath.Dir(path)); err != nil {
			return err
		}
	}
	return nil
}

// cleanUp removes the directory made by prepare, in which bpftrace's mounts are.
func (b *bench) cleanUp() {
	if b.before == "" {
		_ = unix.Unmount(b.ref.chroot+b.dir, unix.MNT_DETACH)
	}
	_ = os.RemoveAll(b.dir)
}

// prepare builds the two programs and finds bpftrace.
func (b *bench) prepare() error {
	var err error
	if b.root, err = filepath.Abs("."); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(b.root, "tests/bench/events")); err != nil {
		return fmt.Errorf("run it in the top directory of the repository: %v", err)
	}
	if b.dir, err = os.MkdirTemp("", "btc-bench"); err != nil {
		return err
	}
	for _, p := range []string{"btc", "btrun"} {
		if b.bin != "" {
			// Not in this process: its peak memory would be inherited by its children.
			if out, err := exec.Command("cp", filepath.Join(b.bin, p), b.dir).CombinedOutput(); err != nil {
				return fmt.Errorf("%v: %s", err, out)
			}
			continue
		}
		if err := stripped.Build(b.dir, "./cmd/"+p); err != nil {
			return err
		}
	}
	b.btc = btcTool{dir: b.dir}
	if b.before != "" {
		return nil
	}
	b.ref, err = reference(b.root, b.dir)
	return err
}

// sides returns the names of the two sides if they are not btc and bpftrace.
func (b *bench) sides() [2]string {
	if b.before == "" {
		return [2]string{}
	}
	tools := b.tools()
	return [2]string{tools[0].name(), tools[1].name()}
}

// tools returns the two tools that are compared.
func (b *bench) tools() [2]tool {
	if b.before != "" {
		return [2]tool{b.btc, earlierTool{btcTool{dir: b.before}}}
	}
	return [2]tool{b.btc, b.ref}
}

// alternate runs both tools, k = 0 and 1, and swaps their order each round. It stops at the first
// error.
func (b *bench) alternate(rounds int, run func(k int, t tool) error) error {
	tools := b.tools()
	for round := range rounds {
		for i := range tools {
			k := (i + round) % len(tools)
			if err := run(k, tools[k]); err != nil {
				return fmt.Errorf("%s: %w", tools[k].name(), err)
			}
		}
	}
	return nil
}

// matches reports whether a case is to be measured.
func (b *bench) matches(name string) bool { return b.match == nil || b.match.MatchString(name) }

// host describes the machine.
func (b *bench) host() string {
	var u unix.Utsname
	unix.Uname(&u)
	cpu := "unknown CPU"
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if m := regexp.MustCompile(`model name\s*: (.*)`).FindSubmatch(info); m != nil {
			cpu = string(m[1])
		}
	}
	n, _ := filepath.Glob("/sys/devices/system/cpu/cpu[0-9]*")
	load, _ := os.ReadFile("/proc/loadavg")
	loads := strings.Fields(string(load))
	return fmt.Sprintf("%s against btc %s, Linux %s %s, %d x %s, load %s at start, %s", b.ref.version, b.commit(),
		unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Machine[:]), len(n), cpu,
		strings.Join(loads[:min(1, len(loads))], ""), time.Now().UTC().Format("2006-01-02"))
}

func (b *bench) commit() string {
	out, err := exec.Command("git", "-C", b.root, "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "devel"
	}
	return strings.TrimSpace(string(out))
}
