// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"btc/internal/arch"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/adapt"
)

// fake is a kernel with the functions f and g and a module m with the functions g and h; f has one
// argument. The embedded nil Kernel causes a panic if any other method is called.
type fake struct {
	Kernel
	unloaded bool // m is not loaded
}

func (fake) Arch() *arch.Arch                               { return arch.Host() }
func (fake) CheckKprobes(*manifest.Program) error           { return nil }
func (k fake) Loaded(module string) bool                    { return module == "m" && !k.unloaded }
func (fake) CheckFunction(*manifest.Program) error          { return nil }
func (fake) Several(*manifest.Attach) (bool, error)         { return false, nil }
func (fake) KprobeMulti() bool                              { return true }
func (fake) Absent(_ *manifest.Program, err *Missing) error { return err }
func (fake) Modules(string) ([]string, error)               { return []string{"m"}, nil }
func (fake) Other(p *manifest.Program) (Plan, error)        { return Plan{}, &Unknown{"a file"} }

func (fake) Functions() ([]Function, error) {
	return []Function{{Name: "g", Module: "m"}, {Name: "g", Module: Vmlinux}, {Name: "f", Module: Vmlinux},
		{Name: "h", Module: "m"}, {Name: "h", Module: "m"}, {Name: "rcu_read", Module: Vmlinux}}, nil
}

func (fake) Prototype(module, name string) (*adapt.Prototype, error) {
	switch module + ":" + name {
	case "vmlinux:f":
		return &adapt.Prototype{Params: []adapt.Param{{Name: "n", Type: "int", Size: 4}}}, nil
	case "vmlinux:twice":
		return nil, ErrAmbiguous
	case "vmlinux:g", "m:g", "m:h":
		return &adapt.Prototype{}, nil
	}
	return nil, nil
}

// Tracepoint and Tracepoints know sched:sched_switch, sched:sched_wakeup and irq:irq_handler_entry.
func (fake) Tracepoint(group, name string) error {
	for _, e := range events {
		if e.Group == group && e.Name == name {
			return nil
		}
	}
	return &Missing{Text: "no " + group + ":" + name}
}

func (fake) Tracepoints(group, name string) ([]adapt.Event, error) {
	var all []adapt.Event
	for _, e := range events {
		if probe.Glob(group, e.Group) && probe.Glob(name, e.Name) {
			all = append(all, e)
		}
	}
	return all, nil
}

func (fake) Iterators() ([]string, error) { return []string{"task", "task_file"}, nil }

// TestMisspelt checks that the nearest name is suggested, and nothing for a pattern or a name that is like no other.
func TestMisspelt(t *testing.T) {
	for point, want := range map[string]string{
		"tracepoint:sched:sched_swich":    "tracepoint:sched:sched_switch",
		"tracepoint:shced:sched_switch":   "tracepoint:sched:sched_switch",
		"tracepoint:sched:schedule_other": "",
		"tracepoint:sched:sched_swi*x":    "",
	} {
		p := program(0, point, "")
		_, err := One(fake{}, &p)
		var gone *Missing
		if !errors.As(err, &gone) {
			t.Fatalf("%s: %v", point, err)
		}
		if got := strings.TrimSuffix(strings.TrimPrefix(gone.Why, "did you mean "), "?"); got != want {
			t.Errorf("%s: suggested %q, want %q", point, got, want)
		}
	}
}

var events = []adapt.Event{{Group: "sched", Name: "sched_switch"}, {Group: "sched", Name: "sched_wakeup"}, {Group: "irq", Name: "irq_handler_entry"}}

func TestTracepoints(t *testing.T) {
	for point, want := range map[string]string{
		"tracepoint:sched:sched_switch": "sched:sched_switch",
		"tracepoint:sched:absent":       "no sched:absent",
		"tracepoint:sched:*":            "sched:sched_switch sched:sched_wakeup",
		"tracepoint:*:irq*":             "irq:irq_handler_entry",
		"tracepoint:sched:x*":           "No matches for tracepoint sched:x*.",
	} {
		p := program(0, point, "")
		plan, err := One(fake{}, &p)
		got := ""
		for _, m := range plan.Matches {
			got += " " + m.Group + ":" + m.Name
		}
		if err != nil {
			got = " " + err.Error()
		}
		if got != " "+want {
			t.Errorf("%s: %s, want %s", point, got, want)
		}
	}
}

