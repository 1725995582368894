package load

import (
	"os"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"btc/loader/attach"
	"btc/loader/hostinfo"
	"btc/loader/object"
)

// Programs of tracepoints that do not look at the tracepoint's record run from
// the raw tracepoint that the record is made of.
//
// The kernel waits for two grace periods, together tens of milliseconds, at the
// end of each tracepoint's perf event, and holds a lock meanwhile, so that it is
// the same for a thread each. Links of raw tracepoints end in no time, and an
// event does not pay for a record that nobody reads. To the script it is the same
// but for the stack, which has other frames at its top: programs that take the
// context keep the tracepoint.

// guarded is the first kernel that does not run a raw tracepoint's program while
// it runs already (Linux 6.1). Before, a program whose own reads fault would run
// for the tracepoint of page faults without end.
var guarded = [2]int{6, 1}

// notRaw are the groups of tracepoints that have none of their own name, and
// that of locks: they fire while the kernel holds the locks of maps and of the
// ring buffer, where only the count of running programs, which raw tracepoints
// are not part of, keeps programs out.
var notRaw = map[string]bool{"syscalls": true, "ftrace": true, "lock": true, "preemptirq": true}

// preferRaw changes the plans of tracepoints whose programs can run from raw
// tracepoints. All programs of an event do, or none: between the two kinds the
// script's order would be lost.
func preferRaw(o *object.Object, exp *attach.Expansion) {
	release, err := hostinfo.Release()
	if err != nil || !kernelFrom(release, guarded) {
		return
	}
	keep := map[string]bool{} // group:event
	for i := range exp.Plans {
		p := &exp.Plans[i]
		if p.Prog.Kind != "tracepoint" || isBare(o.Spec.Programs[p.Prog.Name]) {
			continue
		}
		for j := range p.Matches {
			keep[p.Matches[j].Group+":"+p.Matches[j].Name] = true
		}
	}
	var groups eventGroups
	var plans []attach.Plan
	for _, p := range exp.Plans {
		if p.Prog.Kind != "tracepoint" || p.Multi {
			plans = append(plans, p)
			continue
		}
		raw, rest := p, p
		raw.Matches, rest.Matches, raw.Bare = nil, nil, true
		for _, m := range p.Matches {
			if notRaw[m.Group] || keep[m.Group+":"+m.Name] || !groups.only(m.Group, m.Name) {
				rest.Matches = append(rest.Matches, m)
			} else {
				raw.Matches = append(raw.Matches, m)
			}
		}
		for _, part := range []attach.Plan{raw, rest} {
			if len(part.Matches) > 0 {
				plans = append(plans, part)
			}
		}
	}
	exp.Plans = plans
}

// kernelFrom tells whether a release, "6.12.5-amd64", is that version or newer.
func kernelFrom(release string, version [2]int) bool {
	major, rest, _ := strings.Cut(release, ".")
	minor, _, _ := strings.Cut(rest, ".")
	if end := strings.IndexFunc(minor, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		minor = minor[:end]
	}
	a, err := strconv.Atoi(major)
	b, err2 := strconv.Atoi(minor)
	return err == nil && err2 == nil && (a > version[0] || a == version[0] && b >= version[1])
}

// eventGroups knows which groups of tracefs have events of a name, as far as it
// was asked. The kernel finds raw tracepoints by name alone.
type eventGroups struct {
	dir     string
	names   []string        // groups
	dynamic map[string]bool // group/event of those that users made
	read    bool
}

// only tells whether an event is the kernel's or a module's own and the only one
// of its name.
func (g *eventGroups) only(group, event string) bool {
	if !g.read {
		g.look()
	}
	if g.dynamic[group+"/"+event] {
		return false
	}
	for _, other := range g.names {
		if other == group {
			continue
		}
		if _, err := os.Stat(g.dir + "/events/" + other + "/" + event); err == nil {
			return false
		}
	}
	return len(g.names) > 0
}

func (g *eventGroups) look() {
	g.read = true
	dir, err := hostinfo.Tracefs()
	if err != nil {
		return
	}
	all, err := os.ReadDir(dir + "/events")
	if err != nil {
		return
	}
	text, _ := os.ReadFile(dir + "/dynamic_events") // 5.0; without it nothing is known to be made
	g.dir, g.dynamic = dir, dynamicEvents(string(text))
	for _, e := range all {
		if e.IsDir() {
			g.names = append(g.names, e.Name())
		}
	}
}

// dynamicEvents reads lines such as "p:group/event function" and "s:synthetic/event int x".
func dynamicEvents(text string) map[string]bool {
	made := map[string]bool{}
	for line := range strings.Lines(text) {
		first, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		_, name, _ := strings.Cut(first, ":")
		made[name] = true
	}
	return made
}

// isBare tells whether a program does not look at its context, and shares no
// memory that only the kernel's count of running programs protects.
func isBare(spec *ebpf.ProgramSpec) bool {
	if spec == nil || spec.Type != ebpf.TracePoint {
		return false
	}
	for i := range spec.Instructions {
		if spec.Instructions[i].Reference() == "scratch_k" {
			return false
		}
	}
	return !readsContext(spec.Instructions[:mainEnd(spec.Instructions)])
}

// readsContext follows a function from its beginning, where r1 is the context,
// as long as r1 may be it, and tells whether something takes it from there.
func readsContext(insns asm.Instructions) bool {
	index := map[int]int{} // of an instruction, by its place among the kernel's
	place := make([]int, len(insns))
	at := 0
	for i := range insns {
		index[at], place[i] = i, at
		at += int(insns[i].Size()) / asm.InstructionSize
	}
	seen := make([]bool, len(insns))
	pending := []int{0}
	for len(pending) > 0 {
		i := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		if i >= len(insns) || seen[i] {
			continue
		}
		seen[i] = true
		ins := &insns[i]
		reads, writes := touchesFirst(ins)
		if reads {
			return true
		}
		if writes {
			continue
		}
		next := i + 1
		if op := ins.OpCode; op.Class().IsJump() {
			switch op.JumpOp() {
			case asm.Exit:
				continue
			case asm.Call: // of a helper without arguments; it leaves nothing in r1
				continue
			}
			target, ok := index[place[i]+1+int(ins.Offset)]
			if !ok {
				return true // not what we know
			}
			pending = append(pending, target)
			if op.JumpOp() == asm.Ja {
				continue
			}
		}
		pending = append(pending, next)
	}
	return false
}

// touchesFirst tells whether an instruction reads or writes r1. What it does not
// know reads.
func touchesFirst(ins *asm.Instruction) (reads, writes bool) {
	op := ins.OpCode
	dst, src := ins.Dst == asm.R1, ins.Src == asm.R1
	switch class := op.Class(); {
	case class.IsALU() && op.ALUOp() == asm.Mov:
		return src && op.Source() == asm.RegSource, dst
	case class.IsALU():
		return dst || src && op.Source() == asm.RegSource, false
	case class == asm.LdClass && op.IsDWordLoad():
		return false, dst
	case class == asm.LdXClass:
		return src, dst
	case class == asm.StClass:
		return dst, false
	case class == asm.StXClass:
		return dst || src, false
	case class.IsJump() && op.JumpOp() == asm.Call:
		return !ins.IsBuiltinCall() || contextHelpers[asm.BuiltinFunc(ins.Constant)], false
	case class == asm.JumpClass && (op.JumpOp() == asm.Exit || op.JumpOp() == asm.Ja):
		return false, false
	case class.IsJump() && op.JumpOp() != asm.Ja:
		return dst || src && op.Source() == asm.RegSource, false
	}
	return true, false
}
