// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"btc/compile"
	"btc/frontend/check"
	"btc/frontend/debuginfo"
	"btc/frontend/diag"
	"btc/frontend/expand"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/targets/kernel"
	"btc/tests/docs/generated"
)

// TestLanguage compares the tables in docs/language.md with the tables of the checker, and with the
// result of compiling an example of each construct.
func TestLanguage(t *testing.T) {
	parts := map[string]string{
		"kinds":    kinds(),
		"builtins": functions("builtin"),
		"strings":  functions("string"),
		"mapcalls": functions("map"),
		"output":   functions("output"),
		"host":     functions("host"),
		"meta":     functions("meta"),
		"others":   otherFunctions(),
		"standard": standardMacros(),
		"config":   settings(t),
		"moved":    moved(),
	}
	for _, c := range constructs {
		var b strings.Builder
		b.WriteString("| what | supported |\n|---|---|\n")
		for _, row := range c.rows {
			b.WriteString(generated.Row(row.what, verdict(t, row)))
		}
		parts[c.section] = b.String()
	}
	generated.Check(t, "../../docs/language.md", parts, *update)
}

// TestLanguageLevel checks that the pages name the release of bpftrace that btc follows, and that this is
// the release that the tests compare with.
func TestLanguageLevel(t *testing.T) {
	for _, page := range []string{"docs/language.md", "docs/compatibility.md", "docs/manifest.md"} {
		data, err := os.ReadFile("../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(data), manifest.Language) {
			t.Errorf("%s: no mention of bpftrace %s", page, manifest.Language)
		}
	}
	version, err := os.ReadFile("../../build/oracle/version")
	if err != nil {
		t.Skip("skipped: no bpftrace to compare with: ", err)
	}
	if !strings.Contains(string(version), "bpftrace v"+manifest.Language+"\n") {
		t.Errorf("build/oracle has %q, but btc follows %s", version, manifest.Language)
	}
}

// verdict compiles an example. If it is rejected, the error must be that a feature is unsupported, or
// not available on all kernels; any other error is a mistake in the example.
func verdict(t *testing.T, c construct) string {
	tgt, err := kernel.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	in := compile.Input{Name: "x.bt", Text: c.script, Target: tgt, Verify: true}
	if strings.Contains(c.script, "main") { // an example that needs debug information
		in.Files = &debuginfo.Finder{Files: map[string]string{"/bin/sh": program(t)}}
	}
	out, diags := compile.Compile(in)
	if out != nil {
		return "yes"
	}
	for _, d := range diags.Sorted() {
		switch d.Code {
		case diag.NotSupported:
			return "no"
		case diag.CannotCompile:
			return "no: " + d.Message
		}
	}
	var b strings.Builder
	diag.Render(&b, diags, diag.RenderOptions{})
	t.Errorf("example of %s does not compile:\n%s", c.what, &b)
	return "?"
}

