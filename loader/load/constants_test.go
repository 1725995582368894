// SPDX-License-Identifier: Apache-2.0

package load

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"btc/internal/kernelfs"
	"btc/internal/manifest"
	"btc/loader/host"
	"btc/loader/object"
	"btc/loader/resolve"
	"btc/loader/sites"
)

// withVariables returns an object with variables of the given sizes in bytes.
func withVariables(sizes map[string]int) *object.Object {
	o := &object.Object{Manifest: &manifest.Manifest{}, Spec: &ebpf.CollectionSpec{Variables: map[string]*ebpf.VariableSpec{}}}
	for name, size := range sizes {
		o.Spec.Variables[name] = &ebpf.VariableSpec{Name: name, Value: make([]byte, size), Type: &btf.Var{}}
	}
	return o
}

// words returns the numbers in a variable of the object.
func words(o *object.Object, name string) (out []uint64) {
	for b := o.Spec.Variables[name].Value; len(b) >= 8; b = b[8:] {
		out = append(out, binary.NativeEndian.Uint64(b))
	}
	return out
}

// TestConstants checks that parameters and facts about the host are stored in the variables with their
// names.
func TestConstants(t *testing.T) {
	o := withVariables(map[string]int{"start_ns": 8, "pidns_dev": 8, "pidns_ino": 8, "ncpus": 8, "cpid": 8, "front_x": 8, "param_1": 8, "param_2": 8, "other": 8, "gen": 8})
	for name, section := range map[string]string{"start_ns": ".rodata", "pidns_dev": ".rodata", "pidns_ino": ".rodata", "ncpus": ".rodata",
		"cpid": ".rodata.x", "front_x": ".rodata", "other": ".rodata", "gen": ".bss"} {
		o.Manifest.Globals = append(o.Manifest.Globals, manifest.Global{Name: name, Section: section, Size: 8})
	}
	o.Manifest.Maps = []manifest.Map{{Cache: &manifest.PerCPUCache{}}, {}, {Cache: &manifest.PerCPUCache{Enable: "front_x"}}}
	o.Manifest.Params = []manifest.Param{{Global: "param_1"}, {Global: "param_2"}}
	h := &host.Host{Start: 77, PIDNS: kernelfs.Namespace{Dev: 5, Ino: 6}, Online: []int{0, 1, 3}, Possible: 5}
	set := func(o *object.Object, opts Options) error {
		return errors.Join(setConstants(o, opts), setHostValues(o, &hostSource{h, &sites.Expansion{}, opts.ChildPID, opts.Unwind}))
	}
	if err := set(o, Options{ChildPID: 99, Values: map[string][]byte{"param_2": {1, 2, 3, 4, 5, 6, 7, 8}}}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]uint64{"start_ns": 77, "pidns_dev": 5, "pidns_ino": 6, "ncpus": 5, "cpid": 99, "front_x": 1,
		"param_1": 0, "param_2": binary.NativeEndian.Uint64([]byte{1, 2, 3, 4, 5, 6, 7, 8}), "other": 0, "gen": 0} {
		if got := words(o, name)[0]; got != want {
			t.Errorf("%s = %d, want %d", name, got, want)
		}
	}
	for what, spoil := range map[string]func(*object.Object) Options{
		"start_ns does not have 4": func(o *object.Object) Options {
			o.Manifest.Globals = []manifest.Global{{Name: "start_ns", Section: ".rodata", Size: 4}}
			return Options{}
		},
		"start_ns does not have 8": func(o *object.Object) Options { delete(o.Spec.Variables, "start_ns"); return Options{} },
		"param_2 does not have 3":  func(*object.Object) Options { return Options{Values: map[string][]byte{"param_2": {1, 2, 3}}} },
	} {
		o := withVariables(map[string]int{"start_ns": 8, "param_2": 8})
		o.Manifest.Globals = []manifest.Global{{Name: "start_ns", Section: ".rodata", Size: 8}}
		o.Manifest.Params = []manifest.Param{{Global: "param_2"}}
		if err := set(o, spoil(o)); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("error = %v, want %q", err, what)
		}
	}
}

