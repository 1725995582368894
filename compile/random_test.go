// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"btc/frontend/diag"
	"btc/ir"
	"btc/ir/interp"
	"btc/passes"
	"btc/targets/kernel"
)

var (
	scriptCount = flag.Int("scripts", 60, "how many scripts TestRandomScripts makes")
	scriptFirst = flag.Uint64("first-script", 0, "the number of the first of them")
	scriptsTo   = flag.String("scripts-to", "", "write the scripts into this directory, to run them elsewhere, too")
)

// TestRandomScripts compiles random scripts of integers, strings, tuples, records, maps and loops. The
// interpreter must give the same results before and after the passes.
func TestRandomScripts(t *testing.T) {
	host, err := kernel.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	for seed := *scriptFirst; seed < *scriptFirst+uint64(*scriptCount); seed++ {
		text := (&scripts{rnd: rand.New(rand.NewPCG(seed, 7))}).script()
		if *scriptsTo != "" {
			if err := os.WriteFile(filepath.Join(*scriptsTo, fmt.Sprint(seed, ".bt")), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if seed%2 == 1 { // a script that the kernel runs, and often
			text = strings.Replace(text, "begin {", "kprobe:vfs_read {", 1)
		}
		if err := sameMeaning(host, text); err != nil {
			t.Errorf("seed %d: %v\n%s", seed, err, text)
		}
	}
}

// randomInputs are runs on a recent kernel, and on one without bpf_loop, for which loops with many
// iterations have another form.
const randomInputs = `
run PROG pid=100 tid=100 mono=5 boot=7 cpu=1 comm="bash"
run PROG pid=3 tid=4 mono=9 boot=9 comm="abc"
run PROG pid=100 tid=100 mono=5 boot=7 cpu=1 comm="bash" lacks=loop
run PROG pid=3 tid=4 mono=9 boot=9 comm="" lacks=loop
`

func sameMeaning(host *kernel.Target, text string) (err error) {
	defer func() {
		if r := recover(); r != nil { // a pass detected a bug in another one
			err = fmt.Errorf("%v", r)
		}
	}()
	in, diags := Input{Name: "random.bt", Text: text, Target: host}, &diag.List{}
	in.fixed = in.newFixed()
	m := frontend(in, diag.NewSource(in.Name, in.Text), diags)
	if m == nil {
		return fmt.Errorf("rejected: %v", diags.Sorted())
	}
	before, err := ir.Parse(m.String())
	if err != nil {
		return err
	}
	before.Target, before.Arches = m.Target, m.Arches
	if err := passes.Run(m, passes.Options{Verify: ir.VerifyStage}); err != nil {
		return err
	}
	inputs, err := interp.ParseInputs(strings.ReplaceAll(randomInputs, "PROG", m.Funcs[0].Name))
	if err != nil {
		return err
	}
	err = interp.Equivalent(before, m, inputs)
	if err != nil && strings.Contains(err.Error(), "the kernel has no helper loop") { // no other form
		err = interp.Equivalent(before, m, inputs[:2])
	}
	return err
}
