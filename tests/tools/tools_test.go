// SPDX-License-Identifier: Apache-2.0

// Package tools runs the tools of examples on workloads of its own and checks what they print. Where
// they are at hand, tools of other projects watch the same workload, and must report the same:
// bpftrace's tool of the same name (build/oracle), and that of libbpf-tools (build/bcc).
//
// Tools that need kprobes run in guests: in TestGuests (make test-tools) together with the other tools,
// and in the cases of tests/kernels.
package tools

import (
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"btc/tests/stripped"
)

const root = "../.."

var bin string

func TestMain(m *testing.M) {
	flag.Parse()
	if file := os.Getenv(jobsVariable); file != "" {
		if err := inGuest(file); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	dir, err := os.MkdirTemp("", "btc-tools")
	if err == nil {
		bin = dir
		err = stripped.Build(dir, "./cmd/btc", "./cmd/btrun", "./tests/workload")
		// Without a compiler, what needs the program is skipped.
		exec.Command("gcc", "-pthread", "-o", filepath.Join(dir, "thread"), root+"/tests/workload/thread/thread.c").
			Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	os.RemoveAll(dir)
	os.Exit(status)
}

// TestCompile compiles each tool, without a warning but those about functions and system
// calls that only other kernels or architectures have.
func TestCompile(t *testing.T) {
	for _, c := range tools {
		name := c.name
		out, err := exec.Command(bin+"/btc", "compile", filepath.Join(root, "examples", name+".bt"), "-o", filepath.Join(t.TempDir(), "x.o")).
			CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, ": warning[") && !strings.Contains(line, "not traceable") {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
}

// TestTools runs the tools.
func TestTools(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	for i, c := range tools {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, fmt.Sprintf("wk%d%c", os.Getpid(), 'a'+i%26))
		})
	}
}

func (c tool) test(t *testing.T, name string) {
	if c.guest {
		t.Skip("skipped: it runs in guests only")
	}
	object := filepath.Join(t.TempDir(), c.name+".o")
	if out, err := exec.Command(bin+"/btc", "compile", filepath.Join(root, "examples", c.name+".bt"), "-o", object).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	j := job{Name: c.name, W: name, T: "0.3", Needs: strings.Fields(c.needs), Run: c.run, Until: c.until, Bin: bin}
	if script, err := filepath.Abs(root + "/build/oracle/root/usr/sbin/" + c.name + ".bt"); c.same != "" && err == nil {
		if _, err := os.Stat(script); err == nil {
			j.Tracers = append(j.Tracers, tracer{bpftrace, reference(t, script)})
		}
	}
	if command, err := filepath.Abs(root + "/build/bcc/bookworm/usr/sbin/" + c.bcc); c.bcc != "" && !c.bccGuest &&
		err == nil {
		words := strings.Fields(command)
		if _, err := os.Stat(words[0]); err == nil {
			j.Tracers = append(j.Tracers, tracer{bcc, slices.Concat(withTracefs, words)})
		}
	}
	j.Tracers = append(j.Tracers, tracer{btrun, append([]string{bin + "/btrun", object}, strings.Fields(c.args)...)})
	c.judge(t, j, j.watch(), false)
}

// withTracefs runs a command with tracefs mounted, where it is not, for the command alone.
var withTracefs = []string{"unshare", "--mount", "--propagation", "private", "sh", "-c",
	`[ -e /sys/kernel/tracing/events ] || mount -t tracefs tracefs /sys/kernel/tracing; exec "$0" "$@"`}

// judge checks what the tracers wrote. Sums are compared in guests only.
func (c tool) judge(t *testing.T, j job, o outcome, guest bool) {
	t.Helper()
	if o.Skipped != "" {
		t.Skip("skipped: ", o.Skipped)
	}
	ours := o.Reports[btrun]
	if !ours.Attached {
		if strings.Contains(ours.Output, "Failed to resolve kernel symbol") {
			t.Skip("skipped: this kernel: ", strings.TrimSpace(ours.Output))
		}
		t.Fatalf("btrun does not attach:\n%s", ours.Output)
	}
	if o.Problem != "" {
		t.Error(o.Problem)
	}
	for _, p := range c.want {
		re := regexp.MustCompile("(?m)" + strings.ReplaceAll(p, "%W", j.W))
		if !re.MatchString(ours.Output) {
			t.Errorf("no line matches %s:\n%.4000s", re, ours.Output)
		}
	}
	same := map[string][]pair{bpftrace: c.bpftrace, bcc: c.bccSame}
	if c.same != "" {
		same[bpftrace] = append(slices.Clone(same[bpftrace]), pair{ours: c.same, theirs: c.same})
	}
	for _, tr := range j.Tracers {
		theirs := o.Reports[tr.Name]
		if tr.Name == btrun {
			continue
		}
		if !theirs.Attached {
			t.Logf("not compared: %s does not attach here:\n%.2000s", tr.Name, theirs.Output)
			continue
		}
		compared := 0
		for _, p := range same[tr.Name] {
			if p.within > 0 && !guest {
				continue
			}
			compared++
			if difference := p.compare(ours.Output, theirs.Output, j.W); difference != "" {
				t.Errorf("%s: %s\nthe tool prints\n%.3000s\nthe other\n%.3000s", tr.Name, difference, ours.Output,
					theirs.Output)
			}
		}
		if compared > 0 {
			t.Logf("compared with %s", strings.Join(tr.Command, " "))
		}
	}
}

