// SPDX-License-Identifier: Apache-2.0

// Package arch holds the tests of the project's own structure: which package
// may import which.
package arch

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"btc/tests/stripped"
)

// allowed is the table of permitted imports: for each package (or "directory/..." for all below it)
// the packages of this module that it may import. A package that is not listed must not exist. cmd
// and tests may import everything and are omitted.
var allowed = map[string][]string{
	"grammar":        {},
	"grammar/parser": {},

	"frontend/diag":      {},
	"frontend/cpp":       {"frontend/diag", "internal/safefile"},
	"frontend/ast":       {"frontend/diag", "frontend/cpp"},
	"frontend/parse":     {"grammar/parser", "frontend/ast", "frontend/diag"},
	"frontend/expand":    {"frontend/ast", "frontend/cpp", "frontend/diag", "frontend/parse"},
	"frontend/types":     {"ir", "targets/kernel"},
	"frontend/cdef":      {"frontend/cpp", "frontend/types", "frontend/diag", "targets/kernel"},
	"frontend/debuginfo": {"frontend/types", "internal/safefile", "internal/elffile"},
	"frontend/check":     {"frontend/debuginfo", "frontend/ast", "frontend/cpp", "frontend/types", "frontend/cdef", "frontend/diag", "frontend/parse", "ir", "targets/kernel", "internal/manifest"},
	"frontend/irgen":     {"frontend/ast", "frontend/types", "frontend/check", "frontend/diag", "ir", "targets/kernel", "internal/manifest"},

	"ir":             {"targets/kernel", "internal/manifest"},
	"targets/kernel": {"internal/kernelfs", "targets/targetfile", "internal/safefile"},
	"ir/interp":      {"internal/manifest", "ir", "targets/kernel"},
	"passes":         {"ir", "targets/kernel", "internal/manifest"},

	"backend/mach":     {"ir", "targets/kernel"},
	"backend/isel":     {"ir", "targets/kernel", "backend/mach"},
	"backend/regalloc": {"ir", "targets/kernel", "backend/mach", "backend/isel"},
	"backend/emit":     {"ir", "targets/kernel", "backend/mach", "backend/isel", "backend/regalloc"},
	"backend/obj":      {"ir", "targets/kernel", "backend/emit", "internal/objfile"},
	"backend/manifest": {"ir", "targets/kernel", "backend/emit", "internal/manifest"},

	"internal/bundle":   {},
	"internal/objfile":  {},
	"internal/safefile": {},
	"internal/quit":     {},
	"internal/color":    {"internal/option"},
	"internal/option":   {},

	"compile": {"frontend/...", "ir", "targets/kernel", "passes", "backend/...", "internal/manifest", "internal/objfile", "internal/safefile"},

	"btrace":   {"loader/...", "internal/kernelfs", "internal/manifest"},
	"manifest": {"internal/manifest"},

	"btrace/promcollector": {"btrace"}, // btrun does not link it: TestLoaderStandsAlone

	"internal/manifest":       {},
	"fleet/merge":             {"internal/manifest", "loader/format", "loader/output", "loader/render"},
	"report/flamegraph":       {},
	"fleet/fan":               {"internal/manifest", "fleet/merge"},
	"report/live":             {"report/page"},
	"report/document":         {},
	"report/page":             {"report/document"},
	"report/stages":           {"report/document"},
	"report/perfetto":         {},
	"fleet/replay":            {"frontend/ast", "frontend/check", "frontend/diag", "frontend/expand", "frontend/parse", "internal/blocks", "internal/manifest", "fleet/merge", "loader/format", "loader/history", "loader/metrics", "loader/output", "loader/render", "report/page", "report/perfetto"},
	"fleet/symbolize":         {"fleet/merge", "internal/elffile", "internal/manifest", "loader/format", "loader/output"},
	"internal/elffile":        {"internal/safefile"},
	"internal/unwind/ehframe": {"internal/elffile"},
	"internal/kernelfs":       {"internal/manifest"},
	"targets/targetfile":      {"internal/kernelfs"},
	"targets/capture":         {"internal/manifest", "internal/kernelfs", "targets/targetfile"},
	"loader/options":          {"internal/color", "internal/option", "loader/output", "loader/permit"},
	"loader/sites":            {"internal/elffile", "internal/kernelfs", "internal/manifest", "internal/safefile", "loader/adapt", "loader/diag", "loader/host", "loader/kerneltypes", "loader/permit", "loader/resolve", "loader/rewrite", "loader/symbols"},
	"loader/attach":           {"internal/kernelfs", "internal/manifest", "internal/safefile", "loader/adapt", "loader/diag", "loader/host", "loader/resolve"},
	"loader/run/budget":       {"internal/manifest", "loader/host", "loader/output", "loader/policy"},
	"loader/run/child":        {"internal/safefile"},
	"loader/history":          {"internal/blocks", "internal/manifest", "loader/format", "loader/render"},
	"loader/run/tty":          {"internal/blocks"},
	"internal/blocks":         {},
	"loader/...":              {"loader/...", "internal/blocks", "internal/elffile", "internal/unwind/ehframe", "internal/kernelfs", "internal/manifest", "internal/objfile", "internal/safefile"},
}

