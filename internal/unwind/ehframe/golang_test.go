// SPDX-License-Identifier: Apache-2.0

package ehframe

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"btc/internal/elffile"
	"btc/internal/unwind"
	"btc/tests/tier"
)

// kinds checks the rows of functions of a Go program, whose symbols may be in another file.
func kinds(t *testing.T, path, symbols string, want map[string]uint8) {
	t.Helper()
	_, table := build(t, path)
	f, err := elf.Open(symbols)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	seen := 0
	elffile.EachSymbol(f, func(s *elffile.Symbol) bool {
		kind, ok := want[string(s.Name())]
		if !ok {
			return true
		}
		seen++
		for _, pc := range []uint64{s.Value, s.Value + s.Size - 1} {
			if got := table.Lookup(uint32(pc - table.Base)); got.Kind != kind {
				t.Errorf("%s: %s at %#x: %+v, want kind %d", path, s.Name(), pc, got, kind)
			}
		}
		return true
	})
	if seen != len(want) {
		t.Errorf("%s: %d of %d symbols found", symbols, seen, len(want))
	}
}

// TestGo builds programs of Go, and of Go and C, with and without symbols, and loaded anywhere. C code has rows of its own.
func TestGo(t *testing.T) {
	goWant := map[string]uint8{"runtime.goexit.abi0": unwind.KindEnd, "runtime.rt0_go.abi0": unwind.KindEnd, "runtime.mstart.abi0": unwind.KindEnd,
		"runtime.main": unwind.KindFrames, "main.main": unwind.KindFrames, "runtime.sigreturn__sigaction.abi0": unwind.KindSignal}
	cgoWant := map[string]uint8{"runtime.goexit.abi0": unwind.KindEnd, "main.main": unwind.KindFrames, "runtime.main": unwind.KindFrames, "square": unwind.KindSP}
	const goSource, cgoSource = "func main() { println(1) }\n", "// int square(int n) { return n * n; }\nimport \"C\"\n\nfunc main() { println(C.square(3)) }\n"
	for _, c := range []struct {
		name, source, cgo, mode, flags, tool string
		want                                 map[string]uint8
	}{
		{"go", goSource, "0", "exe", "", "go", goWant},
		{"go-pie", goSource, "0", "pie", "", "go", goWant},
		{"cgo", cgoSource, "1", "exe", "-linkmode=external ", "gcc", cgoWant},
		{"cgo-pie", cgoSource, "1", "pie", "-linkmode=external ", "gcc", cgoWant},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name != "go" {
				tier.Real.Need(t, "builds programs")
			}
			for _, tool := range []string{"go", c.tool} {
				if _, err := exec.LookPath(tool); err != nil {
					t.Skip("skipped: no ", tool)
				}
			}
			dir := t.TempDir()
			source := filepath.Join(dir, "main.go")
			if err := os.WriteFile(source, []byte("package main\n\n"+c.source), 0o600); err != nil {
				t.Fatal(err)
			}
			var built [2]string
			for i, flags := range []string{"", "-s -w"} {
				built[i] = filepath.Join(dir, "program"+flags)
				cmd := exec.Command("go", "build", "-buildmode="+c.mode, "-ldflags="+c.flags+flags, "-o", built[i], source)
				cmd.Env = append(os.Environ(), "CGO_ENABLED="+c.cgo)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Skipf("skipped: cannot build: %v: %s", err, out)
				}
			}
			for _, path := range built {
				kinds(t, path, built[0], c.want)
			}
		})
	}
}
