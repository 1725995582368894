// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestIntegerSyntax(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1234": 1234, "-10": -10, "0x1f": 31, "0xffffffffffffffff": -1, "1e6": 1e6, "5_000": 5000, "2s": 2e9, "3ms": 3e6,
		"10us": 10000, "7ns": 7, "1h": 3600e9, "010": 8, "-9223372036854775808": -1 << 63, "18446744073709551615": -1,
	} {
		if got, err := parseInt(text); err != nil || int64(got) != want {
			t.Errorf("parseInt(%s) = %d, %v, want %d", text, int64(got), err, want)
		}
	}
	for _, text := range []string{"", "-", "abc", "12abc", "--5", "+5", "1.5", "_1", "18446744073709551616", "-9223372036854775809", "1e20", "0x", "s"} {
		if got, err := parseInt(text); err == nil {
			t.Errorf("parseInt(%q) = %d, want an error", text, got)
		}
	}
}

func params() *Manifest {
	return &Manifest{Params: []Param{
		{Name: "$1", Type: "int", Global: "param_1", Size: 8},
		{Name: "$1", Type: "string", Global: "param_1_str", Size: 8},
		{Name: "$2", Type: "int", Global: "param_2", Size: 8},
		{Name: "$#", Type: "int", Global: "param_count", Size: 8},
		{Name: "aa", Type: "int", Global: "opt_aa", Size: 8, Default: "20"},
		{Name: "cc", Type: "bool", Global: "opt_cc", Size: 8, Default: "true"},
		{Name: "ee", Type: "string", Global: "opt_ee", Size: 16, Default: "hello"},
	}}
}