// RawTracepoints knows sched_switch and sched_wakeup of the kernel, and m_event of the module m.
func (fake) RawTracepoints(module string) ([]string, error) {
	return map[string][]string{Vmlinux: {"sched_wakeup", "sched_switch"}, "m": {"m_event"}}[module], nil
}

func TestRawTracepointPatterns(t *testing.T) {
	for point, want := range map[string]string{
		"rawtracepoint:sched_*":         "vmlinux:sched_switch vmlinux:sched_wakeup",
		"rawtracepoint:*":               "m:m_event vmlinux:sched_switch vmlinux:sched_wakeup",
		"rawtracepoint:m:*":             "m:m_event",
		"rawtracepoint:vmlinux:*switch": "vmlinux:sched_switch",
		"rawtracepoint:x*":              "No matches for rawtracepoint x*.",
	} {
		p := program(0, point, "")
		plan, err := One(fake{}, &p)
		got := ""
		for _, m := range plan.Matches {
			got += " " + m.Group + ":" + m.Name
		}
		if err != nil {
			got = " " + err.Error()
		}
		if got != " "+want {
			t.Errorf("%s: %s, want %s", point, got, want)
		}
	}
}

// program returns a program with an attach point such as "kprobe:f" or "fentry:m:g".
func program(clause int, text, missing string) manifest.Program {
	parts := strings.Split(text, ":")
	a := manifest.Attach{Text: text, Name: parts[len(parts)-1], Missing: missing}
	if len(parts) == 3 {
		a.Target = parts[1]
	}
	return manifest.Program{Kind: parts[0], Clause: clause, Attach: a}
}

func TestFunctions(t *testing.T) {
	for _, c := range []struct {
		point    string
		unloaded bool
		want     string // names of the matches, or the error
	}{
		{"kprobe:anything", false, "kprobe:anything"},
		{"kprobe:*", false, "kprobe:f kprobe:g kprobe:g kprobe:h"}, // nothing matches rcu_*
		{"kprobe:m:*", false, "kprobe:m:g kprobe:m:h"},
		{"kprobe:x*", false, "No matches for kprobe x*."},
		{"kprobe:m:g", true, "specified module m in probe kprobe:m:g is not loaded."},
		{"fentry:f", false, "fentry:vmlinux:f"},
		{"fentry:vmlinux:g", false, "fentry:vmlinux:g"},
		{"fentry:h", false, "fentry:m:h"},
		{"fentry:g", false, "fentry:vmlinux:g"}, // the kernel's own comes first
		{"fentry:m:g", false, "the function g is in vmlinux, m, which this loader cannot distinguish"},
		{"fentry:twice", false, "its types are ambiguous"},
		{"fentry:none", false, "No matches for fentry none."},
		{"fentry:m:h", true, "specified module m in probe fentry:m:h is not loaded."},
		{"fentry:vmlinux:h", false, "No matches for fentry vmlinux:h."},
	} {
		p := program(0, c.point, "")
		plan, err := One(fake{unloaded: c.unloaded}, &p)
		var names []string
		for _, m := range plan.Matches {
			names = append(names, m.Text)
		}
		got := strings.Join(names, " ")
		if err != nil {
			got = err.Error()
		}
		if got != c.want && !(err != nil && strings.HasSuffix(got, c.want)) {
			t.Errorf("%s: %q, want %q", c.point, got, c.want)
		}
	}
}

