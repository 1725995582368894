package load

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"

	"btc/loader/attach"
	"btc/loader/host"
	"btc/loader/hostinfo"
	"btc/loader/manifest"
	"btc/loader/object"
)

// withVariables is an object whose variables have the sizes in bytes.
func withVariables(sizes map[string]int) *object.Object {
	o := &object.Object{Manifest: &manifest.Manifest{}, Spec: &ebpf.CollectionSpec{Variables: map[string]*ebpf.VariableSpec{}}}
	for name, size := range sizes {
		o.Spec.Variables[name] = &ebpf.VariableSpec{Name: name, Value: make([]byte, size), Type: &btf.Var{}}
	}
	return o
}

// words are the numbers that a variable of the object holds.
func words(o *object.Object, name string) (out []uint64) {
	for b := o.Spec.Variables[name].Value; len(b) >= 8; b = b[8:] {
		out = append(out, binary.NativeEndian.Uint64(b))
	}
	return out
}

// TestConstants: the facts of the host and the parameters are in the variables of their names.
func TestConstants(t *testing.T) {
	o := withVariables(map[string]int{"start_ns": 8, "pidns_dev": 8, "pidns_ino": 8, "ncpus": 8, "cpid": 8, "front_x": 8, "param_1": 8, "param_2": 8, "other": 8, "gen": 8})
	for name, section := range map[string]string{"start_ns": ".rodata", "pidns_dev": ".rodata", "pidns_ino": ".rodata", "ncpus": ".rodata",
		"cpid": ".rodata.x", "front_x": ".rodata", "other": ".rodata", "gen": ".bss"} {
		o.Manifest.Globals = append(o.Manifest.Globals, manifest.Global{Name: name, Section: section, Size: 8})
	}
	o.Manifest.Maps = []manifest.Map{{Front: &manifest.Front{}}, {}, {Front: &manifest.Front{Enable: "front_x"}}}
	o.Manifest.Params = []manifest.Param{{Global: "param_1"}, {Global: "param_2"}}
	h := &host.Host{Start: 77, PIDNS: hostinfo.Namespace{Dev: 5, Ino: 6}, Online: []int{0, 1, 3}}
	if err := setConstants(o, h, Options{ChildPID: 99, Values: map[string][]byte{"param_2": {1, 2, 3, 4, 5, 6, 7, 8}}}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]uint64{"start_ns": 77, "pidns_dev": 5, "pidns_ino": 6, "ncpus": 3, "cpid": 99, "front_x": 1,
		"param_1": 0, "param_2": binary.NativeEndian.Uint64([]byte{1, 2, 3, 4, 5, 6, 7, 8}), "other": 0, "gen": 0} {
		if got := words(o, name)[0]; got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
	for what, spoil := range map[string]func(*object.Object) Options{
		"start_ns does not take 4": func(o *object.Object) Options {
			o.Manifest.Globals = []manifest.Global{{Name: "start_ns", Section: ".rodata", Size: 4}}
			return Options{}
		},
		"start_ns does not take 8": func(o *object.Object) Options { delete(o.Spec.Variables, "start_ns"); return Options{} },
		"param_2 does not take 3":  func(*object.Object) Options { return Options{Values: map[string][]byte{"param_2": {1, 2, 3}}} },
	} {
		o := withVariables(map[string]int{"start_ns": 8, "param_2": 8})
		o.Manifest.Globals = []manifest.Global{{Name: "start_ns", Section: ".rodata", Size: 8}}
		o.Manifest.Params = []manifest.Param{{Global: "param_2"}}
		if err := setConstants(o, h, spoil(o)); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("error %v, want %q", err, what)
		}
	}
}

// TestNumber: a number has the size of its variable.
func TestNumber(t *testing.T) {
	for size, want := range map[int]int{1: 1, 4: 4, 8: 8, 16: 16} {
		b := number(0x0102030405060708, size)
		if len(b) != want || b[0] != 8 || size > 8 && b[8] != 0 {
			t.Errorf("in %d bytes: % x", size, b)
		}
	}
}

