// SPDX-License-Identifier: Apache-2.0

package load

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"btc/compile"
	"btc/internal/manifest"
	"btc/loader/adapt"
	"btc/loader/rewrite"
	"btc/targets/kernel"
)

// TestBothArchitectures compiles each script of the corpus for x86_64 alone and for both architectures:
// once our loader has resolved the tests of the architecture, none of their instructions may remain. A
// value loaded on both sides of such a test may need a move at the join, so one more instruction is
// allowed per program.
func TestBothArchitectures(t *testing.T) {
	list, err := scripts()
	if err != nil {
		t.Fatal(err)
	}
	both, guarded := 0, 0
	for _, s := range list {
		if s.out == nil {
			continue
		}
		one, out := spec(t, s.out), serveBoth(t, s)
		if out == nil {
			continue
		}
		two := spec(t, out)
		rewrite.DropWalks(one, rewrite.UnwindMarked) // the code that runs by default
		rewrite.DropWalks(two, rewrite.UnwindMarked)
		script := s
		both++
		for name, want := range one.Programs {
			p := two.Programs[name]
			if p == nil {
				t.Errorf("%s: program %s missing in the object for both architectures", script.name, name)
				continue
			}
			insns, at := decided(t, p, out, "x86_64", anyHelper)
			if at != nil {
				guarded++
			}
			most := want.Instructions.Size() + 8
			if strings.Contains(script.text, "syscall_name(") {
				most += 6 * 8 // the code after the lookups in two tables is compiled for each of them
			}
			if strings.Contains(script.text, "ustack") {
				most += 4 * 8 // four more registers where the walk by tables begins, in code that does not run by default
			}
			if got, want := insns.Size(), want.Instructions.Size(); got > most {
				t.Errorf("%s %s: %d instructions in the object for both architectures, want %d as for x86_64 alone", script.name, name, got/8, want/8)
			}
			arm, at := decided(t, p, out, "arm64", anyHelper)
			if at != nil && arm.Size() >= p.Instructions.Size() {
				t.Errorf("%s %s: nothing removed for arm64", script.name, name)
			}
		}
	}
	if both == 0 || guarded == 0 {
		t.Errorf("%d objects support both architectures, %d programs have tests", both, guarded)
	}
	t.Logf("%d of %d objects support both architectures, %d programs have tests", both, len(list), guarded)
}

// TestForms resolves the forms of loops. For a kernel without bpf_loop, nothing may remain that kernels
// before 5.13 cannot decode; for a kernel with it, nothing of the form without it.
func TestForms(t *testing.T) {
	list, err := scripts()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, s := range list {
		if s.name != "loop-forms" && s.name != "for-range" || s.out == nil {
			continue
		}
		for name, p := range spec(t, s.out).Programs {
			old, at := decided(t, p, s.out, "x86_64", func(asm.BuiltinFunc) bool { return false })
			now, _ := decided(t, p, s.out, "x86_64", anyHelper)
			if at == nil {
				t.Errorf("%s %s: no forms in the manifest", s.name, name)
				continue
			}
			n++
			for i := range old {
				if ins := &old[i]; ins.IsLoadOfFunctionPointer() || ins.IsBuiltinCall() && ins.Constant == int64(asm.FnLoop) || strings.Contains(ins.Symbol(), "_for") {
					t.Errorf("%s %s: %v remains for a kernel without bpf_loop", s.name, name, ins)
				}
			}
			calls := 0
			for i := range now {
				if ins := &now[i]; ins.IsBuiltinCall() && ins.Constant == int64(asm.FnLoop) {
					calls++
				}
			}
			if calls == 0 || now.Size() >= p.Instructions.Size() || old.Size() >= p.Instructions.Size() {
				t.Errorf("%s %s: %d calls of bpf_loop; %d bytes with both forms, %d with bpf_loop, %d without", s.name, name, calls, p.Instructions.Size(), now.Size(), old.Size())
			}
		}
	}
	if n < 3 {
		t.Errorf("%d programs with two forms", n)
	}
}

// anyHelper stands for a kernel that has all helpers.
func anyHelper(asm.BuiltinFunc) bool { return true }

// decided returns a program of an object after our loader has resolved its forms.
func decided(t *testing.T, p *ebpf.ProgramSpec, out *compile.Output, arch string, has func(asm.BuiltinFunc) bool) (asm.Instructions, []int) {
	t.Helper()
	m, err := manifest.Parse(out.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	for i := range m.Programs {
		if m.Programs[i].Name == p.Name {
			insns, at, _ := rewrite.Decide(p.Instructions, m.Programs[i].Code.Forms, adapt.Forms(arch, has))
			return insns, at
		}
	}
	t.Fatal("missing program " + p.Name)
	return nil, nil
}

func spec(t *testing.T, out *compile.Output) *ebpf.CollectionSpec {
	t.Helper()
	c, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(out.Object))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// serveBoth compiles a script for both architectures; it returns nil if the script does not support
// both.
func serveBoth(t *testing.T, s *script) *compile.Output {
	t.Helper()
	x86, err := kernel.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	arm, err := kernel.Default("arm64")
	if err != nil {
		t.Fatal(err)
	}
	out, diags := compile.Compile(compile.Input{PlainNames: true, Name: s.path, Text: s.text, Target: x86, Others: []*kernel.Target{arm}, Optional: true, Verify: true})
	if out == nil {
		t.Errorf("%s compiles for x86_64 only: %v", s.name, diags.Err())
		return nil
	}
	if len(out.Module.Served()) < 2 {
		for _, d := range diags.Sorted() {
			t.Logf("%s: %s", s.name, d.Error())
		}
		return nil
	}
	return out
}