// TestMultiNeedsNames checks that multi links find functions by name, so that a program that needs the
// number of its attach point cannot use one for two functions with the same name.
func TestMultiNeedsNames(t *testing.T) {
	for usesID, want := range map[bool]Strategy{false: Multi, true: Single} {
		p := program(0, "kprobe:*", "")
		p.UsesID, p.Code = usesID, &manifest.Code{}
		plan, err := One(fake{}, &p)
		if err != nil || plan.Strategy != want {
			t.Errorf("uses number = %v: strategy %d (%v), want %d", usesID, plan.Strategy, err, want)
		}
	}
	p := program(0, "kprobe:m:*", "")
	p.UsesID, p.Code = true, &manifest.Code{}
	if plan, err := One(fake{}, &p); err != nil || plan.Strategy != Multi {
		t.Errorf("distinct names: strategy %d (%v)", plan.Strategy, err)
	}
}

// TestArguments checks that it is an error of the attach point if the object reads an argument at
// another position.
func TestArguments(t *testing.T) {
	p := program(0, "fentry:f", "")
	p.Args = []manifest.ArgUse{{Name: "n", Slot: 1, Type: "int"}}
	if _, err := One(fake{}, &p); err == nil || IsMissing(err) {
		t.Errorf("error = %v", err)
	}
	p.Args[0].Slot = 0
	if _, err := One(fake{}, &p); err != nil {
		t.Error(err)
	}
}

func TestMissingProbes(t *testing.T) {
	all := func(string) bool { return true }
	for _, c := range []struct {
		mode                    string
		dropped, silent, clause bool // of the first program; of its clause
	}{
		{"error", false, false, false}, {"warn", true, false, true}, {"ignore", true, true, false},
	} {
		m := &manifest.Manifest{Programs: []manifest.Program{
			program(0, "fentry:none", c.mode), program(1, "kprobe:f", c.mode), program(2, "uprobe:/x:f", c.mode)}}
		m.Config.Other = map[string]string{"missing_probes": c.mode}
		r := All(fake{}, m, all)
		first, second, third := r.Programs[0], r.Programs[1], r.Programs[2]
		if first.Plan != nil || !IsMissing(first.Err) || first.Dropped != c.dropped || first.Silent != c.silent {
			t.Errorf("%s: first program = %+v", c.mode, first)
		}
		if second.Plan == nil || second.Err != nil || !third.Unknown || third.Dropped {
			t.Errorf("%s: other programs = %+v, %+v", c.mode, second, third)
		}
		if len(r.Clauses) == 1 && r.Clauses[0].Warn != c.clause || c.mode == "ignore" && len(r.Clauses) > 0 {
			t.Errorf("%s: clauses = %+v", c.mode, r.Clauses)
		}
	}
}

func TestLimits(t *testing.T) {
	m := &manifest.Manifest{Programs: []manifest.Program{program(0, "kprobe:*", ""), program(0, "kprobe:f", "")}}
	all := func(string) bool { return true }
	for key, words := range map[string]string{"max_probes": "5 probes", "max_bpf_progs": "more than 2 BPF programs"} {
		m.Config.Other = map[string]string{key: "1"}
		if r := All(fake{}, m, all); r.Limit == nil || !strings.Contains(r.Limit.Text, words) {
			t.Errorf("%s: Limit = %v", key, r.Limit)
		}
	}
	if r := All(fake{}, m, func(kind string) bool { return false }); r.Limit != nil || len(r.Programs) != 0 {
		t.Errorf("result = %+v", r)
	}
}

// TestParameterInPoint checks that an attach point that depends on a parameter is unknown until the
// parameter has a value.
func TestParameterInPoint(t *testing.T) {
	p := program(0, "kprobe:$1", "")
	p.Attach.Substitute = []string{"$1"}
	var u *Unknown
	if _, err := One(fake{}, &p); !errors.As(err, &u) {
		t.Error(err)
	}
}

