package load

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"btc/loader/attach"
	"btc/loader/manifest"
	"btc/loader/object"
)

func TestFrameDepth(t *testing.T) {
	for _, tc := range []struct {
		insns asm.Instructions
		want  int16
	}{
		{asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}, 0},
		{asm.Instructions{asm.StoreMem(asm.RFP, -16, asm.R1, asm.DWord), asm.LoadMem(asm.R1, asm.RFP, -24, asm.DWord)}, 24},
		{asm.Instructions{asm.StoreImm(asm.RFP, -4, 0, asm.Word)}, 4},
		{asm.Instructions{asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -40)}, 40},
		{asm.Instructions{asm.Mov.Reg(asm.R2, asm.R3), asm.Add.Imm(asm.R2, -40), asm.LoadMem(asm.R1, asm.R3, -80, asm.DWord)}, 0},
		{asm.Instructions{asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -1<<31)}, frameSize + 1},
	} {
		if got := frameDepth(tc.insns); got != tc.want {
			t.Errorf("%v: %d, want %d", tc.insns, got, tc.want)
		}
	}
}

func TestRecordArgsRead(t *testing.T) {
	got := recordArgsRead(asm.Instructions{
		asm.LoadMem(asm.R2, asm.R6, 16, asm.Word), asm.LoadMem(asm.R2, asm.R6, 8, asm.Word),
		asm.LoadMem(asm.R2, asm.RFP, 24, asm.DWord), asm.LoadMem(asm.R2, asm.R6, 56, asm.DWord), asm.LoadMem(asm.R2, asm.R6, 64, asm.DWord),
	})
	if want := [argWords]bool{0: true, 5: true}; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Programs that cannot take a record for their context, and those of few
// tracepoints, keep the kernel's.
func TestWorthDispatch(t *testing.T) {
	plain := asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}
	stack := asm.Instructions{asm.FnGetStackid.Call(), asm.Return()}
	scratch := asm.Instructions{asm.LoadMapPtr(asm.R1, 0).WithReference("scratch_k"), asm.Return()}
	many := make([]attach.Match, dispatchFrom)
	for i := range many {
		many[i] = attach.Match{Group: "syscalls", Name: "sys_enter_x"}
	}
	one := []attach.Match{{Group: "syscalls", Name: "sys_enter_read"}}
	exits := []attach.Match{{Group: "syscalls", Name: "sys_exit_read"}}
	for _, tc := range []struct {
		name    string
		insns   []asm.Instructions
		matches [][]attach.Match
		want    bool
	}{
		{"many", []asm.Instructions{plain}, [][]attach.Match{many}, true},
		{"one", []asm.Instructions{plain}, [][]attach.Match{one}, false},
		{"many and one", []asm.Instructions{plain, plain}, [][]attach.Match{many, one}, true},
		{"stack", []asm.Instructions{stack}, [][]attach.Match{many}, false},
		{"many and one with a stack", []asm.Instructions{plain, stack}, [][]attach.Match{many, one}, false},
		{"many and an exit with a stack", []asm.Instructions{plain, stack}, [][]attach.Match{many, exits}, true},
		{"scratch", []asm.Instructions{scratch}, [][]attach.Match{many}, false},
	} {
		o := &object.Object{Spec: &ebpf.CollectionSpec{Programs: map[string]*ebpf.ProgramSpec{}}}
		exp := &attach.Expansion{}
		for i, insns := range tc.insns {
			name := string(rune('a' + i))
			o.Spec.Programs[name] = &ebpf.ProgramSpec{Type: ebpf.TracePoint, Instructions: insns}
			exp.Plans = append(exp.Plans, attach.Plan{Prog: &manifest.Program{Name: name, Kind: "tracepoint"}, Matches: tc.matches[i]})
		}
		if got := worthDispatch(o, exp, "sys_enter"); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// What has no number in our table keeps a tracepoint of its own, as does the
// other direction.
func TestSplitPlans(t *testing.T) {
	exp := &attach.Expansion{Plans: []attach.Plan{{Prog: &manifest.Program{Kind: "tracepoint"}, Matches: []attach.Match{
		{Group: "syscalls", Name: "sys_enter_read"}, {Group: "syscalls", Name: "sys_enter_newest"}, {Group: "syscalls", Name: "sys_exit_read"}, {Group: "sched", Name: "x"}}}}}
	splitPlans(exp, "sys_enter", map[string]int{"read": 0})
	if len(exp.Plans) != 2 || exp.Plans[0].Raw != "sys_enter" || !exp.Plans[0].Multi || len(exp.Plans[0].Matches) != 1 || len(exp.Plans[1].Matches) != 3 || exp.Plans[1].Multi {
		t.Errorf("got %+v", exp.Plans)
	}
}
