// SPDX-License-Identifier: Apache-2.0

package irgen

import (
	"math/rand"
	"testing"

	"btc/ir"
	"btc/ir/interp"
)

// TestModulesAreValid checks that any bytes give a module that is valid, does not change when printed
// and parsed, and terminates.
func TestModulesAreValid(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	blocks := 0
	for i := range 400 {
		data := make([]byte, r.Intn(300))
		r.Read(data)
		m := Module(data, Level(i%2))
		stage := ir.High
		if i%2 == int(Core) {
			stage = ir.Core
		}
		if err := ir.VerifyStage(m, stage); err != nil {
			t.Fatalf("%v\n%s", err, m)
		}
		text := m.String()
		if again := ir.MustParse(text).String(); again != text {
			t.Fatalf("printing and parsing changed the module:\n%s\n%s", text, again)
		}
		if _, _, err := interp.RunAll(m, Inputs()); err != nil {
			t.Fatalf("%v\n%s", err, m)
		}
		blocks += len(m.Funcs[0].Blocks)
	}
	if blocks < 400*4 {
		t.Errorf("only %d blocks in total", blocks)
	}
}