// TestPlans checks all of the plan of an attach point of each kind.
func TestPlans(t *testing.T) {
	for _, c := range []struct {
		p    manifest.Program
		want Plan
	}{
		{manifest.Program{Kind: "kprobe", Attach: manifest.Attach{Text: "kprobe:m:g+4", Target: "m", Name: "g", Offset: 4}}, Plan{Matches: []Match{{Text: "kprobe:m:g+4", Group: "m", Name: "g", Offset: 4}}}},
		{manifest.Program{Kind: "kretprobe", Attach: manifest.Attach{Text: "kretprobe:m:h*", Target: "m", Name: "h*"}}, Plan{Matches: []Match{{Text: "kretprobe:m:h", Group: "m", Name: "h", Several: true}}}}, // one: no multi link
		{manifest.Program{Kind: "kprobe", Attach: manifest.Attach{Text: "kprobe:m:*", Target: "m", Name: "*"}}, Plan{Strategy: Multi, AttachType: ebpf.AttachTraceKprobeMulti, Matches: []Match{{Text: "kprobe:m:g", Group: "m", Name: "g"}, {Text: "kprobe:m:h", Group: "m", Name: "h", Several: true}}}},
		{manifest.Program{Kind: "fexit", Attach: manifest.Attach{Text: "fexit:*", Name: "*"}}, Plan{Strategy: PerMatch, Matches: []Match{{Text: "fexit:vmlinux:f", Group: "vmlinux", Name: "f"}, {Text: "fexit:vmlinux:g", Group: "vmlinux", Name: "g"}, {Text: "fexit:m:h", Group: "m", Name: "h"}}}},
		{manifest.Program{Kind: "tracepoint", Attach: manifest.Attach{Text: "tracepoint:irq:irq_handler_entry", Target: "irq", Name: "irq_handler_entry"}}, Plan{Matches: []Match{{Text: "tracepoint:irq:irq_handler_entry", Group: "irq", Name: "irq_handler_entry"}}}},
		{manifest.Program{Kind: "software", Attach: manifest.Attach{Text: "software:page-faults:9", Name: "page-faults"}}, Plan{Matches: []Match{{Text: "software:page-faults:9", Name: "page-faults"}}}},
		{manifest.Program{Kind: "profile", Attach: manifest.Attach{Text: "profile:hz:9", Addr: 7}}, Plan{Matches: []Match{{Text: "profile:hz:9", Offset: 7}}}},
		{manifest.Program{Kind: "begin", Attach: manifest.Attach{Text: "begin"}}, Plan{Strategy: Virtual, Matches: []Match{{Text: "begin"}}}},
	} {
		got, err := One(fake{}, &c.p)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v, want %+v", c.p.Attach.Text, got, err, c.want)
		}
	}
}

// TestWithoutAttachPoint checks the errors for attach points that a kernel does not have.
func TestWithoutAttachPoint(t *testing.T) {
	for point, want := range map[string]string{
		"software:nonsense":          "No matches for software nonsense.",
		"hardware:nonsense":          "No matches for hardware nonsense.",
		"hardware:cache-misses":      "a file", // depends on the processor
		"tracepoint:ftrace:function": "No matches for tracepoint ftrace:function.",
		"iter:bpf_map_elem":          "No matches for iter bpf_map_elem. It visits the elements of one map, which a script cannot name.",
		"uprobe:/bin/x:f":            "a file",
		"fentry:bpf:p":               "No matches for fentry bpf:p.",
	} {
		p := program(0, point, "")
		if point == "fentry:bpf:p" {
			p.Attach.Target = "bpf:7"
			want = "a file"
		}
		if _, err := One(fake{}, &p); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", point, err, want)
		}
	}
	for what, pattern := range map[string]bool{"x": false, "x*": true, "sched:*a": true} {
		var gone *Missing
		if err := NoMatch("kprobe", what); !errors.As(err, &gone) || gone.Pattern != pattern || !IsMissing(err) {
			t.Errorf("%s: %+v", what, err)
		}
	}
	if IsMissing(&Unknown{}) || IsMissing(nil) || (&Missing{}).notes() != nil || (&Missing{Why: "because"}).notes()[0] != "because" {
		t.Error("wrong kinds of errors")
	}
}

