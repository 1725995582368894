// SPDX-License-Identifier: Apache-2.0

package load

import (
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/tests/load/objload"
)

// nativeResults loads every object into the kernel of this machine, once for all tests.
var nativeResults = sync.OnceValues(func() ([]objload.Result, error) {
	list, err := scripts()
	if err != nil {
		return nil, err
	}
	if err := objload.Prepare(); err != nil {
		return nil, err
	}
	loader := objload.New()
	var mu sync.Mutex
	var results []objload.Result
	each(list, func(s *script) {
		if s.out == nil {
			return
		}
		m, err := manifest.Parse(s.out.Manifest)
		if err != nil {
			panic(err)
		}
		r := loader.Object(s.name, s.out.Object, m)
		mu.Lock()
		defer mu.Unlock()
		results = append(results, r...)
	})
	sort.Slice(results, func(i, j int) bool {
		a, b := results[i], results[j]
		return a.Object < b.Object || a.Object == b.Object && a.Program < b.Program
	})
	return results, nil
})

func native(t *testing.T) []objload.Result {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	compiled(t)
	results, err := nativeResults()
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// release returns the release of the running kernel.
func release() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// TestLoad checks that the kernel of this machine accepts every program. Programs that use a type or
// field which it lacks are reported and skipped, because no list can know this kernel.
func TestLoad(t *testing.T) {
	results := native(t)
	byName := named(compiled(t))
	noTrampolines := trampolines()
	ok, absent := 0, 0
	for _, r := range results {
		if r.OK {
			ok++
			continue
		}
		t.Run(r.Object+"/"+r.Program, func(t *testing.T) {
			s := byName[r.Object]
			if r.Absent {
				absent++
				t.Skipf("skipped: kernel %s lacks %s", release(), missingField(s, r))
			}
			if noTrampolines != nil && isTrampoline(s, r.Program) {
				t.Skipf("skipped: kernel %s does not support fentry programs: %v", release(), noTrampolines)
			}
			t.Error(describe(s, r))
		})
	}
	t.Logf("kernel %s loads %d of %d programs, lacks a field for %d", release(), ok, len(results), absent)
}

// trampolines loads a minimal fentry program. It returns an error if the kernel does not support them.
func trampolines() error {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.Tracing, AttachType: ebpf.AttachTraceFEntry, AttachTo: "vfs_open", License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		return err
	}
	return p.Close()
}

func isTrampoline(s *script, program string) bool {
	for _, f := range s.out.Funcs {
		if f.Name == program && f.Prog != nil {
			return f.Prog.Kind == probe.Fentry || f.Prog.Kind == probe.Fexit
		}
	}
	return false
}

func named(list []*script) map[string]*script {
	m := map[string]*script{}
	for _, s := range list {
		m[s.name] = s
	}
	return m
}

// missingField describes the access to a field that the kernel lacks.
func missingField(s *script, r objload.Result) string {
	m, err := manifest.Parse(s.out.Manifest)
	if err != nil {
		return err.Error()
	}
	for _, f := range m.Fields {
		if f.Program == r.Program && f.Insn == r.At {
			return fmt.Sprintf("%s.%s (%s.bt:%d:%d)", f.Type, f.Path, s.name, f.Pos.Line, f.Pos.Col)
		}
	}
	return fmt.Sprintf("what instruction %d of %s is for: %s", r.At, r.Program, r.Line)
}

func describe(s *script, r objload.Result) string {
	var b strings.Builder
	forms := ""
	if r.Old {
		forms = " (with the forms for kernels without newer helpers)"
	}
	fmt.Fprintf(&b, "%s%s: %s\n", s.path, forms, r.Error)
	if r.Line != "" {
		fmt.Fprintf(&b, "at: %s\n", r.Line)
	}
	for _, line := range r.Log {
		fmt.Fprintf(&b, "    %s\n", line)
	}
	return b.String()
}