// compare says how the outputs differ, or returns "".
func (p pair) compare(ours, theirs, name string) string {
	a := regexp.MustCompile("(?m)" + strings.ReplaceAll(p.ours, "%W", name))
	b := regexp.MustCompile("(?m)" + strings.ReplaceAll(p.theirs, "%W", name))
	if p.within > 0 {
		x, y := sum(a, ours), sum(b, theirs)
		if x == 0 || math.Abs(x-y) > p.within*max(x, y) {
			return fmt.Sprintf("the sum of %s is %v, that of %s is %v", a, x, b, y)
		}
		return ""
	}
	have, want := facts(a, ours), facts(b, theirs)
	if p.part {
		have, want = slices.Compact(have), slices.Compact(want)
		if len(have) > len(want) {
			have = slices.DeleteFunc(have, func(x string) bool { return !slices.Contains(want, x) })
		} else {
			want = slices.DeleteFunc(want, func(x string) bool { return !slices.Contains(have, x) })
		}
	}
	if len(have) == 0 || !slices.Equal(have, want) {
		return fmt.Sprintf("%s gives %q, %s gives %q", a, have, b, want)
	}
	return ""
}

// counts matches the counts of a histogram, in all three forms.
var counts = regexp.MustCompile(`(\d+) +\|`)

// sum adds the numbers and counts that the groups of a pattern match, or the matches of one without a group.
func sum(re *regexp.Regexp, out string) float64 {
	total := 0.0
	for _, m := range re.FindAllStringSubmatch(out, -1) {
		if len(m) == 1 {
			total++
		}
		for _, text := range m[1:] {
			if n, err := strconv.ParseFloat(text, 64); err == nil {
				total += n
				continue
			}
			for _, count := range counts.FindAllStringSubmatch(text, -1) {
				n, _ := strconv.ParseFloat(count[1], 64) // digits
				total += n
			}
		}
	}
	return total
}

// userFile is a program or a library that a script puts probes on.
var userFile = regexp.MustCompile(`probe:(libc|libssl|/bin/bash):`)

// reference is the command that runs bpftrace's tool. bpftrace runs in a root of its own:
// probes in user space name this machine's files, which a mount shows it.
func reference(t *testing.T, script string) []string {
	oracle := root + "/tests/setup/bpftrace-oracle"
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	if !userFile.Match(text) {
		return []string{oracle, "/usr/sbin/" + filepath.Base(script)}
	}
	dir, err := os.MkdirTemp("/tmp", "btc-tools") // /tmp is the same there
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	host := dir + "/host"
	if err := os.Mkdir(host, 0o755); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, filepath.Base(script))
	text = userFile.ReplaceAllFunc(text, func(m []byte) []byte {
		file := string(userFile.FindSubmatch(m)[1])
		return []byte("probe:" + host + library(t, file) + ":")
	})
	if err := os.WriteFile(copied, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return []string{"unshare", "--mount", "--propagation", "private", "sh", "-c",
		`mount --bind / "$0" && exec "$@"`, host, oracle, copied}
}

// library is the path of a library for this machine's programs. Paths stay.
func library(t *testing.T, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	out, err := exec.Command("/sbin/ldconfig", "-p").Output()
	if err != nil {
		t.Skip("skipped: no list of libraries: ", err)
	}
	m := regexp.MustCompile(`(?m)^\s*` + name + `\.so\.\S+ .* => (/\S+)$`).FindSubmatch(out)
	if m == nil {
		t.Skip("skipped: no library ", name)
	}
	return string(m[1])
}

// facts are the parts of all matches, sorted.
func facts(re *regexp.Regexp, out string) []string {
	var all []string
	for _, m := range re.FindAllStringSubmatch(out, -1) {
		all = append(all, strings.Join(m[1:], " "))
	}
	slices.Sort(all)
	return all
}
