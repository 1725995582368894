// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"btc/compile"
	"btc/manifest"
	"btc/targets/kernel"
	"btc/tests/docs/generated"
)

var update = flag.Bool("update", false, "rewrite the generated parts of docs/tools")

// groups are the sections of docs/tools/README.md.
var groups = []struct {
	title string
	tools []string
}{
	{"Processes and threads", []string{"execsnoop", "exitsnoop", "threadsnoop", "killsnoop", "signals", "naptime", "pidpersec", "syscount", "bashreadline"}},
	{"CPU and scheduler", []string{"runqlat", "runqlen", "cpuwalk", "offcputime", "wakeuptime", "loads"}},
	{"Files", []string{"opensnoop", "statsnoop", "syncsnoop", "fileslower", "vfscount", "vfsstat", "dcsnoop", "ext4dist", "xfsdist", "writeback"}},
	{"Disks", []string{"biolatency", "biosnoop", "biostacks", "bitesize", "mdflush"}},
	{"Memory", []string{"oomkill", "swapin", "shmsnoop"}},
	{"Network", []string{"tcpconnect", "tcpaccept", "tcplife", "tcpstates", "tcpretrans", "tcpdrop", "tcpsynbl", "gethostlatency", "sslsnoop", "ssllatency", "undump"}},
	{"Security", []string{"capable", "setuids"}},
}

// TestPages checks docs/tools against the scripts: each tool has a row in the index and a page whose
// text is the comment at the head of the script.
func TestPages(t *testing.T) {
	tgt, err := kernel.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	var index strings.Builder
	listed := map[string]bool{}
	for _, g := range groups {
		fmt.Fprintf(&index, "## %s\n\n| tool | what it shows |\n|---|---|\n", g.title)
		for _, name := range g.tools {
			listed[name] = true
			title, about := head(t, name)
			index.WriteString(generated.Row(fmt.Sprintf("[%s](%s.md)", name, name), title))
			generated.Check(t, filepath.Join(root, "docs/tools", name+".md"), map[string]string{"about": about + needs(t, tgt, name)}, *update)
		}
		index.WriteString("\n")
	}
	generated.Check(t, filepath.Join(root, "docs/tools/README.md"), map[string]string{
		"index": index.String(), "others": others(t, listed),
	}, *update)
	for _, c := range tools {
		if !listed[c.name] {
			t.Errorf("%s is in no section of the index", c.name)
		}
		delete(listed, c.name)
	}
	for name := range listed {
		t.Errorf("%s is in the index, but not tested", name)
	}
}

// others is a table of the examples that are not tools, with the comments at their heads.
func others(t *testing.T, tools map[string]bool) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "examples/*.bt"))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("| script | question |\n|---|---|\n")
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".bt")
		if tools[name] {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var question []string
		for line := range strings.Lines(string(text)) {
			rest, ok := strings.CutPrefix(line, "// ")
			if !ok {
				break
			}
			question = append(question, strings.TrimSpace(rest))
		}
		if question == nil {
			t.Errorf("examples/%s.bt does not begin with a comment", name)
		}
		link := fmt.Sprintf("[%s](../../examples/%s.bt)", name, name)
		b.WriteString(generated.Row(link, generated.Escape(strings.Join(question, " "))))
	}
	return b.String()
}

// head parses the comment at the head of a script.
func head(t *testing.T, name string) (title, about string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "examples", name+".bt"))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		rest, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "//")
		if !ok {
			break
		}
		lines = append(lines, strings.TrimPrefix(rest, " "))
	}
	first, ok := strings.CutPrefix(strings.Join(lines, "\n"), name+": ")
	if !ok {
		t.Errorf("examples/%s.bt: want a comment that begins with %q", name, name+": ...")
	}
	title, about, _ = strings.Cut(first, "\n")
	if about != "" {
		about += "\n"
	}
	return strings.TrimSuffix(title, "."), strings.ToUpper(title[:1]) + title[1:] + "\n" + about
}

// needs describes the probes and options of the script, and what it requires of the kernel.
func needs(t *testing.T, tgt *kernel.Target, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "examples", name+".bt"))
	if err != nil {
		t.Fatal(err)
	}
	out, _ := compile.Compile(compile.Input{Name: name + ".bt", Text: string(text), Target: tgt})
	if out == nil {
		t.Fatalf("%s.bt does not compile", name)
	}
	m, err := manifest.Parse(out.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	var points []string
	for _, p := range m.Programs {
		text := "`" + p.Attach.Text + "`"
		if p.Kind != "begin" && p.Kind != "end" && !slices.Contains(points, text) {
			points = append(points, text)
		}
	}
	since := kernel.Version{Major: 5, Minor: 10}
	for _, n := range m.Needs {
		if h := kernel.HelperByName(n.Feature); h != nil && (h.Since.Major > since.Major || h.Since.Minor > since.Minor) {
			since = h.Since
		}
	}
	about := "\n" + generated.Wrap(fmt.Sprintf("Script: [examples/%s.bt](../../examples/%s.bt). Probes: %s. Kernel: Linux %s.", name, name, strings.Join(points, ", "), since))
	return about + optionTable(m.Params)
}

// optionTable lists the options that a script declares with getopt().
func optionTable(params []manifest.Param) string {
	var b strings.Builder
	for _, p := range params {
		if strings.HasPrefix(p.Name, "$") {
			continue
		}
		if b.Len() == 0 {
			b.WriteString("\n| option, after `--` | default | what it does |\n|---|---|---|\n")
		}
		value := p.Default
		switch {
		case value == "" && p.Type == "int":
			value = "0"
		case value == "":
			value = "none"
		}
		b.WriteString(generated.Row("`--"+p.Name+"`", value, p.Help))
	}
	return b.String()
}
