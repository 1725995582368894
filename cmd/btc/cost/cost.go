// SPDX-License-Identifier: Apache-2.0

package cost

import (
	"slices"
	"sort"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"btc/cmd/btc/forecast"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/object"
	"btc/targets/kernel"
)

// Program is the estimate for one program.
type Program struct {
	Name  string `json:"program"`
	Probe string `json:"probe"`
	Kind  string `json:"kind"`
	Line  int    `json:"line,omitempty"`
	// NS is the cost of an event if all filters pass and nothing fails; LeastNS is the cost of the
	// shortest path through the program.
	NS      float64 `json:"ns"`
	LeastNS float64 `json:"least_ns"`
	// ProbeNS is the cost of the probe itself. It is nil if it was not measured; ProbeNote is the
	// reason.
	ProbeNS   *float64 `json:"probe_ns"`
	ProbeNote string   `json:"probe_note,omitempty"`
	Insns     int      `json:"instructions"` // instructions on the path of NS
	Calls     []Call   `json:"calls"`        // helper calls on that path, the most expensive first
	// Cheaper are probes that can answer the same question at a lower cost of the probe itself.
	Cheaper []Cheaper `json:"cheaper,omitempty"`
	// Loops is set if NS counts one iteration of a loop with an unknown trip count.
	Loops bool `json:"loops,omitempty"`
	// Unmeasured are helpers that are not in the table. The median of all helpers is used for them.
	Unmeasured []string `json:"unmeasured,omitempty"`
}

// Call summarizes the calls of one helper.
type Call struct {
	Name  string  `json:"name"` // for a map operation, with the kind of map
	Count int     `json:"count"`
	NS    float64 `json:"ns"` // total of all calls
}

// Estimate returns the estimates for an object's programs on the kernel of a target. It modifies
// the object. Programs that only the loader runs are omitted.
func Estimate(o *object.Object, t *kernel.Target, table *Table) ([]Program, error) {
	var all []Program
	for i := range o.Manifest.Programs {
		p := &o.Manifest.Programs[i]
		if probe.Lookup(p.Kind).Runner != probe.Kernel {
			continue
		}
		code, err := forecast.CodeOf(o, t, p)
		if err != nil {
			return nil, err
		}
		e := &estimator{Table: table, Code: code, o: o, functions: map[string]*function{}}
		e.out = Program{Name: p.Name, Probe: p.Attach.Attaches(p.Kind), Kind: p.Kind, Line: p.Pos.Line, Calls: []Call{}}
		e.program()
		e.ofProbe(p)
		e.out.Cheaper = e.cheaper(p, t)
		all = append(all, e.out)
	}
	return all, nil
}

// ofProbe adds the cost of the probe itself.
func (e *estimator) ofProbe(p *manifest.Program) {
	for i := range e.Probes {
		if x := &e.Probes[i]; x.Kind == p.Kind {
			e.out.ProbeNS, e.out.ProbeNote = x.NS, x.Note
			return
		}
	}
	e.out.ProbeNote = "not measured"
}

// estimator estimates one program.
type estimator struct {
	*Table
	*forecast.Code
	o         *object.Object
	functions map[string]*function // subprograms; nil while one is being estimated
	out       Program
}

// function is the program or a subprogram.
type function struct {
	most, least float64
	insns       int
	calls       map[string]*Call
}

func (e *estimator) program() {
	f := e.function(0)
	e.out.NS, e.out.LeastNS, e.out.Insns = f.most, f.least, f.insns
	for _, c := range f.calls {
		e.out.Calls = append(e.out.Calls, *c)
	}
	sort.Slice(e.out.Calls, func(i, j int) bool {
		a, b := &e.out.Calls[i], &e.out.Calls[j]
		if a.NS != b.NS {
			return a.NS > b.NS
		}
		return a.Name < b.Name
	})
	slices.Sort(e.out.Unmeasured)
	e.out.Unmeasured = slices.Compact(e.out.Unmeasured)
}

// content is what is known about the content of a register.
type content struct {
	kind  contentKind
	value int64  // constant; for a result, the number of the helper
	name  string // name of a map or subprogram
}

type contentKind uint8

const (
	anything contentKind = iota
	constant
	mapRef
	subprogram
	result // unmodified result of a helper
)

type registers [16]content

