package load

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"btc/loader/manifest"
)

// One link of many places can give each of them a number, its cookie, which
// programs may ask for (kprobe.multi 5.18, uprobe.multi 6.6). So one program
// serves all places of a pattern even where it needs its attach point's number:
// for the name that probe gives, or the places of a usdt probe's arguments.

// idFromCookie makes a program take the attach point's number from its link. It
// keeps it in its frame, below what it uses otherwise.
func idFromCookie(spec *ebpf.ProgramSpec, mp *manifest.Program) error {
	body := spec.Instructions
	end, raw := mainEnd(body), 0
	for i := range body[:end] {
		raw += int(body[i].Size()) / asm.InstructionSize
	}
	for _, id := range mp.IDInsns {
		if id >= raw {
			return fmt.Errorf("program %s needs its attach point's number in a subprogram, which has a frame of its own", mp.Name)
		}
	}
	at := -((frameDepth(body[:end]) + 7) &^ 7) - 8
	if at < -frameSize {
		return fmt.Errorf("no room in the frame of %s", mp.Name)
	}
	if err := idFromFrame(body, mp, at); err != nil {
		return err
	}
	spec.Instructions = putInFront(asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.FnGetAttachCookie.Call(),
		asm.StoreMem(asm.RFP, at, asm.R0, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.R6),
	}, body)
	return nil
}
