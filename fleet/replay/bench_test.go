// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"
	"io"
	"math/rand"
	"strconv"
	"strings"
	"testing"

	"btc/loader/output"
)

// bigRun is the recording of a run with samples in a number of different stacks of 30 frames.
func bigRun(stacks, samples int) string {
	head, _, _ := strings.Cut(small, "\n")
	head = strings.Replace(head, `"maps":[{"name":"@","symbol":"AT_","shape":"count","type":"percpu_hash","key_size":8,"value_size":8,"max_entries":4096,"key":{"kind":"int","size":8,"signed":true}`,
		`"maps":[{"name":"s","symbol":"s","shape":"stack","type":"hash","key_size":8,"value_size":1016,"max_entries":65536,"value_off":0,"present":-1,"gens":1,"depth":127,"pos":{"line":0,"col":0}},{"name":"@","symbol":"AT_","shape":"count","type":"percpu_hash","key_size":24,"value_size":8,"max_entries":65536,"key":{"kind":"tuple","size":24,"fields":[{"off":0,"layout":{"kind":"kstack","size":8,"stack":"s","depth":127}},{"off":8,"layout":{"kind":"string","size":16}}]}`, 1)
	r := rand.New(rand.NewSource(1))
	counts := make([]int, stacks)
	for i := range samples {
		counts[i*7919%stacks]++
	}
	var b strings.Builder
	b.WriteString(head + "\n" + `{"type": "snapshot", "time": "2026-11-28T09:00:05Z", "final": true, "losses": []}` + "\n")
	b.WriteString(`{"type": "map", "time": "2026-11-28T09:00:05Z", "name": "@", "shape": "count", "object": "16", "host": "vm", "signed": false, "entries": [`)
	const frames = 5000
	for i, n := range counts {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, `{"key": [{"id": %d, "frames": [%d`, i+1, i%frames)
		for range 29 {
			fmt.Fprintf(&b, ",%d", r.Intn(frames))
		}
		fmt.Fprintf(&b, `]},"worker-%d"], "value": %d}`, i%10, n)
	}
	b.WriteString(`], "frames": [`)
	for i := range frames {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, `{"sym": "some_function_of_the_kernel_%d", "offset": %d, "address": %d}`, i, r.Intn(1000), 0xffffffff81000000+uint64(i)*256)
	}
	b.WriteString("]}\n")
	return b.String()
}

// TestManyStacks checks that no sample is lost: in text, in the lines of a flame graph, and in a timeline.
func TestManyStacks(t *testing.T) {
	const stacks, samples = 20000, 1000000
	text := bigRun(stacks, samples)
	sum := func(out string) (lines, sum int) {
		for line := range strings.Lines(out) {
			if i := strings.LastIndexByte(line, ' '); i >= 0 {
				if n, err := strconv.Atoi(strings.TrimSpace(line[i:])); err == nil {
					lines, sum = lines+1, sum+n
				}
			}
		}
		return lines, sum
	}
	for _, f := range []*output.Format{&output.Text, output.Find("folded")} {
		out, _, err := replayText(text, Options{Format: f})
		if n, all := sum(out); n != stacks || all != samples || err != nil {
			t.Errorf("%s: %d stacks with %d samples, %v", f.Name, n, all, err)
		}
	}
	all := 0.0
	for _, values := range timelineOf(t, text).Counters {
		all += values[len(values)-1].Value
	}
	if all != samples {
		t.Errorf("counters of %g samples", all)
	}
}

// BenchmarkStacks replays a million samples in 20,000 stacks.
func BenchmarkStacks(b *testing.B) {
	text := bigRun(20000, 1000000)
	b.SetBytes(int64(len(text)))
	for _, name := range []string{"text", "folded", "pprof", "json"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Run("r", strings.NewReader(text), Options{Format: output.Find(name), Out: io.Discard, Err: io.Discard}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
