// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// whyCases are clauses whose counters cost something else each.
var whyCases = []struct{ name, clause string }{
	{"body", "{ @N = count(); }"},
	{"predicate, false, of one value", "/pid == 7/ { @N = count(); }"},
	{"predicate, false, of a string", "/comm == \"x\"/ { @N = count(); }"},
	{"predicate, false, of many values", "/args.pid == 7/ { @N = count(); }"},
	{"if, false, of many values", "{ if (args.pid == 7) { @N = count(); } }"},
	{"element read", "{ @N = max(@s[args.pid]); @s[7] = 7; }"},
	{"raw tracepoint (atomic)", "{ @N = count(); }"},
}

// sampled is how many values the counters draw at first (loader/rewrite).
const sampled = 64

// why measures what --why adds to an event: the same object runs with and without it at the same time, so that every event
// has both costs, with the same clock.
func (b *bench) why() error {
	stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		return fmt.Errorf("BPF statistics: %w", err)
	}
	defer stats.Close()
	a := axis{Name: "why", Title: "Cost of the counters of --why", Sides: [2]string{"added", " "}}
	for i, c := range whyCases {
		point := "tracepoint:syscalls:sys_enter_getpgid "
		if strings.HasPrefix(c.name, "raw") {
			point = "rawtracepoint:sys_enter "
		}
		var text strings.Builder
		for n := range copies {
			text.WriteString(point + strings.ReplaceAll(c.clause, "@N", fmt.Sprintf("@m%d", n)) + "\n")
		}
		script := filepath.Join(b.dir, fmt.Sprintf("why%d.bt", i))
		if err := os.WriteFile(script, []byte(text.String()), 0o644); err != nil {
			return err
		}
		object := b.btc.object(script)
		if out, err := b.btc.compile(script, object).CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		var event, drawn []float64
		for round := range b.rounds {
			first, later, err := b.whyCost(object, round%2 == 1)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			event, drawn = append(event, later), append(drawn, first-later)
		}
		a.add(only(c.name, "ns", event...))
		if strings.Contains(c.name, ", false, ") {
			a.add(only(c.name+": a value that is sampled", "ns", drawn...))
		}
	}
	a.note("each event runs %d copies of a clause without counters and %d with them; a round's figure is the difference of their means, the median of %d batches of %d events",
		copies, copies, batches, batchCalls)
	a.note("a value that is sampled: the first %d events of a run, in which all values of a comparison that is false are counted, less the others; the code runs for the first time in them", sampled)
	b.result.put(a)
	return nil
}

// whyCost runs an object with and without --why, and returns what --why adds to a clause: in the first events, and later.
func (b *bench) whyCost(object string, swapped bool) (first, later float64, err error) {
	var lists [2][]program
	for i := range 2 {
		k := i
		if swapped {
			k = 1 - i
		}
		args := []string{"--unsafe", object}
		if k == 1 {
			args = []string{"--unsafe", "--why", object}
		}
		t, err := start(exec.Command(filepath.Join(b.btc.dir, "btrun"), args...))
		if err != nil {
			return 0, 0, err
		}
		defer t.stop()
		if lists[k], err = t.programs(); err != nil {
			return 0, 0, err
		}
		defer closeAll(lists[k])
	}
	if n := len(lists[0]); n == 0 || n != len(lists[1]) {
		return 0, 0, fmt.Errorf("%d programs, and %d with counters", n, len(lists[1]))
	}
	bind()
	batch := func(n int) (float64, error) {
		var before, after [2]counters
		for tries := 0; tries < 10*batches; tries++ {
			for k := range lists {
				if before[k], err = runs(lists[k]); err != nil {
					return 0, err
				}
			}
			work(n)
			var mean [2]float64
			for k := range lists {
				if after[k], err = runs(lists[k]); err != nil {
					return 0, err
				}
				mean[k] = float64(after[k].ns-before[k].ns) / float64(after[k].count-before[k].count)
			}
			if after[0].count-before[0].count == after[1].count-before[1].count {
				return mean[1] - mean[0], nil
			}
		}
		return 0, errors.New("other processes make the same system calls")
	}
	if first, err = batch(sampled); err != nil {
		return 0, 0, err
	}
	var all []float64
	for range batches {
		d, err := batch(batchCalls)
		if err != nil {
			return 0, 0, err
		}
		all = append(all, d)
		time.Sleep(time.Millisecond)
	}
	return first, summarize(all).Median, nil
}
