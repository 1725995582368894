// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"github.com/cilium/ebpf/asm"

	"btc/loader/hostinfo"
)

// OnlyProcess prepends a test to a program, so that it does nothing in other processes than
// pid, a number of the loader's PID namespace. This implements -p for attach points that
// fire for all processes.
func OnlyProcess(insns asm.Instructions, pid int, ns hostinfo.Namespace) asm.Instructions {
	head := asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)}
	if ns == (hostinfo.Namespace{}) {
		head = append(head, asm.FnGetCurrentPidTgid.Call(), asm.RSh.Imm(asm.R0, 32))
	} else {
		head = append(head, // struct bpf_pidns_info {u32 pid, tgid} at r10-8
			asm.Mov.Imm(asm.R0, 0),
			asm.StoreMem(asm.RFP, -8, asm.R0, asm.DWord),
			asm.LoadImm(asm.R1, int64(ns.Dev), asm.DWord),
			asm.LoadImm(asm.R2, int64(ns.Ino), asm.DWord),
			asm.Mov.Reg(asm.R3, asm.RFP),
			asm.Add.Imm(asm.R3, -8),
			asm.Mov.Imm(asm.R4, 8),
			asm.FnGetNsCurrentPidTgid.Call(),
			asm.LoadMem(asm.R0, asm.RFP, -4, asm.Word))
	}
	head = append(head,
		asm.Instruction{OpCode: asm.JEq.Op(asm.ImmSource), Dst: asm.R0, Offset: 2, Constant: int64(pid)},
		asm.Mov.Imm(asm.R0, 0),
		asm.Return(),
		asm.Mov.Reg(asm.R1, asm.R6))
	return putInFront(head, insns)
}
