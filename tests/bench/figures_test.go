// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAboveAnEmptyProgram checks that a cost that cannot be distinguished from that of an empty program
// is replaced by the resolution.
func TestAboveAnEmptyProgram(t *testing.T) {
	for _, c := range []struct {
		name       string
		btc, ref   []float64
		noise      []float64
		ratio      float64
		remarkable bool
	}{
		{"both measurable", []float64{10, 12, 11}, []float64{22, 20, 24}, []float64{0.1}, 0.5, false},
		{"negative counts as the resolution", []float64{-3, -2, -4}, []float64{40, 40, 40}, []float64{2}, 0.05, true},
		{"the noisiest round is the resolution", []float64{3, 3, 3}, []float64{40, 40, 40}, []float64{0, 4, 1}, 0.1, true},
		{"resolution as the cost of bpftrace", []float64{40, 40, 40}, []float64{-3, -2, -4}, []float64{2}, 20, true},
		{"neither measurable: no ratio", []float64{4.4, -6, 13}, []float64{1.2, -5, 6}, []float64{5}, 0, true},
	} {
		r := above(c.name, [2][]float64{c.btc, c.ref}, c.noise)
		if r.Ratio != c.ratio || (r.Note != "") != c.remarkable {
			t.Errorf("%s: ratio = %v, note %q, want %v", c.name, r.Ratio, r.Note, c.ratio)
		}
		if r.Btc.Median != summarize(c.btc).Median {
			t.Errorf("%s: median = %v, want the measured one", c.name, r.Btc.Median)
		}
	}
	if m := geometric([]row{{Ratio: 0.25}, {}, {Ratio: 1}}); m != 0.5 {
		t.Errorf("mean with a row without ratio = %v", m)
	}
}

// TestMixture checks that copies of a clause have their own maps, and that there are empty clauses for
// each.
func TestMixture(t *testing.T) {
	script := filepath.Join(t.TempDir(), "count.bt")
	if err := os.WriteFile(script, []byte("tracepoint:a:b { @x[pid] = count(); }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	b := &bench{dir: t.TempDir()}
	d, err := b.mixture(script)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(d.script)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "tracepoint:a:b { }\n"); n != copies {
		t.Errorf("%d empty clauses, want %d, in\n%s", n, copies, text)
	}
	for _, want := range []string{"{ @x_0[pid] = count(); }", "{ @x_7[pid] = count(); }"} {
		if strings.Count(string(text), want) != 1 {
			t.Errorf("want %q exactly once in\n%s", want, text)
		}
	}
	list := make([]program, 0, 2*copies)
	for i := range 2 * copies {
		list = append(list, program{insns: 2 + 20*(i%2)})
	}
	groups, err := d.groups(list)
	if err != nil {
		t.Fatal(err)
	}
	if len(groups[0]) != copies || len(groups[1]) != copies/2 || len(groups[2]) != copies/2 {
		t.Errorf("groups() = groups of %d, %d and %d programs", len(groups[0]), len(groups[1]), len(groups[2]))
	}
	if _, err := d.groups(list[1:]); err == nil {
		t.Error("no error for a missing empty program")
	}
}

func TestWrap(t *testing.T) {
	var b strings.Builder
	wrap(&b, "* "+strings.Repeat("µµµµ ", 21), "  ")
	want := "* " + strings.TrimSpace(strings.Repeat("µµµµ ", 19)) + "\n  µµµµ µµµµ\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

var update = flag.Bool("update", false, "rewrite docs/bench/bench.md and bench.svg from bench.json")

// TestPage checks that docs/bench/bench.md and bench.svg show what bench.json has.
func TestPage(t *testing.T) {
	const dir = "../../docs/bench/"
	data, err := os.ReadFile(dir + "bench.json")
	if err != nil {
		t.Fatal(err)
	}
	var r result
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"bench.md": r.markdown(), "bench.svg": r.svg()} {
		if *update {
			if err := os.WriteFile(dir+name, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		have, err := os.ReadFile(dir + name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(have)); diff != "" {
			t.Errorf("docs/bench/%s (-from bench.json +have):\n%s", name, diff)
		}
	}
}
