// SPDX-License-Identifier: Apache-2.0

package passes

import "btc/ir"

// layout is block placement. It orders the blocks for emission: reverse postorder with cold
// blocks last, so that the common path falls through.
//
// requires:    -
// establishes: the entry is first, each hot block follows one that leads to it
// where there is one
// invalidates: the order of Func.Blocks, nothing else
//
//	b0: br v1, b1, b2    b1 (cold): jump b2    b2: ret 0
//	->
//	b0, b2, b1
func layoutBlocks(m *ir.Module) []ir.Diag {
	for _, f := range m.Funcs {
		var hot, cold []*ir.Block
		for i, b := range ir.ReversePostorder(f) {
			if b.Cold && i > 0 {
				cold = append(cold, b)
			} else {
				hot = append(hot, b)
			}
		}
		f.Blocks = append(hot, cold...)
	}
	return nil
}
