package attach

import (
	"slices"

	"github.com/cilium/ebpf"

	"btc/loader/manifest"
)

// pairSessions joins the probes of the entry and the return of a function, or of
// one pattern of functions, that two clauses have: the kernel then keeps one link
// for both (kprobe.session, 6.10), whose program is made of the two. As in
// bpftrace the clauses have no other attach point, and functions that are given
// with a module or an offset keep probes of their own.
func (e *Expansion) pairSessions(x *expander, m *manifest.Manifest) {
	clauses := map[int]int{} // attach points of each
	for i := range m.Programs {
		clauses[m.Programs[i].Clause]++
	}
	ends := map[string]*[2][]int{} // by function: plans of entries and returns
	for i := range e.Plans {
		p := &e.Plans[i]
		a := &p.Prog.Attach
		ret := p.Prog.Kind == "kretprobe"
		if !ret && p.Prog.Kind != "kprobe" || clauses[p.Prog.Clause] > 1 || a.Target != "" || a.Offset != 0 || a.Name == "" || p.Prog.UsesID && len(p.Matches) > 1 {
			continue
		}
		if ends[a.Name] == nil {
			ends[a.Name] = &[2][]int{}
		}
		n := 0
		if ret {
			n = 1
		}
		ends[a.Name][n] = append(ends[a.Name][n], i)
	}
	var gone []int
	for name, plans := range ends {
		// With several of a kind the order of the script decides, which links of
		// different kinds do not keep.
		if len(plans[0]) != 1 || len(plans[1]) != 1 || !x.host.KprobeSession() || !isPattern(name) && !listedOnce(x.opts.Functions, name) {
			continue
		}
		entry, ret := e.Plans[plans[0][0]], e.Plans[plans[1][0]]
		one := entry
		one.Session, one.Multi, one.AttachType = []Plan{entry, ret}, true, ebpf.AttachTraceKprobeSession
		e.Plans[plans[0][0]] = one
		gone = append(gone, plans[1][0])
	}
	slices.Sort(gone)
	for _, i := range slices.Backward(gone) {
		e.Plans = slices.Delete(e.Plans, i, i+1)
	}
}

// Split gives the two probes of a session a link each.
func (e *Expansion) Split(i int) {
	plans := append([]Plan(nil), e.Plans[:i]...)
	plans = append(plans, e.Plans[i].Session...)
	e.Plans = append(plans, e.Plans[i+1:]...)
}

// listedOnce tells whether the kernel can trace a function at its entry, where
// links of many functions attach, and has only one of that name.
func listedOnce(path, name string) bool {
	n := 0
	err := readFilterFunctions(path, func(f function) {
		if f.name == name {
			n++
		}
	})
	return err == nil && n == 1
}
