package load

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

func TestReadsContext(t *testing.T) {
	jump := func(op asm.JumpOp, dst asm.Register, off int16) asm.Instruction {
		return asm.Instruction{OpCode: op.Op(asm.ImmSource), Dst: dst, Offset: off}
	}
	end := asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}
	for _, tc := range []struct {
		name  string
		insns asm.Instructions
		want  bool
	}{
		{"nothing", nil, false},
		{"moved", asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)}, true},
		{"loaded from", asm.Instructions{asm.LoadMem(asm.R2, asm.R1, 16, asm.DWord)}, true},
		{"stored", asm.Instructions{asm.StoreMem(asm.RFP, -8, asm.R1, asm.DWord)}, true},
		{"written first", asm.Instructions{asm.Mov.Imm(asm.R1, 3), asm.Mov.Reg(asm.R6, asm.R1)}, false},
		{"loaded into first", asm.Instructions{asm.LoadImm(asm.R1, 3, asm.DWord), asm.StoreMem(asm.RFP, -8, asm.R1, asm.DWord)}, false},
		{"a helper without arguments", asm.Instructions{asm.FnKtimeGetNs.Call(), asm.Mov.Reg(asm.R6, asm.R0)}, false},
		{"a helper that takes it", asm.Instructions{asm.FnGetStackid.Call()}, true},
		{"a helper after the move", asm.Instructions{asm.Mov.Imm(asm.R1, 0), asm.FnGetStackid.Call()}, false},
		{"a function of the program", asm.Instructions{{OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.Call), Src: asm.PseudoCall}}, true},
		{"on one way", asm.Instructions{jump(asm.JEq, asm.R2, 1), asm.Mov.Imm(asm.R1, 0), asm.Mov.Reg(asm.R3, asm.R1)}, true},
		{"on no way", asm.Instructions{jump(asm.JEq, asm.R2, 2), asm.Mov.Imm(asm.R1, 0), jump(asm.Ja, 0, 1), asm.Mov.Imm(asm.R1, 1), asm.Mov.Reg(asm.R3, asm.R1)}, false},
		{"over a wide constant", asm.Instructions{jump(asm.JEq, asm.R2, 3), asm.LoadImm(asm.R3, 1<<40, asm.DWord), asm.Mov.Imm(asm.R1, 0), asm.Mov.Reg(asm.R3, asm.R1)}, true},
		{"compared", asm.Instructions{jump(asm.JEq, asm.R1, 0)}, true},
		{"out of the function", asm.Instructions{jump(asm.JEq, asm.R2, 100)}, true},
		{"a loop", asm.Instructions{jump(asm.JEq, asm.R2, -1)}, false},
	} {
		insns := append(tc.insns[:len(tc.insns):len(tc.insns)], end...)
		if got := readsContext(insns); got != tc.want {
			t.Errorf("%s: %v\n%v", tc.name, got, insns)
		}
		if got := isBare(&ebpf.ProgramSpec{Type: ebpf.TracePoint, Instructions: insns}); got == tc.want {
			t.Errorf("%s: bare is %v", tc.name, got)
		}
	}
	scratch := asm.Instructions{asm.LoadMapPtr(asm.R1, 0).WithReference("scratch_k"), asm.Mov.Imm(asm.R0, 0), asm.Return()}
	if isBare(&ebpf.ProgramSpec{Type: ebpf.TracePoint, Instructions: scratch}) {
		t.Error("a program that needs the kernel's count of running programs is bare")
	}
	if isBare(&ebpf.ProgramSpec{Type: ebpf.Kprobe, Instructions: end}) || isBare(nil) {
		t.Error("what is no tracepoint's program is bare")
	}
}

func TestKernelFrom(t *testing.T) {
	for release, want := range map[string]bool{
		"6.1.0-56-amd64": true, "6.12": true, "7.0-rc1": true, "6.0.19": false, "5.15.0-100": false, "5.10": false, "10.0.1": true, "6.2-next": true, "six": false, "6": false, "": false,
	} {
		if got := kernelFrom(release, guarded); got != want {
			t.Errorf("%q: %v", release, got)
		}
	}
}

func TestDynamicEvents(t *testing.T) {
	got := dynamicEvents("p:mine/sched_switch do_sys_open\nr1024:k/ret vfs_read\ns:synthetic/lat u64 x;\nu:events/user_e\n")
	for _, want := range []string{"mine/sched_switch", "k/ret", "synthetic/lat", "events/user_e"} {
		if !got[want] {
			t.Errorf("no %s in %v", want, got)
		}
	}
}
