// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"btc/loader/rewrite"
)

// BenchmarkLoops measures an iteration of an empty loop with the counter of the loader and without it:
//
//	go test ./tests/bench -run - -bench Loops
func BenchmarkLoops(b *testing.B) {
	if os.Getuid() != 0 {
		b.Skip("skipped: needs root")
	}
	const keys, cpus, inner, outer = 1 << 16, 512, 1 << 20, 16
	newMap := func(s *ebpf.MapSpec) *ebpf.Map {
		m, err := ebpf.NewMap(s)
		if err != nil {
			b.Skip("skipped: the kernel does not let this process make maps: ", err)
		}
		b.Cleanup(func() { m.Close() })
		return m
	}
	hash := newMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 8, MaxEntries: keys})
	for i := range uint32(keys) {
		if err := hash.Put(i, uint64(i)); err != nil {
			b.Fatal(err)
		}
	}
	array := newMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: keys})
	state := newMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: cpus<<rewrite.LoopStateShift + 8, MaxEntries: 1})
	function := func(name string, p ...asm.Instruction) asm.Instructions {
		number := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
		p = append(p, asm.Mov.Imm(asm.R0, 0), asm.Return())
		p[0] = btf.WithFuncMetadata(p[0].WithSymbol(name), &btf.Func{Name: name, Type: &btf.FuncProto{Return: number}})
		return p
	}
	callback := asm.LoadImm(asm.R2, -1, asm.DWord).WithReference("body")
	callback.Src = asm.PseudoFunc
	call := func(first asm.Instruction, helper asm.BuiltinFunc) []asm.Instruction {
		return []asm.Instruction{first, callback, asm.Mov.Imm(asm.R3, 0), asm.Mov.Imm(asm.R4, 0), helper.Call()}
	}
	for _, c := range []struct {
		name string
		n    int // iterations
		call []asm.Instruction
	}{
		{"bpf_loop", inner, call(asm.Mov.Imm(asm.R1, inner), asm.FnLoop)},
		{"for_each_map_elem-hash", outer * keys, call(asm.LoadMapPtr(asm.R1, hash.FD()), asm.FnForEachMapElem)},
		{"for_each_map_elem-array", outer * keys, call(asm.LoadMapPtr(asm.R1, array.FD()), asm.FnForEachMapElem)},
	} {
		var body []asm.Instruction
		for range c.n / max(keys, c.n/outer) {
			body = append(body, c.call...)
		}
		if c.name == "bpf_loop" {
			body = c.call
		}
		code := slices.Concat(function("main", body...), function("body"))
		bounds, err := rewrite.FindLoops(code, nil)
		if err != nil || len(bounds.Loops) != 1 {
			b.Fatalf("%s: %d loops are counted, %v", c.name, len(bounds.Loops), err)
		}
		budget := rewrite.Budget{Map: state.FD(), CPUs: cpus, Counters: cpus << rewrite.LoopStateShift}
		counted, _, err := budget.BoundLoops(code, bounds, 0)
		if err != nil {
			b.Fatal(err)
		}
		for name, insns := range map[string]asm.Instructions{"counted": counted, "not-counted": code} {
			b.Run(c.name+"/"+name, func(b *testing.B) {
				p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.RawTracepoint, Instructions: insns, License: "GPL"})
				if err != nil {
					b.Skipf("skipped: %v", err)
				}
				defer p.Close()
				best := time.Duration(1 << 62)
				for b.Loop() {
					began := time.Now()
					if _, err := p.Run(&ebpf.RunOptions{}); err != nil {
						b.Fatal(err)
					}
					best = min(best, time.Since(began))
				}
				b.ReportMetric(float64(best.Nanoseconds())/float64(c.n), "ns/iteration")
			})
		}
	}
}
