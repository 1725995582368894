// SPDX-License-Identifier: Apache-2.0

package permit

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"btc/internal/manifest"
	"btc/loader/object"
)

// TestLoopsOfOtherCompilers checks that loops that no program of btc has, and that nothing counts, are refused, whatever
// the kernel makes of them: hand-made programs with each kind of loop, most of which the kernel of this machine loads.
func TestLoopsOfOtherCompilers(t *testing.T) {
	kfunc := func(name string) asm.Instruction {
		ins := asm.Instruction{OpCode: asm.Call.Op(asm.ImmSource), Src: asm.PseudoKfuncCall, Constant: 1}
		if spec, err := btf.LoadKernelSpec(); err == nil {
			var f *btf.Func
			if spec.TypeByName(name, &f) == nil {
				if id, err := spec.TypeID(f); err == nil {
					ins.Constant = int64(id)
				}
			}
		}
		return ins
	}
	function := func(name string, linkage btf.FuncLinkage, p ...asm.Instruction) asm.Instructions {
		number := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
		p[0] = btf.WithFuncMetadata(p[0].WithSymbol(name), &btf.Func{Name: name, Type: &btf.FuncProto{Return: number}, Linkage: linkage})
		return p
	}
	repeat := func(p ...asm.Instruction) []asm.Instruction { // for (r6 = 0; r6 != 5000; r6++) p
		all := append([]asm.Instruction{asm.Mov.Imm(asm.R6, 0), asm.Add.Imm(asm.R6, 1)}, p...)
		all = append(all, asm.Instruction{OpCode: asm.JNE.Op(asm.ImmSource), Dst: asm.R6, Constant: 5000, Offset: int16(-len(p) - 2)})
		return append(all, asm.Mov.Imm(asm.R0, 0), asm.Return())
	}
	call := func(name string) asm.Instruction { return asm.Call.Label(name) }
	callback := asm.LoadImm(asm.R2, 0, asm.DWord).WithReference("g")
	callback.Src, callback.Constant = asm.PseudoFunc, -1
	empty := function("g", btf.StaticFunc, asm.Mov.Imm(asm.R0, 0), asm.Return())
	end := []asm.Instruction{asm.Mov.Imm(asm.R0, 0), asm.Return()}
	const helperTimer, helperFindVMA, helperDrain, helperTailCall = 170, 180, 209, 12
	main := func(p ...asm.Instruction) asm.Instructions {
		return function("f", btf.GlobalFunc, append(p, end...)...)
	}
	for _, c := range []struct {
		name, says, allow string // allow "": only --unsafe
		loads             bool   // on new kernels
		code              asm.Instructions
	}{
		{"may_goto", "unknown kind", "", true, main(asm.Mov.Imm(asm.R0, 0), asm.Instruction{OpCode: 0xe5, Offset: 1}, asm.Instruction{OpCode: asm.Ja.Op(asm.ImmSource), Offset: -2})},
		{"open-coded iterator", "calls the kernel function", "", true, main(
			asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, -8), asm.Mov.Imm(asm.R2, 0), asm.Mov.Imm(asm.R3, 8000000), kfunc("bpf_iter_num_new"),
			asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, -8), kfunc("bpf_iter_num_next"), asm.Instruction{OpCode: asm.JNE.Op(asm.ImmSource), Dst: asm.R0, Offset: -4},
			asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, -8), kfunc("bpf_iter_num_destroy"))},
		{"exception", "calls the kernel function", "", false, main(asm.Mov.Imm(asm.R1, 0), kfunc("bpf_throw"))},
		{"global functions", "takes more than 2 s", "long-loops", true, append(function("f", btf.GlobalFunc, repeat(call("g"))...), function("g", btf.GlobalFunc, repeat()...)...)},
		{"recursion", "call each other", "long-loops", false, append(main(call("g")), function("g", btf.StaticFunc, call("g"), asm.Mov.Imm(asm.R0, 0), asm.Return())...)},
		{"callback of a timer", "", "", false, append(main(callback, asm.BuiltinFunc(helperTimer).Call()), empty...)},
		{"callback for memory areas", "", "", false, append(main(callback, asm.BuiltinFunc(helperFindVMA).Call()), empty...)},
		{"callback of a ring buffer", "", "", false, append(main(callback, asm.BuiltinFunc(helperDrain).Call()), empty...)},
		{"tail call", "", "", false, main(asm.Mov.Imm(asm.R2, 0), asm.Mov.Imm(asm.R3, 0), asm.BuiltinFunc(helperTailCall).Call())},
		{"callback through the stack", "its body is not known", "long-loops", true, append(main(callback, asm.StoreMem(asm.RFP, -8, asm.R2, asm.DWord), asm.Mov.Imm(asm.R1, 100),
			asm.LoadMem(asm.R2, asm.RFP, -8, asm.DWord), asm.Mov.Imm(asm.R3, 0), asm.Mov.Imm(asm.R4, 0), asm.FnLoop.Call()), empty...)},
		{"callback in another register", "its body is not known", "long-loops", true, append(main(callback, asm.Mov.Reg(asm.R7, asm.R2), asm.Mov.Reg(asm.R2, asm.R7), asm.Mov.Imm(asm.R1, 100),
			asm.Mov.Imm(asm.R3, 0), asm.Mov.Imm(asm.R4, 0), asm.FnLoop.Call()), empty...)},
	} {
		spec := &ebpf.ProgramSpec{Name: "f", Type: ebpf.RawTracepoint, Instructions: c.code, License: "GPL"}
		o := &object.Object{Manifest: &manifest.Manifest{Programs: []manifest.Program{{Name: "f", Kind: "begin"}}}, Spec: &ebpf.CollectionSpec{Programs: map[string]*ebpf.ProgramSpec{"f": spec}}}
		for _, allowed := range []string{"", "long-loops"} {
			g := new(Grants)
			if allowed != "" {
				if err := g.Allow(allowed); err != nil {
					t.Fatal(err)
				}
			}
			if err := g.Check(o); (err == nil) != (c.allow != "" && allowed == c.allow) || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: with %q Check = %v; want it refused with %q unless allowed by %q", c.name, allowed, err, c.says, c.allow)
			}
		}
		if err := (&Grants{All: true}).Check(o); err != nil {
			t.Errorf("%s: with --unsafe Check = %v", c.name, err)
		}
		if os.Getuid() != 0 || !c.loads {
			continue
		}
		p, err := ebpf.NewProgram(spec)
		if err != nil {
			t.Logf("%s: this kernel does not load it: %v", c.name, err)
			continue
		}
		began := time.Now()
		if _, err := p.Run(&ebpf.RunOptions{}); err == nil {
			t.Logf("%s: runs for %v on this kernel", c.name, time.Since(began))
		}
		p.Close()
	}
}