func TestParams(t *testing.T) {
	got, err := ParseParams(params(), []string{"42"}, map[string]string{"aa": "0xffffffffffffffff", "cc": "False"})
	if err != nil {
		t.Fatal(err)
	}
	u64 := func(v uint64) string { return string(binary.NativeEndian.AppendUint64(nil, v)) }
	for name, want := range map[string]string{
		"param_1": u64(42), "param_1_str": "42\x00\x00\x00\x00\x00\x00", "param_count": u64(1),
		"opt_aa": u64(1<<64 - 1), "opt_cc": u64(0), "opt_ee": "hello" + strings.Repeat("\x00", 11),
	} {
		if string(got[name]) != want {
			t.Errorf("parameter %s = %q, want %q", name, got[name], want)
		}
	}
	if _, ok := got["param_2"]; ok {
		t.Error("parameter set without a value")
	}
	for _, c := range []struct {
		given []string
		want  string
	}{{nil, "$1 $2"}, {[]string{"7"}, "$2"}, {[]string{"", "8"}, "$1"}, {[]string{"7", "8"}, ""}} {
		given, want := c.given, c.want
		var names []string
		for _, p := range MissingParams(params(), given) {
			names = append(names, p.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("with %q, missing = %q, want %q", given, got, want)
		}
	}
}

// An empty parameter is 0 where the script reads a number, as in bpftrace.
func TestEmptyParam(t *testing.T) {
	got, err := ParseParams(params(), []string{"", "7"}, nil)
	if _, set := got["param_1"]; err != nil || set || got["param_1_str"] == nil || len(got["param_2"]) != 8 {
		t.Errorf("ParseParams() = %q, %v, want no value for $1", got, err)
	}
}

// A string parameter that is not given compares with "" for ever, which a script that reads $# can know.
func TestMissingString(t *testing.T) {
	m := &Manifest{Params: []Param{{Name: "$1", Type: "string", Global: "param_1_str", Size: 8}}}
	if missing := MissingParams(m, nil); len(missing) != 1 {
		t.Errorf("of a string that is not given, %d are reported", len(missing))
	}
	if missing := MissingParams(m, []string{""}); missing != nil {
		t.Errorf("an empty string is reported: %v", missing)
	}
	m.Params = append(m.Params, Param{Name: "$#", Type: "int"})
	if missing := MissingParams(m, nil); missing != nil {
		t.Errorf("a string is reported although the script reads $#: %v", missing)
	}
}

func TestUnusedParams(t *testing.T) {
	m := params()
	m.Params = slices.DeleteFunc(m.Params, func(p Param) bool { return p.Name == "$#" })
	for _, c := range []struct {
		given []string
		want  string
	}{{nil, ""}, {[]string{"7", "8"}, ""}, {[]string{"7", "8", "9"}, "9"}, {[]string{"7", "8", "9", "x"}, "9 x"}} {
		if got := strings.Join(UnusedParams(m, c.given), " "); got != c.want {
			t.Errorf("with %q, unused = %q, want %q", c.given, got, c.want)
		}
	}
	if got := UnusedParams(&Manifest{Params: []Param{{Name: "$#", Type: "int"}}}, []string{"7"}); got != nil {
		t.Errorf("unused = %q although the script reads $#", got)
	}
	if got := UnusedParams(&Manifest{Given: &Given{Values: []string{"7"}}}, []string{"7"}); len(got) > 0 {
		t.Errorf("unused = %q of what was given to the compiler", got)
	}
}

func TestSplitParams(t *testing.T) {
	valued := func(name string) bool { return name == "limit" }
	for _, c := range []struct{ words, positional, named string }{
		{"a --limit 4 b", "a b", "limit=4"}, {"--limit=4 b", "b", "limit=4"}, {"--all b", "b", "all=true"}, {"--limit", "", "limit=true"},
		{"--limit --all", "", "all=true limit=true"}, {"--limit -4", "", "limit=-4"}, {"--all=no --x", "", "all=no x=true"},
	} {
		positional, named := SplitParams(strings.Fields(c.words), valued)
		var options []string
		for _, name := range slices.Sorted(maps.Keys(named)) {
			options = append(options, name+"="+named[name])
		}
		if p, o := strings.Join(positional, " "), strings.Join(options, " "); p != c.positional || o != c.named {
			t.Errorf("SplitParams(%s) = %q, %q, want %q, %q", c.words, p, o, c.positional, c.named)
		}
	}
}

func TestBadParams(t *testing.T) {
	for want, try := range map[string]func() error{
		`parameter $1: "x" is not a number`:                 func() error { _, err := ParseParams(params(), []string{"x"}, nil); return err },
		"parameter $1: string too long: 8 bytes":            func() error { _, err := ParseParams(params(), []string{"12345678"}, nil); return err },
		"options: --zz\nHINT: expected program options: --": func() error { _, err := ParseParams(params(), nil, map[string]string{"zz": "1"}); return err },
		"--aa invalid integer (value: False)":               func() error { _, err := ParseParams(params(), nil, map[string]string{"aa": "False"}); return err },
		"HINT: expected program options:\n    --":           func() error { _, err := ParseParams(params(), nil, map[string]string{"help": "true"}); return err },
		"--cc invalid boolean (value: maybe)":               func() error { _, err := ParseParams(params(), nil, map[string]string{"cc": "maybe"}); return err },
	} {
		if err := try(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want %q", err, want)
		}
	}
}

// TestNumber checks that a number has the size of its variable.
func TestNumber(t *testing.T) {
	for size, want := range map[int]int{1: 1, 4: 4, 8: 8, 16: 16} {
		b := Number(0x0102030405060708, size)
		if len(b) != want || b[0] != 8 || size > 8 && b[8] != 0 {
			t.Errorf("number of %d bytes = % x", size, b)
		}
	}
}

// TestGiven checks that parameters given at compile time apply unless others are given, except for
// those that the code was specialized for.
func TestGiven(t *testing.T) {
	given := func() *Manifest {
		return &Manifest{
			Given: &Given{Values: []string{"a", "b"}, Fixed: []int{2}, Options: map[string]string{"x": "1", "y": "2"}, FixedOptions: []string{"y"}},
		}
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
		{[]string{"a", "c"}, nil, nil, nil, `parameter $2 was compiled in as "b" and cannot be "c"`},
		{nil, map[string]string{"y": "3"}, nil, nil, `option --y was compiled in as "2" and cannot be "3"`},
	} {
		params, options, err := MergeParams(given(), c.positional, c.named)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v %v: error = %v, want %q", c.positional, c.named, err, c.err)
			}
			continue
		}
		if d := cmp.Diff(c.want, params) + cmp.Diff(c.options, options); err != nil || d != "" {
			t.Errorf("%v %v: %v %s", c.positional, c.named, err, d)
		}
	}
	params, options, err := MergeParams(&Manifest{}, []string{"a"}, map[string]string{"x": "1"})
	if d := cmp.Diff([]string{"a"}, params) + cmp.Diff(map[string]string{"x": "1"}, options); err != nil || d != "" {
		t.Errorf("no parameters given: %v %s", err, d)
	}
}

