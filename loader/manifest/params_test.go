package manifest

import (
	"encoding/binary"
	"strings"
	"testing"
)

func TestIntegerSyntax(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1234": 1234, "-10": -10, "0x1f": 31, "0xffffffffffffffff": -1, "1e6": 1e6, "5_000": 5000, "2s": 2e9, "3ms": 3e6,
		"10us": 10000, "7ns": 7, "1h": 3600e9, "010": 8, "-9223372036854775808": -1 << 63, "18446744073709551615": -1,
	} {
		if got, err := parseInt(text); err != nil || int64(got) != want {
			t.Errorf("%s: got %d, %v, want %d", text, int64(got), err, want)
		}
	}
	for _, text := range []string{"", "-", "abc", "12abc", "--5", "+5", "1.5", "_1", "18446744073709551616", "-9223372036854775809", "1e20", "0x", "s"} {
		if got, err := parseInt(text); err == nil {
			t.Errorf("%q was taken for %d", text, got)
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
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
	if _, ok := got["param_2"]; ok {
		t.Error("a parameter that was not given was set")
	}
	for n, want := range []string{"$1 $2", "$2", ""} {
		var names []string
		for _, p := range NotGiven(params(), make([]string, n)) {
			names = append(names, p.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("of %d parameters %q are missing, want %q", n, got, want)
		}
	}
}

func TestBadParams(t *testing.T) {
	for want, try := range map[string]func() error{
		`parameter $1: "x" is not a number`:                 func() error { _, err := ParseParams(params(), []string{"x"}, nil); return err },
		"parameter $1: 8 bytes of text":                     func() error { _, err := ParseParams(params(), []string{"12345678"}, nil); return err },
		"options: --zz\nHINT: expected program options: --": func() error { _, err := ParseParams(params(), nil, map[string]string{"zz": "1"}); return err },
		"--aa invalid integer (value: False)":               func() error { _, err := ParseParams(params(), nil, map[string]string{"aa": "False"}); return err },
		"HINT: expected program options:\n    --":           func() error { _, err := ParseParams(params(), nil, map[string]string{"help": "true"}); return err },
		"--cc invalid boolean (value: maybe)":               func() error { _, err := ParseParams(params(), nil, map[string]string{"cc": "maybe"}); return err },
	} {
		if err := try(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