// TestHostValueTable checks that the loader has code for each host value, and none for others.
func TestHostValueTable(t *testing.T) {
	s := &hostSource{host: &host.Host{}, exp: &sites.Expansion{}}
	known := func(value manifest.HostValue) (ok bool) {
		defer func() { ok = recover() == nil }()
		s.lookUp(value, "a b")
		return
	}
	for _, value := range manifest.HostValues {
		if !known(value) {
			t.Errorf("no code for %s", value)
		}
	}
	if known("other") {
		t.Error("code for an unknown value")
	}
}

// TestEnvironment checks that settings in the environment override those of the script.
func TestEnvironment(t *testing.T) {
	program := func(missing string) manifest.Program {
		return manifest.Program{Name: "p", Kind: "begin", Section: "raw_tp", Attach: manifest.Attach{Text: "begin", Missing: missing}}
	}
	for _, c := range []struct {
		key, value string
		bad        bool
		get        func(*manifest.Manifest) any
		want       any
	}{
		{"PRINT_MAPS_ON_EXIT", "1", false, func(m *manifest.Manifest) any { return m.Config.PrintMapsOnExit }, true},
		{"CPP_DEMANGLE", "true", false, func(m *manifest.Manifest) any { return m.Config.CppDemangle }, true},
		{"CPP_DEMANGLE", "false", false, func(m *manifest.Manifest) any { return m.Config.CppDemangle }, false},
		{"CPP_DEMANGLE", "0", false, func(m *manifest.Manifest) any { return m.Config.CppDemangle }, false},
		{"CPP_DEMANGLE", "maybe", true, nil, nil},
		{"STR_TRUNC_TRAILER", "..", false, func(m *manifest.Manifest) any { return m.Config.StrTruncTrailer }, ".."},
		{"PERF_RB_PAGES", "64", false, func(m *manifest.Manifest) any { return m.Config.RingbufPages }, 64},
		{"PERF_RB_PAGES", "x", true, nil, nil},
		{"MAX_PROBES", "7", false, func(m *manifest.Manifest) any { return m.Config.Other["max_probes"] }, "7"},
		{"MAX_BPF_PROGS", "8", false, func(m *manifest.Manifest) any { return m.Config.Other["max_bpf_progs"] }, "8"},
		{"MAX_CAT_BYTES", "9", false, func(m *manifest.Manifest) any { return m.Config.Other["max_cat_bytes"] }, "9"},
		{"MAX_PROBES", "2147483648", true, nil, nil},
		{"MISSING_PROBES", "ignore", false, func(m *manifest.Manifest) any { return m.Config.Other["missing_probes"] }, "ignore"},
		{"MISSING_PROBES", "tralala", true, nil, nil},
	} {
		m := &manifest.Manifest{}
		err := Environment(m, func(name string) string {
			if name == "BPFTRACE_"+c.key {
				return c.value
			}
			return ""
		})
		if bad := err != nil && strings.Contains(err.Error(), "BPFTRACE_"+c.key+": Invalid value for "+strings.ToLower(c.key)+". Found: "+c.value); bad != c.bad {
			t.Errorf("%s=%s: error = %v", c.key, c.value, err)
		}
		if !c.bad {
			if got := c.get(m); got != c.want {
				t.Errorf("%s=%s: got %v, want %v", c.key, c.value, got, c.want)
			}
		}
	}
	for _, c := range []struct{ script, attach, env, want string }{
		{"", "", "warn", "warn"}, {"", "ignore", "warn", "ignore"}, {"ignore", "ignore", "error", "error"},
	} {
		m := &manifest.Manifest{Programs: []manifest.Program{program(c.attach)}}
		if c.script != "" {
			m.Config.Other = map[string]string{"missing_probes": c.script}
		}
		if ok := missing(m, c.env); !ok || m.Programs[0].Attach.Missing != c.want {
			t.Errorf("%+v: ok = %t, missing_probes = %q", c, ok, m.Programs[0].Attach.Missing)
		}
	}
}

