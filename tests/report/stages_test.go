// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"btc/compile"
	"btc/report/stages"
	"btc/targets/kernel"
	"btc/tests/tier"
)

// openStages opens the page of the stages of a script.
func openStages(t *testing.T, source string, k *stages.Kernel) *tab {
	t.Helper()
	target, err := kernel.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	s := &stages.Stages{File: "s.bt", Source: source, Kernel: k, Doc: func(string) string { return "" }}
	if out, diags := compile.Compile(compile.Input{Name: "s.bt", Text: source, Target: target, Dump: s.Add, Positions: true}); out == nil {
		t.Fatalf("%+v", diags)
	}
	file := filepath.Join(t.TempDir(), "s.html")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := s.Write(f); err != nil {
		t.Fatal(err)
	}
	return browse(t, findBrowser(t), "file://"+file, "file://"+file)
}

// TestStagesColumns checks that the parts of a line of the script begin where code comes from, also after characters that are escaped.
func TestStagesColumns(t *testing.T) {
	tier.Real.Need(t, "starts a browser")
	x := openStages(t, "begin { @a[\"\u202e\x7f→\"] = 1; @b = count(); }\n", nil)
	x.expect("[aria-label=Script]", `\u202e\x7f→`)
	for _, want := range []string{"count(); }", "@b = "} {
		if got := x.eval(fmt.Sprintf(`Array.from(document.querySelectorAll("[aria-label=Script] span[data-keys]"), (e) => e.textContent).some((s) => s.startsWith(%q))`, want)); got != "true" {
			t.Errorf("no part of the script begins with %q: %s", want, x.eval(`Array.from(document.querySelectorAll("[aria-label=Script] span[data-keys]"), (e) => e.textContent).join("|")`))
		}
	}
}

// TestStages looks at what the passes make of a script, with the pointer and with the keyboard.
func TestStages(t *testing.T) {
	tier.Real.Need(t, "starts a browser")
	k := &stages.Kernel{Programs: []stages.Program{{Name: "prog", Facts: "7 runs in 1s of 90ns each", Lines: []stages.Line{{Text: "   0: (b7) r0 = 0", Line: 1, Col: 54}}}}}
	x := openStages(t, "tracepoint:syscalls:sys_enter_read /args.count > 9/ { @[comm] = count(); }\n// <script>window.evil = 1</script>\n", k)
	x.expect("h1", "Stages of s.bt")
	x.expect("#stages", "input", "lower-aggregations", "isel", "regalloc", "BPF instructions", "call bpf_get_current_comm#16", "7 runs in 1s of 90ns each", "<script>window.evil = 1</script>")
	x.axe()

	// Pointing at count() marks what it became.
	x.eval(`Array.from(document.querySelectorAll("[aria-label=Script] [data-keys]")).find((e) => e.textContent.startsWith("count()")).dispatchEvent(new MouseEvent("mouseover", {bubbles: true}))`)
	x.expect(".says", "of the script", "line", "BPF instructions")
	if got := x.eval(`Array.from(document.querySelectorAll("[aria-label='BPF instructions'] .on")).some((e) => e.textContent.includes("map_lookup_elem"))`); got != "true" {
		t.Error("the lookup of count() is not marked")
	}
	if got := x.eval(`Array.from(document.querySelectorAll("[aria-label='BPF instructions'] .on")).some((e) => e.textContent.includes("get_current_comm"))`); got != "false" {
		t.Error("count() marks what comes from comm")
	}

	// A pass, with what it changed.
	x.eval(`Array.from(document.querySelectorAll("nav li button")).find((b) => b.textContent.startsWith("lower-aggregations")).click()`)
	if got := x.eval(`Array.from(document.querySelectorAll("[aria-label='Intermediate code'] .minus")).some((e) => e.textContent.includes("count @, s0+0"))`); got != "true" {
		t.Error("the pass does not remove count")
	}
	x.expect("[aria-label='Intermediate code']", "map_lookup_elem")
	x.eval(`Array.from(document.querySelectorAll("nav button")).find((b) => b.textContent === "Only changes").click()`)
	x.expect("[aria-label='Intermediate code'] .gap", "lines that did not change")
	rows := `[...document.querySelectorAll("[aria-label='Intermediate code'] .row")]`
	if got := x.eval(rows + `.filter((e) => e.classList.contains("plus")).length > 20 && ` + rows + `.filter((e) => e.classList.contains("minus")).length < 10`); got != "true" {
		t.Errorf("the difference is not small: %s", x.text("[aria-label='Intermediate code']"))
	}

	// The keyboard.
	x.eval(`document.querySelector("[aria-label='BPF instructions']").focus()`)
	for range 3 {
		x.eval(`document.querySelector("[aria-label='BPF instructions']").dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowDown", bubbles: true}))`)
	}
	if got := x.eval(`document.querySelector("[aria-label='BPF instructions'] [aria-selected=true]").textContent`); !strings.Contains(got, "1: (") {
		t.Errorf("the keyboard is at %s", got)
	}
	if got := x.eval(`String(document.querySelectorAll("[aria-label=Script] .on").length > 0)`); got != "true" {
		t.Error("the script is not marked")
	}
	x.eval(`document.querySelector("header button").click()`)
	x.axe()
	if got := x.eval(`String(window.evil)`); got != "undefined" {
		t.Errorf("the script was run: %s", got)
	}
	x.run(chromedp.EmulateViewport(500, 800))
	if got := x.eval(`document.documentElement.scrollWidth <= 500`); got != "true" {
		t.Error("the page is wider than a small window")
	}
}
