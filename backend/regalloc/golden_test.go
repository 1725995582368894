// SPDX-License-Identifier: Apache-2.0

package regalloc

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"btc/backend/isel"
	"btc/ir"
)

var update = flag.Bool("update", false, "rewrite the expected machine code")

// TestAllocated checks the machine code after allocation of the programs of backend/isel and
// backend/emit: testdata/NAME.txt is for NAME.txt there.
func TestAllocated(t *testing.T) {
	var sources []string
	for _, dir := range []string{"isel", "emit"} {
		files, err := filepath.Glob("../" + dir + "/testdata/*.txt")
		if err != nil || len(files) == 0 {
			t.Fatal("no cases", err)
		}
		sources = append(sources, files...)
	}
	for _, name := range sources {
		base := filepath.Base(name)
		t.Run(strings.TrimSuffix(base, ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			source, _, _ := strings.Cut(string(text), "\n---\n")
			m, err := ir.Parse(source)
			if err != nil {
				t.Fatal(err)
			}
			offsets := ir.LayoutGlobals(m)
			var got strings.Builder
			for _, f := range m.Funcs {
				mf, err := isel.Select(f, offsets)
				if err != nil {
					t.Fatal(err)
				}
				if err := Allocate(mf, Options{Check: true}); err != nil {
					t.Fatal(err)
				}
				got.WriteString(mf.String())
			}
			path := filepath.Join("testdata", base)
			if *update {
				if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got.String()); d != "" {
				t.Errorf("machine code (-want +got):\n%s", d)
			}
		})
	}
}