// TestMapsOfAttachPoints checks that maps with an entry per attach point are large enough.
func TestMapsOfAttachPoints(t *testing.T) {
	exp := &sites.Expansion{Plans: []resolve.Plan{{Matches: make([]resolve.Match, 2)}, {Matches: make([]resolve.Match, 3)}}, Probes: map[int]string{0: "a", 1: "b"}}
	o := &object.Object{Manifest: &manifest.Manifest{}, Spec: &ebpf.CollectionSpec{Maps: map[string]*ebpf.MapSpec{}}}
	if sizeNames(o, exp) != nil || sizeSpecs(o, exp) != nil {
		t.Error("error for an object without these maps")
	}
	for _, c := range []struct {
		name       string
		size       func(*object.Object, *sites.Expansion) error
		key, value uint32
		want       uint32 // number of entries; 0 for an error
	}{
		{namesMap, sizeNames, 4, 64, 2}, {namesMap, sizeNames, 4, 1, 2}, {namesMap, sizeNames, 4, maxNameBytes, 2},
		{namesMap, sizeNames, 4, maxNameBytes + 1, 0}, {namesMap, sizeNames, 4, 0, 0}, {namesMap, sizeNames, 8, 64, 0},
		{specsMap, sizeSpecs, 4, 192, 5}, {specsMap, sizeSpecs, 4, 191, 0}, {specsMap, sizeSpecs, 8, 192, 0},
	} {
		s := &ebpf.MapSpec{KeySize: c.key, ValueSize: c.value}
		o.Spec.Maps = map[string]*ebpf.MapSpec{c.name: s}
		if err := c.size(o, exp); (err != nil) != (c.want == 0) || err == nil && s.MaxEntries != c.want {
			t.Errorf("%s with keys of %d and values of %d: %d entries, %v; want %d", c.name, c.key, c.value, s.MaxEntries, err, c.want)
		}
	}
	o.Spec.Maps = map[string]*ebpf.MapSpec{namesMap: {KeySize: 4, ValueSize: 8}}
	if err := sizeNames(o, &sites.Expansion{}); err != nil || o.Spec.Maps[namesMap].MaxEntries != 1 {
		t.Errorf("map for no attach points: %d entries, %v", o.Spec.Maps[namesMap].MaxEntries, err)
	}
}

// TestStackTables checks that stack tables are halved until each takes at most 1/32 of the memory, but
// not below 4096 stacks, and that max_stacks is exact.
func TestStackTables(t *testing.T) {
	for _, x := range []struct {
		entries, set, want uint32
		memory             uint64
	}{
		{32768, 0, 32768, 8 << 30}, {32768, 0, 32768, 0}, {32768, 0, 8192, 512 << 20}, {32768, 0, 4096, 64 << 20},
		{4096, 0, 4096, 64 << 20}, {32768, 100, 100, 8 << 30}, {4096, 1 << 20, 1 << 20, 64 << 20},
	} {
		o := withVariables(nil)
		o.Manifest.Config.MaxStacks = int(x.set)
		o.Manifest.Maps = []manifest.Map{{Name: "kstack_127", Symbol: "kstack_127", Shape: "stack"}, {Name: "@", Symbol: "AT_", Shape: "count"}}
		o.Spec.Maps = map[string]*ebpf.MapSpec{
			"kstack_127": {Type: ebpf.Hash, KeySize: 8, ValueSize: 1016, MaxEntries: x.entries},
			"AT_":        {Type: ebpf.Hash, KeySize: 8, ValueSize: 1016, MaxEntries: 77},
		}
		sizeStacks(o, x.memory)
		if got := o.Spec.Maps["kstack_127"].MaxEntries; got != x.want || o.Spec.Maps["AT_"].MaxEntries != 77 {
			t.Errorf("%+v: %d", x, got)
		}
	}
}