// TestGiven: parameters given when the script was compiled hold until others are given, but for
// those that the code was made for.
func TestGiven(t *testing.T) {
	given := func() *manifest.Manifest {
		return &manifest.Manifest{Given: &manifest.Given{Values: []string{"a", "b"}, Fixed: []int{2}, Options: map[string]string{"x": "1", "y": "2"}, FixedOptions: []string{"y"}}}
	}
	for _, c := range []struct {
		positional []string
		named      map[string]string
		want       []string
		options    map[string]string
		err        string
	}{
		{nil, nil, []string{"a", "b"}, map[string]string{"x": "1"}, ""},
		{[]string{"c"}, nil, []string{"c", "b"}, map[string]string{"x": "1"}, ""},
		{[]string{"c", "b", "d"}, nil, []string{"c", "b", "d"}, map[string]string{"x": "1"}, ""},
		{nil, map[string]string{"x": "3", "z": "4"}, []string{"a", "b"}, map[string]string{"x": "3", "z": "4"}, ""},
		{nil, map[string]string{"y": "2"}, []string{"a", "b"}, map[string]string{"x": "1"}, ""},
		{[]string{"a", "c"}, nil, nil, nil, `parameter $2 is "b" since the script was compiled; it cannot be "c" now`},
		{nil, map[string]string{"y": "3"}, nil, nil, `option --y is "2" since the script was compiled; it cannot be "3" now`},
	} {
		params, options, err := WithGiven(given(), c.positional, c.named)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v %v: error %v, want %q", c.positional, c.named, err, c.err)
			}
			continue
		}
		if d := cmp.Diff(c.want, params) + cmp.Diff(c.options, options); err != nil || d != "" {
			t.Errorf("%v %v: %v %s", c.positional, c.named, err, d)
		}
	}
	params, options, err := WithGiven(&manifest.Manifest{}, []string{"a"}, map[string]string{"x": "1"})
	if d := cmp.Diff([]string{"a"}, params) + cmp.Diff(map[string]string{"x": "1"}, options); err != nil || d != "" {
		t.Errorf("none given: %v %s", err, d)
	}
}

// TestParameterBytes holds what each type of a parameter makes of a text.
func TestParameterBytes(t *testing.T) {
	for _, c := range []struct{ kind, name, text, want, err string }{
		{"int", "$1", "258", "\x02\x01\x00\x00", ""},
		{"int", "$1", "x", "", `parameter $1: "x" is not a number`},
		{"int", "n", "x", "", "program command line option --n invalid integer (value: x)"},
		{"ipv4", "$1", "1.2.3.255", "\x01\x02\x03\xff", ""},
		{"ipv4", "$1", "1.2.3", "", `"1.2.3" is not an IPv4 address`},
		{"ipv4", "$1", "1.2.3.4.5", "", "is not an IPv4 address"},
		{"ipv4", "$1", "1.2.3.256", "", "is not an IPv4 address"},
		{"ipv4", "$1", "1.2.3.04", "", "is not an IPv4 address"},
		{"ipv4", "$1", "1.2.3.+4", "", "is not an IPv4 address"},
		{"bool", "b", "true", "\x01\x00\x00\x00", ""}, {"bool", "b", "1", "\x01\x00\x00\x00", ""}, {"bool", "b", "ON", "\x01\x00\x00\x00", ""},
		{"bool", "b", "yes", "\x01\x00\x00\x00", ""}, {"bool", "b", "", "\x01\x00\x00\x00", ""},
		{"bool", "b", "false", "\x00\x00\x00\x00", ""}, {"bool", "b", "0", "\x00\x00\x00\x00", ""}, {"bool", "b", "Off", "\x00\x00\x00\x00", ""},
		{"bool", "b", "no", "\x00\x00\x00\x00", ""}, {"bool", "b", "2", "", "invalid boolean"},
		{"string", "$1", "abc", "abc\x00", ""}, {"string", "$1", "abcd", "", "4 bytes of text are more than the 3 it may have"},
	} {
		got, err := paramBytes(&manifest.Param{Name: c.name, Type: c.kind, Size: 4}, c.text)
		if string(got) != c.want || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s %q: %q, %v; want %q, %q", c.kind, c.text, got, err, c.want, c.err)
		}
	}
}

