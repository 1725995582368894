// SPDX-License-Identifier: Apache-2.0

package irgen

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"btc/frontend/cdef"
	"btc/frontend/check"
	"btc/frontend/diag"
	"btc/frontend/expand"
	"btc/frontend/parse"
	"btc/ir"
	"btc/ir/interp"
	"btc/targets/kernel"
)

var update = flag.Bool("update", false, "rewrite the expected parts of testdata")

// module generates the IR of a script for x86_64. If the script has errors, m is nil and messages has
// the errors.
func module(t *testing.T, name, text string, helperErrors bool) (m *ir.Module, messages string) {
	t.Helper()
	target, err := kernel.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	diags := &diag.List{}
	script := parse.Script(diag.NewSource(name, text), diags, expand.Values(check.IsValue))
	if script == nil {
		t.Fatalf("%s does not parse", name)
	}
	c := cdef.Predefined(target)
	script = expand.Script(script, diags, expand.Options{Builtin: check.IsBuiltin, IsValue: expand.Values(check.IsValue), C: c})
	info := check.Check(script, target, nil, diags)
	var b strings.Builder
	if err := diag.Render(&b, diags, diag.RenderOptions{}); err != nil {
		t.Fatal(err)
	}
	if diags.Errors() > 0 {
		return nil, b.String()
	}
	info.HelperErrors = helperErrors
	return Module(info, "test"), b.String()
}

// TestScripts runs the cases in testdata. A case is a script with its IR, and optionally inputs and the
// resulting state:
//
//	(description of the case)
//	-- script --
//	-- ir --
//	-- inputs --   see interp.ParseInputs
//	-- state --    the observable state after the runs
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			archive := txtar.Parse(data)
			have := map[string]string{}
			for _, f := range archive.Files {
				have[f.Name] = string(f.Data)
			}
			reports := strings.Contains(string(archive.Comment), "btc compile -k")
			m, messages := module(t, "test.bt", have["script"], reports)
			if m == nil {
				t.Fatalf("messages:\n%s", messages)
			}
			if err := ir.VerifyStage(m, ir.High); err != nil {
				t.Fatalf("%v in\n%s", err, m)
			}
			want := map[string]string{"ir": essence(m.String(), reports)}
			if have["inputs"] != "" {
				inputs, err := interp.ParseInputs(have["inputs"])
				if err != nil {
					t.Fatal(err)
				}
				want["state"] = observe(t, m, inputs)
			}
			changed := false
			for _, part := range []string{"ir", "state"} {
				if diff := cmp.Diff(have[part], want[part]); diff != "" {
					changed = true
					if !*update {
						t.Errorf("%s (-want +got):\n%s", part, diff)
					}
				}
			}
			if changed && *update {
				rewrite(t, file, archive, want)
			}
		})
	}
}

func observe(t *testing.T, m *ir.Module, inputs []interp.Input) string {
	t.Helper()
	_, state, err := interp.RunAll(m, inputs)
	if err != nil {
		t.Fatalf("%v in\n%s", err, m)
	}
	return strings.Join(state, "\n") + "\n"
}

func rewrite(t *testing.T, file string, a *txtar.Archive, want map[string]string) {
	t.Helper()
	out := &txtar.Archive{Comment: a.Comment}
	for _, name := range []string{"script", "ir", "inputs", "state"} {
		text, ok := want[name]
		for _, f := range a.Files {
			if f.Name == name && !ok {
				text, ok = string(f.Data), true
			}
		}
		if ok {
			out.Files = append(out.Files, txtar.File{Name: name, Data: []byte(text)})
		}
	}
	if err := os.WriteFile(file, txtar.Format(out), 0o644); err != nil {
		t.Fatal(err)
	}
}

// settings matches the settings of the script in the module's metadata.
var settings = regexp.MustCompile(`^meta \(config \{[^}]*\},? ?`)

// essence removes the parts that are the same for all scripts: the settings, the source of statements,
// and positions that no report uses.
func essence(text string, reports bool) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = settings.ReplaceAllString(line, "meta (")
		if !reports && strings.HasPrefix(line, "meta (") || strings.HasPrefix(line, "stmt ") ||
			strings.HasPrefix(line, "module ") {
			continue
		}
		if strings.HasPrefix(line, "  ") && !reports {
			line, _, _ = strings.Cut(line, "  !")
			line = strings.TrimRight(line, " \n") + "\n"
		}
		b.WriteString(line)
	}
	return strings.TrimSpace(b.String()) + "\n"
}

// TestDecidesNoLayout checks that irgen decides nothing about layout in the kernel: no module has a
// helper call, an address of a memory object, a BPF map, or an op that belongs to later stages.
func TestDecidesNoLayout(t *testing.T) {
	files, err := filepath.Glob("../../tests/corpus/*.bt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m, _ := module(t, file, string(text), true)
		if m == nil {
			continue // needs parameters or files, which tests/corpus provides
		}
		for _, x := range m.Maps {
			if x.Shape == ir.ShapeIntern || x.BPF.Type != "" {
				t.Errorf("%s: map %s has a layout in the kernel", file, x.Name)
			}
		}
		for _, f := range m.Funcs {
			for _, s := range f.Slots {
				if s.Class != ir.Unplaced {
					t.Errorf("%s: %s: slot %s has an offset", file, f.Name, s.Name)
				}
			}
			for _, b := range f.Blocks {
				for _, v := range b.Values {
					switch v.Op {
					case ir.OpCall, ir.OpOpaque, ir.OpAtomicAdd, ir.OpSaved:
						t.Errorf("%s: %s: %s", file, f.Name, v.Text())
					}
				}
			}
		}
	}
}

// TestStackTables checks that a stack table has room for what the maps may hold, within bounds, and
// that max_stacks sets the number.
func TestStackTables(t *testing.T) {
	for _, x := range []struct {
		script string
		want   int // entries of kstack_127
	}{
		{`begin { @[kstack] = count(); }`, 4096},
		{`begin { print(kstack); }`, 4096},
		{`config = { max_map_keys = 100 } begin { @[kstack] = count(); }`, 4096},
		{`config = { max_map_keys = 16384 } begin { @[kstack, ustack, comm] = count(); @w[tid] = (kstack, ustack); }`, 32768},
		{`config = { max_map_keys = 16384 } begin { @[kstack, ustack] = count(); @last = kstack; @o[kstack(3)] = count(); }`, 16385},
		{`let @a = lruhash(9000); begin { @a[kstack] = 1; }`, 9000},
		{`config = { max_map_keys = 10000000 } begin { @[kstack] = count(); }`, 65536},
		{`config = { max_map_keys = 16384; max_stacks = 50 } begin { @[kstack] = count(); }`, 50},
		{`config = { max_stacks = 100000 } begin { @[kstack] = count(); }`, 100000},
	} {
		m, messages := module(t, "x.bt", x.script, false)
		if m == nil {
			t.Fatal(messages)
		}
		if table := m.Map("kstack_127"); table == nil || table.MaxEntries != x.want {
			t.Errorf("%s: %v, want %d", x.script, table, x.want)
		}
	}
}