// function estimates the function that begins at an instruction. It follows all paths except back
// edges, adds up the costs of the instructions, and keeps the most and the least expensive path.
func (e *estimator) function(start int) *function {
	order := e.order(start)
	in := map[int]*registers{start: {}}
	costs := make([]float64, len(order))
	calls := make([]*Call, len(order))
	index := map[int]int{}
	for n, i := range order {
		index[i] = n
	}
	for n, i := range order {
		s := *in[i]
		costs[n], calls[n] = e.step(i, &s)
		for _, to := range e.likely(i, in[i]) {
			m, ok := index[to]
			if !ok || m <= n { // back edge
				continue
			}
			if in[to] == nil {
				c := s
				in[to] = &c
				continue
			}
			for r := range s {
				if in[to][r] != s[r] {
					in[to][r] = content{}
				}
			}
		}
		if in[order[min(n+1, len(order)-1)]] == nil { // reached only by an unlikely path
			in[order[n+1]] = &registers{}
		}
	}
	most, least, best := make([]float64, len(order)), make([]float64, len(order)), make([]int, len(order))
	again, loopEnd := map[int]float64{}, map[int]int{} // keyed by the first instruction of a loop: further iterations
	for n := len(order) - 1; n >= 0; n-- {
		best[n] = -1
		first := true
		for _, to := range e.likely(order[n], in[order[n]]) {
			m, ok := index[to]
			if !ok {
				continue
			}
			if m <= n { // back edge
				if again[m] = e.trips(order[m:n+1], in) - 1; again[m] < 0 {
					e.out.Loops, again[m] = true, 0
				}
				loopEnd[m] = n
				continue
			}
			if first || most[m] > most[best[n]] {
				best[n] = m
			}
			if first || least[m] < least[n] {
				least[n] = least[m]
			}
			first = false
		}
		if best[n] >= 0 {
			most[n] = most[best[n]]
		}
		most[n] += costs[n]
		least[n] += costs[n]
		if again[n] > 0 {
			more := again[n] * e.longest(order[n:loopEnd[n]+1], index, costs[n:], in)
			most[n] += more
			least[n] += more
		}
	}
	f := &function{most: most[0], least: least[0], calls: map[string]*Call{}}
	for n := 0; n >= 0; n = best[n] {
		f.insns++
		if c := calls[n]; c != nil {
			f.add(c)
		}
		if name := e.called(order[n], in[order[n]]); name != "" {
			if g := e.functions[name]; g != nil {
				f.insns += g.insns
				for _, c := range g.calls {
					f.add(c)
				}
			}
		}
	}
	return f
}

// longest returns the most expensive path from the first of some instructions to the last one.
func (e *estimator) longest(body []int, index map[int]int, costs []float64, in map[int]*registers) float64 {
	from := index[body[0]]
	most := make([]float64, len(body)) // cost of the path to the last one; 0: unreachable
	for n := len(body) - 1; n >= 0; n-- {
		reaches := n == len(body)-1
		for _, to := range e.likely(body[n], in[body[n]]) {
			if m, ok := index[to]; ok && m-from > n && m-from < len(body) && most[m-from] > 0 {
				most[n], reaches = max(most[n], most[m-from]), true
			}
		}
		if reaches {
			most[n] += max(costs[n], 1e-6)
		}
	}
	return most[0]
}

// trips returns the trip count of the loop that begins with the first of the instructions: a
// register that is constant before the loop is incremented by a constant until a comparison with a
// constant ends the loop. It is 0 if unknown.
func (e *estimator) trips(body []int, in map[int]*registers) float64 {
	before := in[body[0]]
	var step [16]int64
	var writes [16]int
	for _, i := range body {
		ins := &e.Insns[i]
		switch class := ins.OpCode.Class(); {
		case ins.IsBuiltinCall() || ins.IsFunctionCall():
			for r := asm.R0; r <= asm.R5; r++ {
				writes[r] += 2
			}
		case class == asm.ALU64Class || class == asm.ALUClass:
			writes[ins.Dst]++
			if ins.OpCode.ALUOp() == asm.Add && ins.OpCode.Source() == asm.ImmSource {
				step[ins.Dst] = ins.Constant
			}
		case class == asm.LdXClass || class == asm.LdClass:
			writes[ins.Dst] += 2
		}
	}
	for _, i := range body {
		ins := &e.Insns[i]
		class := ins.OpCode.Class()
		if class != asm.JumpClass && class != asm.Jump32Class || ins.OpCode.Source() != asm.ImmSource {
			continue
		}
		c := before[ins.Dst]
		if c.kind != constant || writes[ins.Dst] != 1 || step[ins.Dst] <= 0 || ins.Constant <= c.value {
			continue
		}
		switch ins.OpCode.JumpOp() {
		case asm.JEq, asm.JNE, asm.JLT, asm.JGE, asm.JSLT, asm.JSGE, asm.JGT, asm.JLE, asm.JSGT, asm.JSLE:
			if n := float64(ins.Constant-c.value) / float64(step[ins.Dst]); n >= 1 && n < mostTrips {
				return n
			}
		}
	}
	return 0
}

