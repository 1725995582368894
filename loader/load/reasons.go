// SPDX-License-Identifier: Apache-2.0

package load

import (
	"fmt"
	"strconv"
	"strings"

	"btc/internal/manifest"
)

// A cause is a reason in the script or the host for which the kernel refuses a program: the
// line of the verifier's log that shows it, and its meaning.
type cause struct {
	line string // prefix of the line, or of several lines; * matches anything
	// text is in the script's terms; it contains the strings that * matched.
	text func(p *manifest.Program, found []string) string
	hint string
}

const (
	kprobeMayDo  = "use a kprobe instead"
	entryInstead = "fentry:FUNCTION runs at its entry"
)

// causes are searched in all lines of the log, starting with the last.
var causes = []cause{
	{"func '*' doesn't have *-th argument\ninvalid bpf_context access off=* size", noArgument,
		"the event has other arguments here than the script reads; compile with btc compile --target host to see it at compile time"},
	{"The function * has * arguments. Too many", func(_ *manifest.Program, f []string) string {
		return fmt.Sprintf("this kernel cannot enter %s with fentry or fexit: it has %s arguments", f[0], f[1])
	}, kprobeMayDo},
	{"The function * return type * is unsupported", unsupportedType, kprobeMayDo},
	{"The function * arg* type * is unsupported", unsupportedType, kprobeMayDo},
	{"Attaching tracing programs to function '*' is rejected", func(_ *manifest.Program, f []string) string {
		return "this kernel does not let the function " + f[0] + " be traced"
	}, "use a kprobe, or probe another function"},
	{"Attaching fexit* to __noreturn function '*' is rejected", func(_ *manifest.Program, f []string) string {
		return f[1] + " never returns, so this kernel does not let its return be traced"
	}, entryInstead},
	{"Attaching fexit* to __noreturn functions is rejected", func(p *manifest.Program, _ []string) string { // 6.12
		return p.Attach.Name + " never returns, so this kernel does not let its return be traced"
	}, entryInstead},
	{"The function * with variable args is unsupported", func(_ *manifest.Program, f []string) string {
		return "this kernel cannot enter " + f[0] + " with fentry or fexit: it is variadic"
	}, kprobeMayDo},
	{"The address of function * cannot be found", func(_ *manifest.Program, f []string) string {
		return "this kernel has types of the function " + f[0] + " but not the function itself: it is inlined everywhere"
	}, "probe a function that calls it"},
	{"unknown func bpf_override_return", noOverride, noOverrideHint}, // before 6.10
	{"program of this type cannot use helper bpf_override_return", noOverride, noOverrideHint},
	{"helper call is not allowed in probe", func(p *manifest.Program, _ []string) string { // bpf_d_path
		return "this kernel does not permit path() in " + p.Attach.Text
	}, "path() works in iterators, and in fentry and fexit of a few functions, such as filp_close and security_file_open"},
	{"calling kernel function * is not allowed", func(p *manifest.Program, f []string) string {
		return fmt.Sprintf("this kernel does not let a %s call its function %s", p.Kind, f[0])
	}, "use kfunc_allowed() to test for it"},
}

const noOverrideHint = "override() needs a kernel with CONFIG_BPF_KPROBE_OVERRIDE"

func noOverride(*manifest.Program, []string) string { return "this kernel has no override()" }

func unsupportedType(_ *manifest.Program, f []string) string {
	return fmt.Sprintf("this kernel cannot enter %s with fentry or fexit: it passes a %s", f[0], f[len(f)-1])
}

// noArgument takes the number from the offset of the access: the number in the first line is that of the argument only
// on kernels before 6.1 (get_ctx_arg_idx).
func noArgument(p *manifest.Program, f []string) string {
	offset, _ := strconv.Atoi(f[2])
	return fmt.Sprintf("%s has no arg%d on this kernel", p.Attach.Text, offset/8)
}

// causeOf finds the cause that a log names.
func causeOf(p *manifest.Program, log []string) (text, hint string, ok bool) {
	for i := len(log) - 1; i >= 0; i-- {
		for _, c := range causes {
			lines := log[i:min(len(log), i+1+strings.Count(c.line, "\n"))]
			if found, ok := match(c.line, strings.TrimSpace(strings.Join(lines, "\n"))); ok {
				return c.text(p, found), c.hint, true
			}
		}
	}
	return "", "", false
}

// match reports whether lines begin with a form, and what each * matched.
func match(form, line string) (found []string, ok bool) {
	head, rest, more := strings.Cut(form, "*")
	line, ok = strings.CutPrefix(line, head)
	for ok && more {
		var part, text string
		part, rest, more = strings.Cut(rest, "*")
		text, line, ok = strings.Cut(line, part)
		found = append(found, text)
	}
	return found, ok
}
