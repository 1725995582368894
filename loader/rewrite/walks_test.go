// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// TestDropWalks checks which walks a mode leaves, and that a function that nothing else calls goes with its call.
func TestDropWalks(t *testing.T) {
	call := func(name string) asm.Instruction { return asm.Call.Label(name) }
	function := func(name string, body ...asm.Instruction) asm.Instructions {
		body = append(body, asm.Return())
		body[0] = body[0].WithSymbol(name)
		return body
	}
	program := func() *ebpf.CollectionSpec {
		insns := slices.Concat(
			function("p", call("unwind_dw_s_1"), call("unwind_any_s_1"), call("fn_unwind_any")),
			function("unwind_step_1", asm.Mov.Imm(asm.R0, 1)),
			function("unwind_dw_s_1", call("unwind_step_1")),
			function("unwind_only_1", asm.Mov.Imm(asm.R0, 1)),
			function("unwind_any_s_1", call("unwind_step_1"), call("unwind_only_1")),
			function("fn_unwind_any", asm.Mov.Imm(asm.R0, 2)))
		return &ebpf.CollectionSpec{Programs: map[string]*ebpf.ProgramSpec{"p": {Instructions: insns}}}
	}
	for _, c := range []struct {
		mode      Unwind
		functions []string
	}{
		{UnwindOff, []string{"p", "fn_unwind_any"}},
		{UnwindMarked, []string{"p", "unwind_step_1", "unwind_dw_s_1", "fn_unwind_any"}},
		{UnwindAll, []string{"p", "unwind_step_1", "unwind_dw_s_1", "unwind_only_1", "unwind_any_s_1", "fn_unwind_any"}},
	} {
		o := program()
		for _, mode := range []Unwind{UnwindAll, c.mode} {
			if left := DropWalks(o, mode); left != mode {
				t.Errorf("mode %d leaves walks of mode %d", mode, left)
			}
		}
		insns := o.Programs["p"].Instructions
		var functions []string
		for i := range insns {
			if name := insns[i].Symbol(); name != "" {
				functions = append(functions, name)
			}
		}
		if !slices.Equal(functions, c.functions) {
			t.Errorf("mode %d: functions %q, want %q", c.mode, functions, c.functions)
		}
		for i, walks := range []bool{c.mode >= UnwindMarked, c.mode == UnwindAll, true} {
			removed := insns[i].OpCode == asm.Mov.Imm(asm.R0, -1).OpCode && insns[i].Dst == asm.R0 && insns[i].Constant == -1
			if removed == walks {
				t.Errorf("mode %d: instruction %d is %v", c.mode, i, insns[i])
			}
		}
	}
}