func (f *function) add(c *Call) {
	if f.calls[c.Name] == nil {
		f.calls[c.Name] = &Call{Name: c.Name}
	}
	f.calls[c.Name].Count += c.Count
	f.calls[c.Name].NS += c.NS
}

// order lists the reachable instructions of a function, each after its predecessors, ignoring back
// edges.
func (e *estimator) order(start int) []int {
	type visit struct{ at, next int }
	seen := map[int]bool{start: true}
	todo := []visit{{at: start}}
	var post []int
	for len(todo) > 0 {
		v := &todo[len(todo)-1]
		fall, taken := e.Next(v.at)
		to := [2]int{taken, fall}
		if v.next == len(to) {
			post = append(post, v.at)
			todo = todo[:len(todo)-1]
			continue
		}
		i := to[v.next]
		v.next++
		if i >= 0 && i < len(e.Insns) && !seen[i] && e.Reached(i) {
			seen[i] = true
			todo = append(todo, visit{at: i})
		}
	}
	slices.Reverse(post)
	return post
}

// likely lists the successors of an instruction if nothing fails: it omits the error paths of
// helper calls.
func (e *estimator) likely(i int, s *registers) []int {
	fall, taken := e.Next(i)
	if fall >= 0 && taken >= 0 {
		switch failed(&e.Insns[i], s) {
		case onJump:
			taken = -1
		case onFall:
			fall = -1
		}
	}
	var to []int
	for _, n := range []int{fall, taken} {
		if n >= 0 && e.Reached(n) {
			to = append(to, n)
		}
	}
	return to
}

// side returns the branch that is taken if a helper failed.
type side int

const (
	nowhere side = iota
	onJump
	onFall
)

// failed returns the branch that handles the failure of a helper whose result is compared.
func failed(ins *asm.Instruction, s *registers) side {
	c := s[ins.Dst]
	if c.kind != result || ins.OpCode.Source() != asm.ImmSource || ins.Constant != 0 {
		return nowhere
	}
	helper := asm.BuiltinFunc(c.value)
	pointer, zero := slices.Contains(pointers, helper), slices.Contains(zeroes, helper)
	switch op := ins.OpCode.JumpOp(); {
	case pointer && op == asm.JEq, zero && op == asm.JNE, op == asm.JSLT, op == asm.JSLE:
		return onJump
	case pointer && op == asm.JNE, zero && op == asm.JEq, op == asm.JSGE, op == asm.JSGT:
		return onFall
	}
	return nowhere
}

// pointers are the helpers that return a pointer or NULL; zeroes are those that return 0 or an
// error.
var (
	pointers = []asm.BuiltinFunc{asm.FnMapLookupElem, asm.FnMapLookupPercpuElem, asm.FnRingbufReserve}
	zeroes   = []asm.BuiltinFunc{
		asm.FnProbeRead, asm.FnProbeReadKernel, asm.FnProbeReadUser, asm.FnMapUpdateElem, asm.FnGetCurrentComm,
		asm.FnRingbufOutput, asm.FnGetNsCurrentPidTgid,
	}
)

// called returns the subprogram that an instruction calls or passes as a callback, or "".
func (e *estimator) called(i int, s *registers) string {
	ins := &e.Insns[i]
	switch {
	case ins.IsFunctionCall():
		return ins.Reference()
	case ins.IsBuiltinCall() && (ins.Constant == int64(asm.FnLoop) || ins.Constant == int64(asm.FnForEachMapElem)):
		return s[asm.R2].name
	}
	return ""
}

// sub estimates a subprogram once.
func (e *estimator) sub(name string) *function {
	if f, ok := e.functions[name]; ok {
		return f
	}
	e.functions[name] = nil
	for i := range e.Insns {
		if i > 0 && e.Insns[i].Symbol() == name {
			e.functions[name] = e.function(i)
		}
	}
	return e.functions[name]
}