// TestParameterBytes checks the encoding of a string as each type of parameter.
func TestParameterBytes(t *testing.T) {
	for _, c := range []struct{ kind, name, text, want, err string }{
		{"int", "$1", "258", "\x02\x01\x00\x00", ""},
		{"int", "$1", "x", "", `parameter $1: "x" is not a number`},
		{"int", "n", "x", "", "program command line option --n invalid integer (value: x)"},
		{"sign", "$1", "-7", "\x01\x00\x00\x00", ""}, {"sign", "$1", "18446744073709551615", "\x00\x00\x00\x00", ""}, {"sign", "$1", "", "\x00\x00\x00\x00", ""},
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
		{"string", "$1", "abc", "abc\x00", ""}, {"string", "$1", "abcd", "", "string too long: 4 bytes (max 3)"},
	} {
		got, err := paramBytes(&Param{Name: c.name, Type: c.kind, Size: 4}, c.text)
		if string(got) != c.want || (err != nil) != (c.err != "") ||
			err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s %q = %q, %v; want %q, %q", c.kind, c.text, got, err, c.want, c.err)
		}
	}
}

// TestIntegerLimits checks that a number that does not fit in 64 bits is an error, in any notation.
func TestIntegerLimits(t *testing.T) {
	for text, want := range map[string]uint64{"1e19": 1e19, "1_0e1": 100, "0X1F": 31, "0x1d": 29, "0b11": 3, "2e1s": 20e9, "1m": 60e9, "2d": 2 * 86400e9, "18446744073709551s": 0} {
		got, err := parseInt(text)
		if want == 0 {
			if err == nil {
				t.Errorf("parseInt(%s) = %d, want an error", text, got)
			}
		} else if err != nil || got != want {
			t.Errorf("parseInt(%s) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"1e256", "2e19", "e5", "1e", "99999999999999999999e1", "1e-3"} {
		if got, err := parseInt(text); err == nil {
			t.Errorf("parseInt(%q) = %d, want an error", text, got)
		}
	}
}

// TestUnexpectedOptions checks that all unexpected options are named, in order, together with the
// existing ones.
func TestUnexpectedOptions(t *testing.T) {
	m := &Manifest{
		Params: []Param{
			{Name: "b", Type: "int", Size: 8, Help: "what b is"},
			{Name: "a", Type: "int", Size: 8},
			{Name: "$1", Type: "int", Size: 8},
		},
	}
	for want, named := range map[string]map[string]string{
		"unexpected program command line options: --y, --z\nHINT: expected program options: --a, --b": {"z": "1", "a": "1", "y": "1"},
		"HINT: expected program options:\n    --b: what b is\n    --a":                                {"help": "true"},
	} {
		if _, err := ParseParams(m, nil, named); err == nil || err.Error() != want {
			t.Errorf("error = %v, want %s", err, want)
		}
	}
	const none = "unexpected program command line options: --x\nHINT: no custom program options defined."
	if _, err := ParseParams(&Manifest{}, nil, map[string]string{"x": "1"}); err == nil || err.Error() != none {
		t.Errorf("error = %v, want %s", err, none)
	}
	if _, err := ParseParams(m, []string{"1", "2"}, map[string]string{"a": "1"}); err != nil {
		t.Error(err)
	}
	addr := &Manifest{Params: []Param{{Name: "$1", Type: "ipv4", Size: 4}}}
	if _, err := ParseParams(addr, nil, nil); err == nil {
		t.Error("no error for a missing address")
	}
}