// program returns a program with debug information; main is in line 1 of main.c.
func program(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("skipped: examples with debug information: ", err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.c"), []byte("int main(int argc, char **argv) { return argc; }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("gcc", "-g", "-O0", "-o", "prog", "main.c")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return filepath.Join(dir, "prog")
}

func mark(supported bool) string {
	if supported {
		return "yes"
	}
	return "no"
}

func kinds() string {
	var b strings.Builder
	b.WriteString("| probe | short | supported |\n|---|---|---|\n")
	for _, t := range probe.Types() {
		short := ""
		if len(t.Aliases) > 0 {
			short = "`" + strings.Join(t.Aliases, "`, `") + "`"
		}
		b.WriteString(generated.Row("`"+t.Kind+"`", short, "yes"))
	}
	return b.String()
}

func functions(group string) string {
	var b strings.Builder
	b.WriteString("| name | arguments | probes | supported |\n|---|---|---|---|\n")
	for _, f := range check.Functions() {
		if f.Group != group {
			continue
		}
		name := f.Name
		if name == "arg" {
			name = "arg0, arg1, ..."
		}
		b.WriteString(generated.Row("`"+name+"`", arguments(f), probes(f), mark(f.Supported)))
	}
	return b.String()
}

func arguments(f check.FunctionInfo) string {
	var forms []string
	if f.Value {
		forms = append(forms, "none")
	}
	switch {
	case !f.Call:
	case f.Max >= 128:
		forms = append(forms, fmt.Sprintf("%d or more", f.Min))
	case f.Min == f.Max:
		forms = append(forms, fmt.Sprint(f.Min))
	case !f.Value || f.Max > max(f.Min, 1):
		forms = append(forms, fmt.Sprintf("%d to %d", f.Min, f.Max))
	default:
		forms = append(forms, fmt.Sprint(f.Max))
	}
	return strings.Join(forms, " or ")
}

// probes returns the probes in which a function may be called.
func probes(f check.FunctionInfo) string {
	if f.In == nil {
		return "all"
	}
	return strings.Join(f.In, " ")
}

// standardMacros returns a list of the standard macros.
func standardMacros() string {
	var b strings.Builder
	b.WriteString("| macro | what it does |\n|---|---|\n")
	for _, m := range expand.Standard() {
		b.WriteString(generated.Row("`"+m.Signature+"`", m.Doc))
	}
	return b.String()
}

// moved returns a list of the members whose path differs between kernels.
func moved() string {
	var b strings.Builder
	b.WriteString("| struct | paths of the member, oldest first |\n|---|---|\n")
	for _, s := range kernel.Spellings() {
		b.WriteString(generated.Row("`"+s.Tag+"`", "`"+strings.Join(s.Paths, "`, `")+"`"))
	}
	return b.String()
}

// otherFunctions returns a list of the unsupported functions.
func otherFunctions() string {
	var names []string
	for _, f := range check.Functions() {
		if f.Group == "other" && !f.Supported && f.Name != "args" { // args is a builtin with a way of its own
			names = append(names, "`"+f.Name+"`")
		}
	}
	return generated.Wrap(strings.Join(names, ", ") + ".")
}

// effects describe what each key of the config block does in btc.
var effects = map[string]string{
	"max_strlen":         "capacity of strings whose length is not known, NUL included; at most 32000",
	"max_map_keys":       "maximum number of elements of a keyed map, unless `let` declares it",
	"max_stacks":         "maximum number of different stacks of each kind and depth; 0: as many as [the maps may hold](layouts.md#memory-of-maps)",
	"max_bpf_progs":      "maximum number of programs of a script, at most 4096 whatever it says; more are an error of the compiler, or of btrun if patterns match more",
	"max_probes":         "maximum number of attach points of a run, with all matches of patterns",
	"missing_probes":     "what btrun does when an attach point does not exist on the host",
	"stack_mode":         "how stacks print, unless kstack(), ustack() or dw_ustack() sets the mode",
	"print_maps_on_exit": "print all maps at the end",
	"str_trunc_trailer":  "what is printed after a string that was cut off",
	"cpp_demangle":       "C++ symbols of processes are demangled",
	"perf_rb_pages":      "pages of the ring buffer; 0: [depends on the memory](layouts.md#events)",
	"license":            "license of the object",
	"max_cat_bytes":      "maximum number of bytes that cat() prints",

	"unstable_import_statement": "`import` inside a probe: an error, accepted with a warning, or accepted; at the top of a script it needs no setting",
	"unstable_tseries":          "`tseries()`: an error, accepted with a warning, or accepted",
	"unstable_dw_ustack":        "`dw_ustack`: an error, accepted with a warning, or accepted",
	"unstable_typeinfo":         "`typeinfo()`: an error, accepted with a warning, or accepted",
}

func settings(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| key | default | values | effect here |\n|---|---|---|---|\n")
	known := map[string]bool{}
	var noop []string
	for _, s := range check.Settings() {
		known[s.Name] = true
		if s.NoOp {
			noop = append(noop, "`"+s.Name+"`")
			continue
		}
		effect := effects[s.Name]
		if effect == "" {
			effect = "none: accepted, so that scripts compile"
		}
		b.WriteString(generated.Row("`"+s.Name+"`", s.Default, strings.Join(s.Values, ", "), effect))
	}
	for name := range effects {
		if !known[name] {
			t.Errorf("no setting called %s", name)
		}
	}
	old := check.Renamed()
	var renamed []string
	for _, name := range slices.Sorted(maps.Keys(old)) {
		renamed = append(renamed, fmt.Sprintf("`%s` (now `%s`)", name, old[name]))
	}
	return b.String() + "\n" + generated.Wrap(fmt.Sprintf("Old names are accepted with a warning: %s. Without effect, in bpftrace too: %s.",
		strings.Join(renamed, ", "), strings.Join(noop, ", ")))
}
