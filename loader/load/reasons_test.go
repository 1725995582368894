// SPDX-License-Identifier: Apache-2.0

package load

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"btc/internal/manifest"
)

// TestCausesInTheLog checks that errors caused by the script or the host are not reported as compiler
// bugs.
func TestCausesInTheLog(t *testing.T) {
	m := &manifest.Manifest{Script: manifest.Script{File: "x.bt", Source: "rawtracepoint:e { print(arg1); }\n"}, Target: "6.12"}
	for _, c := range []struct {
		kind, text, line, want string
	}{
		{"rawtracepoint", "rawtracepoint:e", "func 'e' doesn't have 2-th argument", "rawtracepoint:e has no arg1 on this kernel\n"},
		{"rawtracepoint", "rawtracepoint:e", "func 'e' doesn't have 7-th argument", "rawtracepoint:e has no arg1 on this kernel\n"}, // 6.1 counts in another way
		{"fentry", "fentry:f", "The function f has 13 arguments. Too many.", "this kernel cannot enter f with fentry or fexit: it has 13 arguments\n"},
		{"fentry", "fentry:f", "The function f arg3 type STRUCT is unsupported.", "this kernel cannot enter f with fentry or fexit: it passes a STRUCT\n"},
		{"fexit", "fexit:f", "The function f return type UNION is unsupported.", "this kernel cannot enter f with fentry or fexit: it passes a UNION\n"},
		{"fentry", "fentry:f", "Attaching tracing programs to function 'f' is rejected.", "this kernel does not let the function f be traced\n"},
		{"fexit", "fexit:do_exit", "Attaching fexit/fmod_ret to __noreturn function 'do_exit' is rejected.", "do_exit never returns"},
		{"fexit", "fexit:do_exit", "Attaching fexit/fmod_ret to __noreturn functions is rejected.", "do_exit never returns"},
		{"fentry", "fentry:f", "The function f with variable args is unsupported.", "it is variadic\n"},
		{"fentry", "fentry:f", "The address of function f cannot be found", "it is inlined everywhere"},
		{"kprobe", "kprobe:f", "unknown func bpf_override_return#58", "this kernel has no override()\n"},
		{"kprobe", "kprobe:f", "program of this type cannot use helper bpf_override_return#58", "this kernel has no override()\n"},
		{"fentry", "fentry:f", "helper call is not allowed in probe", "this kernel does not permit path() in fentry:f\n"},
		{"kprobe", "kprobe:f", "calling kernel function bpf_x is not allowed", "this kernel does not let a kprobe call its function bpf_x\n"},
	} {
		p := &manifest.Program{Name: "p", Kind: c.kind, Attach: manifest.Attach{Text: c.text, Name: strings.TrimPrefix(c.text, c.kind+":")}, Pos: manifest.Pos{Line: 1, Col: 1}}
		log := []string{"0: R1=ctx() R10=fp0", "0: (79) r1 = *(u64 *)(r1 +8)", c.line, "invalid bpf_context access off=8 size=8", "processed 1 insns (limit 1000000)"}
		got := refusal(m, p, nil, 0, &ebpf.VerifierError{Cause: errFor("permission denied"), Log: log}, nil).Error()
		if !strings.Contains(got, c.want) || strings.Contains(got, "compiler, unless") {
			t.Errorf("%s: got\n%s", c.line, got)
		}
	}
}
