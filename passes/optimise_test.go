// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"testing"

	"btc/tests/filetest"
)

// optimisations are the passes with file tests in this directory.
var optimisations = map[string]filetest.Pass{
	"fold": fold, "cse": cse, "dce": dce, "simplify-cfg": simplifyCFG, "range": decideRanges,
	"sink": sink,
}

func TestOptimisations(t *testing.T) {
	for _, dir := range []string{"fold", "cse", "dce", "simplify_cfg", "range", "sink"} {
		t.Run(dir, func(t *testing.T) { filetest.Run(t, "testdata/"+dir, optimisations) })
	}
}