// TestNumPrograms checks how many BPF programs a plan loads, and how many probes it counts as.
func TestNumPrograms(t *testing.T) {
	matches := []Match{{PID: 1}, {PID: 1}, {PID: 2, More: true}}
	ids := &manifest.Program{UsesID: true}
	for _, c := range []struct {
		what             string
		p                Plan
		programs, probes int
	}{
		{"one for all", Plan{Prog: &manifest.Program{}, Matches: []Match{{}, {}}}, 1, 2},
		{"one for each match", Plan{Prog: &manifest.Program{}, Matches: matches, Strategy: PerMatch}, 3, 2},
		{"one for each number", Plan{Prog: ids, Matches: matches}, 3, 2},
		{"number from the link", Plan{Prog: ids, Matches: []Match{{}, {}}, Strategy: Multi}, 1, 2},
		{"one for each process", Plan{Prog: &manifest.Program{}, Matches: matches}, 2, 2},
		{"none", Plan{Prog: &manifest.Program{}}, 1, 0},
		{"a clause that uses numbers is joined", Plan{Prog: &manifest.Program{}, Matches: matches, Joined: []Plan{{Prog: ids}}}, 3, 4},
		{"a clause is joined", Plan{Prog: &manifest.Program{}, Matches: []Match{{}, {}}, Joined: []Plan{{Prog: &manifest.Program{}}, {Prog: &manifest.Program{}}}}, 1, 6},
		{"two locations of one probe", Plan{Prog: &manifest.Program{}, Matches: []Match{{}, {More: true}}}, 1, 1},
	} {
		if got := c.p.NumPrograms(); got != c.programs {
			t.Errorf("%s: %d programs, want %d", c.what, got, c.programs)
		}
		if got := c.p.Probes(len(c.p.Matches)); got != c.probes {
			t.Errorf("%s: %d probes, want %d", c.what, got, c.probes)
		}
	}
	only := Plan{Matches: []Match{{More: true}}}
	if got := only.Probes(1); got != 1 {
		t.Errorf("the only location: %d probes, want 1", got)
	}
}

// TestLimitsAreInclusive checks that as many sites and programs as the limit are accepted, and what is wrong values of it.
func TestLimitsAreInclusive(t *testing.T) {
	m := &manifest.Manifest{Programs: []manifest.Program{program(0, "kprobe:*", ""), program(0, "kprobe:f", "")}} // 5 sites, 2 programs
	all := func(string) bool { return true }
	for _, c := range []struct {
		key, value string
		over       bool
	}{
		{"max_probes", "5", false}, {"max_probes", "4", true}, {"max_bpf_progs", "2", false}, {"max_bpf_progs", "1", true},
		{"max_probes", "x", false}, {"max_probes", "0", false}, {"max_probes", "-1", false},
	} {
		m.Config.Other = map[string]string{c.key: c.value}
		if r := All(fake{}, m, all); (r.Limit != nil) != c.over {
			t.Errorf("%s=%s: %v", c.key, c.value, r.Limit)
		}
	}
}

func TestExcluded(t *testing.T) {
	for name, want := range map[string]bool{
		"arch_cpu_idle": true, "default_idle": true, "bpf_dispatcher_xdp_func": true, "rcu_read": true, "__pfx_f": true, "__cfi_f": true,
		"__ftrace_invalid_address___9": true, "vfs_read": false, "rcu": false, "my_rcu_x": false,
	} {
		if got := Excluded(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestPinPath(t *testing.T) {
	for _, c := range [][3]string{{"iter", "", ""}, {"iter", "/sys/fs/bpf/x", "/sys/fs/bpf/x"}, {"iter", "x/y", "/sys/fs/bpf/x/y"}, {"kprobe", "/x", ""}} {
		p := manifest.Program{Kind: c[0], Attach: manifest.Attach{Target: c[1]}}
		if got := PinPath(&p); got != c[2] {
			t.Errorf("%s:%s: %q, want %q", c[0], c[1], got, c[2])
		}
	}
}
