// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"btc/targets/kernel"
)

// TestParamsInObject checks that every loader sees the parameters given at compile time, and the
// defaults of the script.
func TestParamsInObject(t *testing.T) {
	target, err := kernel.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	out, diags := Compile(Input{Name: "params.bt", Target: target, Params: []string{"7", "seven"}, Suffix: "x",
		Text: `begin { printf("%d %s %s %d %d %d", $1, str($2), str($3), $3, $#, getopt("n", 12)); }`})
	if out == nil {
		t.Fatal(diags.Err())
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(out.Object))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"param_1": "\a", "param_2_str": "seven", "param_3_str": "", "param_3": "", "param_count": "\x02", "opt_n": "\f"} {
		v := spec.Variables[name+"_x"]
		if v == nil {
			t.Errorf("variable %s not found", name)
		} else if got := strings.TrimRight(string(v.Value), "\x00"); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
}