// leaves import nothing from this module, and every package may import them.
var leaves = []string{"internal/aggregate", "internal/arch", "internal/probe", "internal/profile", "internal/signature", "internal/snippet", "internal/spell", "internal/unwind", "internal/xz"}

// rule finds the row for a package: its own, else the longest "directory/..." row.
func rule(pkg string) ([]string, bool) {
	if r, ok := allowed[pkg]; ok {
		return r, true
	}
	for dir := pkg; ; {
		i := strings.LastIndexByte(dir, '/')
		if i < 0 {
			return nil, false
		}
		dir = dir[:i]
		if r, ok := allowed[dir+"/..."]; ok {
			return r, true
		}
	}
}

func matches(rules []string, imp string) bool {
	for _, r := range rules {
		if dir, all := strings.CutSuffix(r, "..."); all && strings.HasPrefix(imp, dir) || r == imp {
			return true
		}
	}
	return false
}

// TestImports checks the module's imports against the table.
func TestImports(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, "btc/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	n := 0
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		pkg := strings.TrimPrefix(words[0], "btc/")
		top, _, _ := strings.Cut(pkg, "/")
		if top == "cmd" || top == "tests" || top == "tools" || top == "examples" {
			continue
		}
		n++
		rules, ok := rule(pkg)
		if slices.Contains(leaves, pkg) {
			rules, ok = nil, true
		} else {
			rules = append(slices.Clone(rules), leaves...)
		}
		if !ok {
			t.Errorf("%s: no row in the table of imports", pkg)
			continue
		}
		for _, w := range words[1:] {
			if imp, ours := strings.CutPrefix(w, "btc/"); ours && !matches(rules, imp) {
				t.Errorf("%s imports %s, which is not in its row", pkg, imp)
			}
		}
	}
	if n == 0 {
		t.Fatal("go list printed no packages")
	}
}

// TestLoaderUsesLibrary checks that btrun is a program on package btrace: it runs objects only through it.
func TestLoaderUsesLibrary(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{join .Imports " "}}`, "btc/cmd/btrun/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	imports := strings.Fields(string(out))
	if !slices.Contains(imports, "btc/btrace") {
		t.Error("btrun does not import btrace")
	}
	for _, engine := range []string{"btc/loader/run", "btc/loader/load", "btc/loader/ring"} {
		if slices.Contains(imports, engine) {
			t.Errorf("btrun imports %s: objects are run by btrace", engine)
		}
	}
}

// TestNoInline checks that each pattern of tools/noinline.txt matches a package of btrun, and that none matches what
// handles events and reads maps.
func TestNoInline(t *testing.T) {
	patterns, err := stripped.NoInline()
	if err != nil || len(patterns) < 3 {
		t.Fatalf("%q, %v", patterns, err)
	}
	list := func(args ...string) []string {
		t.Helper()
		cmd := exec.Command("go", append([]string{"list"}, args...)...)
		cmd.Dir = "../.."
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list %q: %v", args, err)
		}
		return strings.Fields(string(out))
	}
	linked := list("-deps", "./cmd/btrun")
	var cold []string
	for _, p := range patterns {
		matched := list(p)
		if !slices.ContainsFunc(matched, func(pkg string) bool { return slices.Contains(linked, pkg) }) {
			t.Errorf("%s: no package of btrun", p)
		}
		cold = append(cold, matched...)
	}
	for _, hot := range []string{
		"btc/loader/ring", "btc/loader/format", "btc/loader/output", "btc/loader/render",
		"btc/loader/bpfmap", "btc/loader/run", "btc/loader/symbols", "encoding/binary", "strconv",
	} {
		if !slices.Contains(linked, hot) {
			t.Errorf("btrun does not contain %s", hot)
		}
		if slices.Contains(cold, hot) {
			t.Errorf("%s is hot, and must be inlined", hot)
		}
	}
}

// TestLoaderStandsAlone checks that the loader's program does not contain any part of the compiler.
func TestLoaderStandsAlone(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "btc/cmd/btrun").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for pkg := range strings.Lines(string(out)) {
		pkg = strings.TrimSpace(pkg)
		ours, ok := strings.CutPrefix(pkg, "btc/")
		if ok && !strings.HasPrefix(ours, "loader/") && !strings.HasPrefix(ours, "internal/") &&
			!slices.Contains([]string{"btrace", "cmd/btrun", "cmd/btrun/command"}, ours) {
			t.Errorf("btrun depends on %s", pkg)
		}
		for _, heavy := range []string{"net/http", "text/template", "github.com/antlr4-go", "github.com/klauspost", "github.com/prometheus"} {
			if strings.HasPrefix(pkg, heavy) {
				t.Errorf("btrun depends on %s, which costs megabytes", pkg)
			}
		}
	}
}
