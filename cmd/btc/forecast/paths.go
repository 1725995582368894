// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"fmt"

	"github.com/cilium/ebpf/asm"

	"btc/internal/manifest"
	"btc/loader/adapt"
	"btc/loader/object"
	"btc/loader/rewrite"
	"btc/targets/kernel"
)

// Code is a program as a target's kernel would run it by default: relocated, with tests for helpers decided, and without walks
// by unwind tables that only --unwind=dwarf needs.
type Code struct {
	Insns asm.Instructions
	flow  *flow
}

// usualWalks are the walks by unwind tables that btrun keeps unless --unwind says otherwise.
const usualWalks = rewrite.UnwindMarked

// CodeOf returns a program of an object for a target. It modifies the object.
func CodeOf(o *object.Object, t *kernel.Target, p *manifest.Program) (*Code, error) {
	c := &checker{o: o, m: o.Manifest, t: t, r: &Report{}}
	if err := c.readFeatures(); err != nil {
		return nil, err
	}
	rewrite.DropWalks(o.Spec, usualWalks)
	spec := o.Spec.Programs[p.Name]
	if spec == nil {
		return nil, fmt.Errorf("the object has no program %s", p.Name)
	}
	insns, at := spec.Copy().Instructions, []int(nil)
	if p.Code != nil {
		has := func(h asm.BuiltinFunc) bool { return c.helpers[int64(h)] }
		insns, at, _ = rewrite.Decide(insns, p.Code.Forms, adapt.Forms(t.Arch().Label, has))
	}
	if err := c.relocate(p, insns, at); err != nil {
		return nil, err
	}
	f := newFlow(insns)
	f.run()
	return &Code{insns, f}, nil
}

// Reached reports whether an instruction is reachable.
func (c *Code) Reached(i int) bool { return c.flow.reached(i) }

// Next returns the following instruction and the target of a jump, or -1. Calls continue with the
// following instruction.
func (c *Code) Next(i int) (fall, taken int) {
	ins := &c.Insns[i]
	class := ins.OpCode.Class()
	if class != asm.JumpClass && class != asm.Jump32Class {
		return i + 1, -1
	}
	switch op := ins.OpCode.JumpOp(); op {
	case asm.Exit:
		return -1, -1
	case asm.Call:
		return i + 1, -1
	case asm.Ja:
		off := int(ins.Offset)
		if class == asm.Jump32Class {
			off = int(ins.Constant)
		}
		return -1, c.flow.index[c.flow.raw[i]+1+off]
	}
	fall, taken = i+1, c.flow.index[c.flow.raw[i]+1+int(ins.Offset)]
	if jumps, decided := decide(ins, c.flow.in[i]); decided && jumps {
		fall = -1
	} else if decided {
		taken = -1
	}
	return fall, taken
}
