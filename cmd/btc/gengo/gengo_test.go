// SPDX-License-Identifier: Apache-2.0

package gengo

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"btc/compile"
	"btc/internal/manifest"
	"btc/targets/kernel"
)

// TestExamples checks that Source is valid Go for each of the examples (otherwise Source panics), and
// that no name in it is declared twice.
func TestExamples(t *testing.T) {
	target, err := kernel.Default(runtime.GOARCH)
	if err != nil {
		t.Skip("skipped: ", err)
	}
	scripts, err := filepath.Glob("../../../examples/*.bt")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, path := range scripts {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out, diags := compile.Compile(compile.Input{Name: path, Text: string(text), Target: target})
		if out == nil {
			t.Fatalf("%s: %v", path, diags)
		}
		m, err := manifest.Parse(out.Manifest)
		if err != nil {
			t.Fatal(err)
		}
		name := Name(strings.TrimSuffix(filepath.Base(path), ".bt"))
		source, err := Source(m, Options{Package: "x", Library: "btc/btrace", Name: name, Object: "x.o", Script: path})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for line := range strings.Lines(string(source)) {
			if !strings.HasPrefix(line, "func ") && !strings.HasPrefix(line, "type ") {
				continue
			}
			if line, _, _ = strings.Cut(line, "{"); seen[line] {
				t.Errorf("%s: duplicate declaration: %s", path, line)
			}
			seen[line] = true
		}
		if !seen["type "+name+" struct"] {
			t.Errorf("%s: no type %s", path, name)
		}
	}
}

var update = flag.Bool("update", false, "write testdata/all.go.txt")

// TestSource holds the source for a script with parameters, arguments, maps of several shapes and events to testdata.
func TestSource(t *testing.T) {
	const script = `
begin { printf("started\n"); printf("%d %s\n", getopt("least", 5), $1 == 7 ? "a" : "b"); }
interval:ms:10 {
	@count = count(); @sum[pid] = sum(1); @hist[comm, pid] = hist(4); @series = tseries(1, 1s, 5); @stats = stats(-5);
	@plain[1] = (1, "x"); @flag = pid == 1; @stack = kstack; @narrow = (int8)1; @wide = (uint64)1;
	printf("%s %d %llx\n", comm, (int32)pid, (uint64)nsecs);
	if (getopt("verbose", false)) { print(@count); }
}
`
	target, err := kernel.Default("amd64")
	if err != nil {
		t.Fatal(err)
	}
	out, diags := compile.Compile(compile.Input{Name: "all.bt", Text: script, Target: target, Compiler: "test"})
	if out == nil {
		t.Fatal(diags)
	}
	m, err := manifest.Parse(out.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	names := map[int][]string{6: {"comm", "pid", ""}}
	got, err := Source(m, Options{Package: "x", Library: "example.com/btrace", Name: "All", Object: "all.o", Script: "all.bt",
		Names: func(p manifest.Pos) []string { return names[p.Line] }})
	if err != nil {
		t.Fatal(err)
	}
	const file = "testdata/all.go.txt"
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s (-want +got); -update writes it:\n%s", file, d)
	}
}

// generated returns the Go source of a script without its object.
func generated(t *testing.T, script string) string {
	t.Helper()
	target, err := kernel.Default("amd64")
	if err != nil {
		t.Fatal(err)
	}
	out, diags := compile.Compile(compile.Input{Name: "x.bt", Text: script, Target: target, Compiler: "test"})
	if out == nil {
		t.Fatal(diags)
	}
	m, err := manifest.Parse(out.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Source(m, Options{Package: "x", Library: "example.com/btrace", Name: "X", Object: "x.o", Script: "x.bt"})
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

// TestPositionalParameters checks that parameters without defaults have a New function, too.
func TestPositionalParameters(t *testing.T) {
	if got := generated(t, "begin { @ = $1; }"); !strings.Contains(got, "func NewXParams() XParams {") {
		t.Error(got)
	}
}

// TestWithoutParameters checks that a script without parameters has no type for them.
func TestWithoutParameters(t *testing.T) {
	text := generated(t, "begin { @ = 1; }")
	if !strings.Contains(text, "func LoadX(o btrace.Options) (*X, error) {") || strings.Contains(text, "Params") || strings.Contains(text, `"fmt"`) ||
		strings.Contains(text, "switch") {
		t.Errorf("%s", text)
	}
}

func TestName(t *testing.T) {
	for text, want := range map[string]string{"slow-reads": "SlowReads", "a_b": "AB", "9p": "X9p", "": "", "-": "", "日": "X日"} {
		if have := Name(text); have != want {
			t.Errorf("Name(%q) = %q, want %q", text, have, want)
		}
	}
}

// TestEmbedded checks with the go command which files the generated source embeds: the object, signed or not, and nothing else
// that is beside it.
func TestEmbedded(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("skipped: ", err)
	}
	for _, object := range []string{"x_btc.o", "a b_btc.o", "[a]_btc.o", "b].o"} {
		dir := t.TempDir()
		source, err := Source(new(manifest.Manifest), Options{Package: "x", Library: "example.com/btrace", Name: "X", Object: object, Script: "x.bt"})
		if err != nil {
			t.Fatal(err)
		}
		write := func(name, text string) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		stem := strings.TrimSuffix(object, ".o")
		write("go.mod", "module example.com/x\n\ngo 1.26\n")
		write(stem+".go", string(source))
		for _, other := range []string{stem + ".old", stem + ".json", object + "~", object + ".orig", object + ".bak", object + ".minisig~", "y_btc.o", "a_btc.o"} {
			write(other, "")
		}
		var want []string
		for _, name := range []string{object, object + ".minisig", object + ".sig"} {
			write(name, "")
			want = append(want, name)
			list := exec.Command("go", "list", "-e", "-f", `{{range .EmbedFiles}}{{.}}{{"\n"}}{{end}}`, ".")
			list.Dir, list.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=")
			out, err := list.CombinedOutput()
			if got := strings.Split(strings.TrimSpace(string(out)), "\n"); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: %v, %q, want %q", object, err, got, want)
			}
		}
	}
}