// TestIntegerLimits: what is larger than 64 bits is no integer, in any notation.
func TestIntegerLimits(t *testing.T) {
	for text, want := range map[string]uint64{"1e19": 1e19, "1_0e1": 100, "0X1F": 31, "0x1d": 29, "0b11": 3, "2e1s": 20e9, "1m": 60e9, "2d": 2 * 86400e9, "18446744073709551s": 0} {
		got, err := parseInt(text)
		if want == 0 {
			if err == nil {
				t.Errorf("%s is %d", text, got)
			}
		} else if err != nil || got != want {
			t.Errorf("%s is %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"1e256", "2e19", "e5", "1e", "99999999999999999999e1", "1e-3"} {
		if got, err := parseInt(text); err == nil {
			t.Errorf("%q was taken for %d", text, got)
		}
	}
}

// TestUnexpectedOptions: all wrong options are named, and those that there are, in order.
func TestUnexpectedOptions(t *testing.T) {
	m := &manifest.Manifest{Params: []manifest.Param{{Name: "b", Type: "int", Size: 8, Help: "what b is"}, {Name: "a", Type: "int", Size: 8}, {Name: "$1", Type: "int", Size: 8}}}
	for want, named := range map[string]map[string]string{
		"unexpected program command line options: --y, --z\nHINT: expected program options: --a, --b": {"z": "1", "a": "1", "y": "1"},
		"HINT: expected program options:\n    --b: what b is\n    --a":                                {"help": "true"},
	} {
		if _, err := ParseParams(m, nil, named); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	if _, err := ParseParams(m, []string{"1", "2"}, map[string]string{"a": "1"}); err != nil {
		t.Error(err)
	}
	addr := &manifest.Manifest{Params: []manifest.Param{{Name: "$1", Type: "ipv4", Size: 4}}}
	if _, err := ParseParams(addr, nil, nil); err == nil {
		t.Error("an address that is not given was accepted")
	}
}

// TestEnvironment: settings in the environment count more than the script's.
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
			t.Errorf("%s=%s: error %v", c.key, c.value, err)
		}
		if !c.bad {
			if got := c.get(m); got != c.want {
				t.Errorf("%s=%s: %v, want %v", c.key, c.value, got, c.want)
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
			t.Errorf("%+v: %t, %q", c, ok, m.Programs[0].Attach.Missing)
		}
	}
}

// TestMapsOfAttachPoints: maps that hold something for each attach point have room for all.
func TestMapsOfAttachPoints(t *testing.T) {
	exp := &attach.Expansion{Plans: []attach.Plan{{Matches: make([]attach.Match, 2)}, {Matches: make([]attach.Match, 3)}}, Probes: map[int]string{0: "a", 1: "b"}}
	o := &object.Object{Spec: &ebpf.CollectionSpec{Maps: map[string]*ebpf.MapSpec{}}}
	if sizeNames(o, exp) != nil || sizeSpecs(o, exp) != nil {
		t.Error("an object without these maps is an error")
	}
	for _, c := range []struct {
		name       string
		size       func(*object.Object, *attach.Expansion) error
		key, value uint32
		want       uint32 // entries, 0: an error
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
	if err := sizeNames(o, &attach.Expansion{}); err != nil || o.Spec.Maps[namesMap].MaxEntries != 1 {
		t.Errorf("a map of no attach points has %d entries, %v", o.Spec.Maps[namesMap].MaxEntries, err)
	}
}
