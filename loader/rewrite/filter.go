// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"github.com/cilium/ebpf/asm"

	"btc/internal/kernelfs"
)

// Filter limits a program to processes and cgroups: a prologue returns 0 at once for any other
// task. A task must satisfy each part that is set. The zero value accepts every task, and adds
// nothing to a program.
type Filter struct {
	// Namespace is the PID namespace of the process IDs below; the zero value is the initial one.
	Namespace kernelfs.Namespace
	// PID is the process ID; 0: any.
	PID int
	// Processes is the descriptor of an array with one value of ProcessBytes bytes, in which the
	// byte of each selected process is not 0. ProcessBytes is 0 if there is no such array.
	Processes, ProcessBytes int
	// Cgroups is the descriptor of a BPF_MAP_TYPE_CGROUP_ARRAY with NumCgroups cgroups. The task
	// must be in one of them or below.
	Cgroups, NumCgroups int
	Gate                Gate
}

// Empty reports whether the filter accepts every task.
func (f *Filter) Empty() bool {
	return f.PID == 0 && f.ProcessBytes == 0 && f.NumCgroups == 0 && f.Gate == Gate{}
}

// Program returns a program's instructions with the filter as a prologue. Cgroups are tested with
// bpf_current_task_under_cgroup (4.9). bpf_get_current_ancestor_cgroup_id is not an alternative:
// tracing programs may call it only since 5.15, and it needs the cgroup's depth below the root,
// which a cgroup namespace hides.
func (f *Filter) Program(insns asm.Instructions) asm.Instructions {
	if f.Empty() {
		return insns
	}
	var p prologue
	p.emit(mov(asm.R6, asm.R1))
	if f.PID != 0 || f.ProcessBytes != 0 {
		p.add(CurrentProcess(f.Namespace)...)
	}
	if f.PID != 0 {
		p.leave(asm.JNE, asm.R0, int32(f.PID))
	}
	if f.ProcessBytes != 0 {
		p.leave(asm.JGE, asm.R0, int32(f.ProcessBytes))
		p.addMap(asm.R1, f.Processes, 0)
		p.emit(aluReg(asm.Add, asm.R1, asm.R0), load(asm.R0, asm.R1, 0, asm.Byte))
		p.leave(asm.JEq, asm.R0, 0)
	}
	var found []int // jumps for cgroups that contain the task
	for i := range f.NumCgroups {
		p.add(asm.LoadMapPtr(asm.R1, f.Cgroups))
		p.emit(movImm(asm.R2, int32(i)), callHelper(asm.FnCurrentTaskUnderCgroup))
		if i == f.NumCgroups-1 {
			p.leave(asm.JNE, asm.R0, 1) // errors are negative
			break
		}
		found = append(found, len(p.insns))
		p.emit(jump(asm.JEq, asm.R0, 1, 0))
	}
	p.land(found)
	f.Gate.emit(&p)
	p.emit(mov(asm.R1, asm.R6), jump(asm.Ja, 0, 0, 2))
	p.land(p.leaving)
	p.emit(movImm(asm.R0, 0), exit())
	return putInFront(p.insns, insns)
}

// CurrentProcess sets r0 to the ID of the current process in a PID namespace; the zero value is the
// initial one. The result is 0 for processes outside the namespace. The code uses the frame down to
// r10-8, and no callee-saved register.
func CurrentProcess(ns kernelfs.Namespace) asm.Instructions {
	var p prologue
	if ns == (kernelfs.Namespace{}) {
		p.emit(callHelper(asm.FnGetCurrentPidTgid), aluImm(asm.RSh, asm.R0, 32))
		return p.insns
	}
	// struct bpf_pidns_info {u32 pid, tgid} at r10-8
	p.emit(movImm(asm.R0, 0), store(asm.RFP, -8, asm.R0, asm.DWord))
	p.add(asm.LoadImm(asm.R1, int64(ns.Dev), asm.DWord), asm.LoadImm(asm.R2, int64(ns.Ino), asm.DWord))
	p.emit(mov(asm.R3, asm.RFP), aluImm(asm.Add, asm.R3, -8), movImm(asm.R4, 8),
		callHelper(asm.FnGetNsCurrentPidTgid), load(asm.R0, asm.RFP, -4, asm.Word))
	return p.insns
}
