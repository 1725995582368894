// SPDX-License-Identifier: Apache-2.0

//go:build linux

package rewrite

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"btc/internal/kernelfs"
	"btc/loader/host"
)

// TestFilterProcess checks that a program with the filter runs in its process only, whether process IDs
// are those of the initial PID namespace or of another one.
func TestFilterProcess(t *testing.T) {
	fi, err := os.Stat("/proc/self/ns/pid")
	if err != nil {
		t.Skip("skipped: no /proc: ", err)
	}
	st := fi.Sys().(*syscall.Stat_t)
	h, err := host.Probe()
	if err != nil {
		t.Fatal(err)
	}
	for _, ns := range []kernelfs.Namespace{h.PIDNS, {Dev: st.Dev, Ino: st.Ino}} {
		for pid, want := range map[int]uint32{os.Getpid(): 7, os.Getpid() + 1: 0} {
			// This loads from the context, so r1 must have been restored.
			body := asm.Instructions{
				asm.LoadMem(asm.R0, asm.R1, 0, asm.DWord).WithSymbol("main"),
				asm.Mov.Imm(asm.R0, 7), asm.Return(),
			}
			prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
				Type: ebpf.RawTracepoint, License: "GPL",
				Instructions: (&Filter{PID: pid, Namespace: ns}).Program(body),
			})
			if errors.Is(err, os.ErrPermission) {
				t.Skip("skipped: not root: bpf(2) is not allowed")
			}
			if err != nil {
				t.Fatalf("%+v", err)
			}
			have, err := prog.Run(&ebpf.RunOptions{Context: make([]byte, 8*12)})
			prog.Close()
			if err != nil {
				t.Fatal(err)
			}
			if have != want {
				t.Errorf("process %d, by namespace %v: result %d, want %d", pid, ns, have, want)
			}
		}
	}
}