// step returns the cost of an instruction, and its call if it is one, and updates the registers.
func (e *estimator) step(i int, s *registers) (ns float64, call *Call) {
	ins := &e.Insns[i]
	if name := e.called(i, s); name != "" {
		if f := e.sub(name); f != nil {
			ns = f.most
		}
		if ins.IsBuiltinCall() { // a callback
			n := s[asm.R1]
			if n.kind == constant && n.value < mostTrips && ins.Constant == int64(asm.FnLoop) {
				ns *= float64(n.value)
			} else {
				e.out.Loops = true
			}
		}
	}
	switch class := ins.OpCode.Class(); {
	case ins.IsBuiltinCall():
		call = e.helper(asm.BuiltinFunc(ins.Constant), s)
		ns += call.NS
		clobber(s)
		s[asm.R0] = content{kind: result, value: ins.Constant}
	case ins.OpCode.JumpOp() == asm.Call && (class == asm.JumpClass || class == asm.Jump32Class):
		ns += e.Call // in addition to the subprogram
		clobber(s)
		s[asm.R0] = content{}
	case class == asm.JumpClass || class == asm.Jump32Class:
		ns = e.Insn
	case ins.OpCode.IsDWordLoad():
		ns = e.Insn
		s[ins.Dst] = content{kind: constant, value: ins.Constant}
		switch {
		case ins.IsLoadFromMap():
			s[ins.Dst] = content{kind: mapRef, name: ins.Reference()}
		case ins.IsLoadOfFunctionPointer():
			s[ins.Dst] = content{kind: subprogram, name: ins.Reference()}
		}
	case class == asm.LdXClass:
		ns = e.Memory
		s[ins.Dst] = content{}
	case class == asm.StXClass && ins.OpCode.Mode() == asm.AtomicMode:
		ns = e.Atomic
	case class == asm.StXClass || class == asm.StClass:
		ns = e.Memory
	default:
		ns = e.Insn
		alu(ins, s)
	}
	return ns, call
}

func clobber(s *registers) {
	for r := asm.R1; r <= asm.R5; r++ {
		s[r] = content{}
	}
}

// alu tracks constants and copies.
func alu(ins *asm.Instruction, s *registers) {
	switch {
	case ins.OpCode.ALUOp() == asm.Mov && ins.OpCode.Source() == asm.ImmSource:
		s[ins.Dst] = content{kind: constant, value: ins.Constant}
	case ins.OpCode.ALUOp() == asm.Mov:
		s[ins.Dst] = s[ins.Src]
	default:
		s[ins.Dst] = content{}
	}
}

// mostTrips is the iteration count from which on a bound is assumed not to be reached.
const mostTrips = 1 << 16

// usualBytes is the assumed size of a string or record of unknown length.
const usualBytes = 16

// helper returns the cost of a call.
func (e *estimator) helper(h asm.BuiltinFunc, s *registers) *Call {
	name := object.HelperName(h)
	bytes := func(r asm.Register) int {
		if s[r].kind == constant && s[r].value >= 0 && s[r].value < 1<<20 {
			return int(s[r].value)
		}
		return usualBytes
	}
	if op := mapOperations[h]; op != "" {
		m := e.o.Spec.Maps[s[asm.R1].name]
		kind, key := "hash", usualBytes
		if m != nil {
			kind, key = mapKinds[m.Type], int(m.KeySize)
		}
		if points := e.Maps[kind][op]; points != nil {
			return &Call{Name: name + " " + kind, Count: 1, NS: at(points, key)}
		}
		return e.unmeasured(name + " " + kind)
	}
	size := usualBytes
	switch h {
	case asm.FnLoop, asm.FnForEachMapElem: // in addition to the callback
		return &Call{Name: name, Count: 1, NS: e.Call}
	case asm.FnProbeRead, asm.FnProbeReadKernel, asm.FnProbeReadUser, asm.FnRingbufReserve:
		size = bytes(asm.R2)
	case asm.FnRingbufOutput:
		size = bytes(asm.R3)
	case asm.FnGetStack:
		if s[asm.R4].kind == constant && s[asm.R4].value&(1<<8) != 0 {
			name += " user"
		}
	}
	if points := e.Helpers[name]; points != nil {
		return &Call{Name: name, Count: 1, NS: at(points, size)}
	}
	return e.unmeasured(name)
}

// unmeasured returns the cost of a helper that is not in the table.
func (e *estimator) unmeasured(name string) *Call {
	e.out.Unmeasured = append(e.out.Unmeasured, name)
	var all []float64
	for _, points := range e.Helpers {
		all = append(all, points[0].NS)
	}
	slices.Sort(all)
	ns := 0.0
	if len(all) > 0 {
		ns = all[len(all)/2]
	}
	return &Call{Name: name, Count: 1, NS: ns}
}

// mapOperations maps the map helpers to their names in the table.
var mapOperations = map[asm.BuiltinFunc]string{
	asm.FnMapLookupElem: "lookup", asm.FnMapUpdateElem: "update", asm.FnMapDeleteElem: "delete", asm.FnMapLookupPercpuElem: "lookup",
}

// mapKinds maps map types to their names in the table.
var mapKinds = map[ebpf.MapType]string{
	ebpf.Array: "array", ebpf.PerCPUArray: "percpu_array", ebpf.Hash: "hash", ebpf.PerCPUHash: "percpu_hash",
	ebpf.LRUHash: "lru_hash", ebpf.LRUCPUHash: "lru_percpu_hash",
	ebpf.ArrayOfMaps: "array", // the JIT compiler inlines both
}
