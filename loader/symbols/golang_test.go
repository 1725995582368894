// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"btc/internal/elffile"
	"btc/tests/tier"
)

// TestStrippedGo checks that functions of stripped Go programs have names: those in the symbol table of the same program
// that is not stripped. Since Go 1.26 one with C code says only in moduledata where its Go code begins.
func TestStrippedGo(t *testing.T) {
	const source, c = "func main() { println(square(3)) }\n", "// int cube(int n) { return n * n * n; }\nimport \"C\"\n\n"
	const square = "\n//go:noinline\nfunc square(n int) int { return n * n }\n"
	for _, p := range []struct{ name, source, cgo, mode, tool string }{
		{"go", source, "0", "exe", "go"},
		{"go-pie", source, "0", "pie", "go"},
		{"cgo", c + "func main() { println(C.cube(3), square(3)) }\n", "1", "exe", "gcc"},
		{"cgo-pie", c + "func main() { println(C.cube(3), square(3)) }\n", "1", "pie", "gcc"},
	} {
		t.Run(p.name, func(t *testing.T) {
			if p.tool == "gcc" {
				tier.Real.Need(t, "builds programs")
			}
			for _, tool := range []string{"go", p.tool} {
				if _, err := exec.LookPath(tool); err != nil {
					t.Skip("skipped: no ", tool)
				}
			}
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n\n"+p.source+square), 0o600); err != nil {
				t.Fatal(err)
			}
			build := func(name, flags string) string {
				out := filepath.Join(dir, name)
				cmd := exec.Command("go", "build", "-buildmode="+p.mode, "-ldflags="+flags, "-o", out, filepath.Join(dir, "main.go"))
				cmd.Env = append(os.Environ(), "CGO_ENABLED="+p.cgo)
				if text, err := cmd.CombinedOutput(); err != nil {
					t.Skipf("skipped: cannot build: %v: %s", err, text)
				}
				return out
			}
			full, err := elf.Open(build("full", ""))
			if err != nil {
				t.Fatal(err)
			}
			defer full.Close()
			tab := New(true)
			defer tab.Close()
			syms := symbolsOf(t, tab, build("stripped", "-s -w"))
			want := map[string]bool{"main.main": true, "main.square": true, "runtime.main": true, "runtime.goexit.abi0": true}
			elffile.EachSymbol(full, func(s *elffile.Symbol) bool {
				name := string(s.Name())
				if !want[name] {
					return true
				}
				delete(want, name)
				off, ok := FileOffset(full, s.Value)
				if got, in, found := syms.lookup(off + 1); !ok || !found || got != name && got+".abi0" != name || in != 1 {
					t.Errorf("%s+1 at %#x: %s+%d, %t", name, off, got, in, found)
				}
				return true
			})
			if len(want) > 0 {
				t.Errorf("no symbols %v", want)
			}
		})
	}
}
