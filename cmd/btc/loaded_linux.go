// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"btc/backend/mach"
	"btc/report/stages"
)

// measured is how long programs are measured that are loaded.
const measured = time.Second

// loadedPrograms returns what the kernel made of the functions with these symbols, which have a hash of the script: those that it has
// loaded now, whoever did.
func loadedPrograms(symbols []string) *stages.Kernel {
	const how = "While btrun runs the object, btc compile --dump=html of the same script shows here, as root, what the kernel made of it, and how long it runs."
	names := map[string]bool{}
	for _, s := range symbols {
		names[s] = true
	}
	var found []*ebpf.Program
	defer func() {
		for _, p := range found {
			p.Close()
		}
	}()
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if errors.Is(err, os.ErrPermission) {
			return &stages.Kernel{Absent: how + " This user may not list the kernel's programs."}
		}
		if err != nil {
			break // os.ErrNotExist after the last one
		}
		id = next
		p, err := ebpf.NewProgramFromID(id)
		if err != nil {
			continue // it has just ended
		}
		if info, err := p.Info(); err == nil && len(symbols) > 0 && mayBe(info.Name, symbols) && names[entry(info)] {
			found = append(found, p)
		} else {
			p.Close()
		}
	}
	if len(found) == 0 {
		return &stages.Kernel{Absent: how + " It is not loaded now."}
	}
	before := make([]*ebpf.ProgramStats, len(found))
	if s, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME); err == nil { // Linux 5.8
		for i, p := range found {
			before[i], _ = p.Stats()
		}
		time.Sleep(measured)
		defer s.Close()
	}
	k := &stages.Kernel{}
	for i, p := range found {
		k.Programs = append(k.Programs, translated(p, before[i]))
	}
	return k
}

// mayBe reports whether a program's name, which the kernel cuts to 15 bytes, is the begin of one of the symbols.
func mayBe(name string, symbols []string) bool {
	for _, s := range symbols {
		if name != "" && strings.HasPrefix(s, name) {
			return true
		}
	}
	return false
}

// entry returns the name of the first function of a program; "" if the kernel does not have it.
func entry(info *ebpf.ProgramInfo) string {
	funcs, err := info.FuncInfos()
	if err != nil {
		return ""
	}
	for _, f := range funcs {
		if f.Offset == 0 && f.Func != nil {
			return f.Func.Name
		}
	}
	return ""
}

// translated returns the instructions of a program as the verifier left them, with the time that the program ran since before.
func translated(p *ebpf.Program, before *ebpf.ProgramStats) stages.Program {
	info, err := p.Info()
	if err != nil {
		return stages.Program{Name: "a program that has ended"}
	}
	x := stages.Program{Name: entry(info)}
	var facts []string
	if before != nil {
		if now, err := p.Stats(); err == nil {
			n := now.RunCount - before.RunCount
			text := fmt.Sprintf("%d runs in %v", n, measured)
			if n > 0 {
				text += fmt.Sprintf(" of %v each", (now.Runtime-before.Runtime)/time.Duration(n))
			}
			facts = append(facts, text)
		}
	}
	if size, err := info.JitedSize(); err == nil && size > 0 {
		facts = append(facts, fmt.Sprintf("%d bytes of machine code", size))
	}
	x.Facts = strings.Join(facts, ", ")
	insns, err := info.Instructions()
	if err != nil {
		x.Lines = []stages.Line{{Text: "the kernel does not show its instructions: " + oneLine(err.Error())}}
		return x
	}
	at := stages.Line{}
	slot := 0
	for i := range insns {
		ins := &insns[i]
		if l, ok := ins.Source().(*btf.Line); ok {
			at.Line, at.Col = int(l.LineNumber()), int(l.LineColumn())
		}
		if name := ins.Symbol(); name != "" && i > 0 {
			x.Lines = append(x.Lines, stages.Line{Text: name + ":"})
		}
		at.Text = fmt.Sprintf("%4d: %s", slot, insnText(ins))
		x.Lines = append(x.Lines, at)
		slot += int(ins.Size() / asm.InstructionSize)
	}
	return x
}

// insnText returns an instruction in the syntax of the kernel's log.
func insnText(ins *asm.Instruction) string {
	var raw bytes.Buffer
	if _, err := ins.Marshal(&raw, binary.LittleEndian); err == nil {
		if text, err := mach.Disassemble(raw.Bytes(), func(int) (string, string) { return "", "" }); err == nil {
			if _, text, ok := strings.Cut(strings.TrimSpace(text), ": "); ok {
				return strings.Replace(text, "call unknown#", "call __bpf_call_base+", 1) // as bpftool has it
			}
		}
	}
	return fmt.Sprint(ins)
}
