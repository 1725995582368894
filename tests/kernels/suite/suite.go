// SPDX-License-Identifier: Apache-2.0

// Package suite runs the cases of package cases: it compiles each script once, runs the objects in
// guests or on the host with package driver, and checks the outcomes. It is shared by tests/kernels and
// tests/run.
package suite

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"btc/internal/arch"
	"btc/tests/kernels/cases"
	"btc/tests/kernels/driver"
	"btc/tests/kernels/vm"
)

// Suite holds the cases and what it takes to run them.
type Suite struct {
	Root string // top of the repository
	Bin  string // directory of the programs built for this machine
	Work string // directory of scripts, objects and manifests
	// recordings is the directory of the recordings of all cases; "": they are not recorded.
	recordings string
	Oracle     bool // run bpftrace instead of btrun
	Cases      []*cases.Case

	refused map[string]string   // case -> error of btc if it refused the script
	foreign map[string]string   // GOARCH -> directory of the programs for guests of this architecture
	own     map[string]*objects // GOARCH -> objects compiled for guests of this architecture only
}

// objects are the cases compiled for one architecture that objects do not support by default.
type objects struct {
	work    string            // directory of scripts and objects
	refused map[string]string // as in Suite
}

// New reads the cases whose names match only, builds the programs and compiles the scripts. It skips
// the test if the programs under test do not exist.
func New(t *testing.T, only *regexp.Regexp, oracle bool) *Suite {
	t.Helper()
	root, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	s := &Suite{Root: root, Bin: t.TempDir(), Work: t.TempDir(), Oracle: oracle, refused: map[string]string{}, foreign: map[string]string{}, own: map[string]*objects{}}
	all, err := cases.Load(filepath.Join(root, "tests/kernels/testdata"), root)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if only.MatchString(c.Name) {
			s.Cases = append(s.Cases, c)
		}
	}
	programs := []string{"./tests/workload", "./tests/kernels/cmd/runjobs"}
	if !oracle {
		programs = append(programs, "./cmd/btc", "./cmd/btrun")
	}
	for _, p := range programs {
		if _, err := os.Stat(filepath.Join(root, p)); err != nil {
			t.Skipf("skipped: %s does not exist", p)
		}
	}
	s.build(t, programs, runtime.GOARCH, s.Bin)
	s.buildC(t, "gcc", s.Bin)
	for _, c := range s.Cases {
		s.prepare(t, c)
	}
	return s
}

// repository finds the top of the module from the directory of the running test.
func repository() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, statErr := os.Stat(filepath.Join(dir, "go.mod")); statErr == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod above the directory of the test")
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}

// Foreign builds the programs for guests of another architecture, once. With core, its guests run only the core.
func (s *Suite) Foreign(t *testing.T, goarch string, core bool) {
	t.Helper()
	if goarch == runtime.GOARCH || s.foreign[goarch] != "" {
		return
	}
	bin := t.TempDir()
	s.foreign[goarch] = bin
	s.build(t, []string{"./tests/workload", "./tests/kernels/cmd/runjobs", "./cmd/btrun"}, goarch, bin)
	s.buildC(t, crossCompilers[goarch].gcc, bin)
	if a := arch.ByName(goarch); !a.Default {
		o := &objects{t.TempDir(), map[string]string{}}
		s.own[goarch] = o
		for _, c := range s.Cases {
			if c.Core || !core {
				s.compile(c, s.Work, o.work, o.refused, "--arch", a.Label)
			}
		}
	}
}

// crossCompilers are the C compilers for other architectures under their Debian names, and the C
// library that their programs need in a guest.
var crossCompilers = map[string]struct {
	gcc       string
	libraries []string
}{
	"arm64":   {"aarch64-linux-gnu-gcc", []string{"/usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1", "/usr/aarch64-linux-gnu/lib/libc.so.6"}},
	"riscv64": {"riscv64-linux-gnu-gcc", []string{"/usr/riscv64-linux-gnu/lib/ld-linux-riscv64-lp64d.so.1", "/usr/riscv64-linux-gnu/lib/libc.so.6"}},
}

// bin returns the directory of the programs for an architecture.
func (s *Suite) bin(goarch string) string {
	if dir := s.foreign[goarch]; dir != "" {
		return dir
	}
	return s.Bin
}

func (s *Suite) build(t *testing.T, programs []string, goarch, bin string) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"build", "-trimpath", "-o", bin + "/"}, programs...)...)
	cmd.Dir = s.Root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+goarch)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}

// buildC compiles the workloads that need the C library. Without a compiler they are missing, and so is
// the feature that the cases name.
func (s *Suite) buildC(t *testing.T, gcc, bin string) {
	t.Helper()
	if _, err := exec.LookPath(gcc); err != nil {
		return
	}
	for _, source := range []string{"tests/workload/getaddrinfo/getaddrinfo.c", "tests/workload/thread/thread.c", "tests/workload/usdt/usdt.c"} {
		name := strings.TrimSuffix(filepath.Base(source), ".c")
		cmd := exec.Command(gcc, "-O1", "-Wall", "-pthread", "-o", filepath.Join(bin, name), filepath.Join(s.Root, source))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Logf("cases that need %s will be skipped: %v\n%s", name, err, out)
		}
	}
}

// prepare writes the script to a file and compiles it. If btc refuses the script, its case fails on
// every kernel.
func (s *Suite) prepare(t *testing.T, c *cases.Case) {
	t.Helper()
	script := filepath.Join(s.Work, c.Name+".bt")
	text := c.Script
	if s.Oracle {
		text = withoutHeaders(text)
		if quoted(c.Run) {
			if err := os.WriteFile(filepath.Join(s.Work, c.Name+".sh"), []byte("exec "+c.Run+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if s.Oracle {
		return
	}
	for name, text := range c.Headers {
		path := filepath.Join(s.Work, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s.compile(c, s.Work, s.Work, s.refused)
}

// compile compiles the script of a case in the directory from to an object in the directory to.
func (s *Suite) compile(c *cases.Case, from, to string, refused map[string]string, options ...string) {
	script := filepath.Join(from, c.Name+".bt")
	if c.Path != "" {
		script = c.Path
	}
	args := append([]string{"compile", script, "-o", filepath.Join(to, c.Name+".o")}, c.Compile...)
	cmd := exec.Command(filepath.Join(s.Bin, "btc"), append(args, options...)...)
	cmd.Dir = s.Root
	if out, err := cmd.CombinedOutput(); err != nil {
		refused[c.Name] = fmt.Sprintf("btc compile: %v\n%s", err, out)
	}
}

// withoutHeaders removes #include lines for kernel headers and defines the constants that the script
// uses. btc knows these headers; bpftrace would need them as files.
func withoutHeaders(script string) string {
	defines := ""
	for _, c := range constants {
		if regexp.MustCompile(`\b`+c.name+`\b`).MatchString(script) && !strings.Contains(script, "#define "+c.name+" ") {
			defines += "#define " + c.name + " " + c.value + "\n"
		}
	}
	return defines + include.ReplaceAllString(script, "")
}

// constants are the macros of kernel headers that the cases use.
var constants = []struct{ name, value string }{
	{"AF_INET", "2"}, {"AF_INET6", "10"}, {"S_IFMT", "0170000"}, {"S_IFREG", "0100000"},
}

// quoted reports whether a command has quoted arguments. bpftrace splits the command of -c at spaces,
// so such a command is put into a shell script.
func quoted(command string) bool { return strings.ContainsAny(command, `'"`) }

var include = regexp.MustCompile(`(?m)^#include <.*>$`)

// skipReason returns why a case is skipped on a kernel without running anything, or "".
func (s *Suite) skipReason(c *cases.Case, kernel string) string {
	if s.Oracle && c.Skip[cases.Oracle] != "" {
		return "with bpftrace: " + c.Skip[cases.Oracle]
	}
	return c.Skip[kernel]
}

// job returns the job of a case; work is the directory of scripts and objects on the machine that runs
// it.
func (s *Suite) job(c *cases.Case, tool, work string) driver.Job {
	j := driver.Job{
		Name: c.Name, Tool: []string{tool}, Before: strings.Fields(c.Before), After: arguments(c.After),
		Needs: c.Needs, Limit: c.Limit,
	}
	j.Tool = append(j.Tool, c.Tool...)
	switch {
	case s.Oracle && quoted(c.Run):
		j.Tool = append(j.Tool, "-c", "sh "+filepath.Join(work, c.Name+".sh"))
	case c.Run != "":
		j.Tool = append(j.Tool, "-c", c.Run)
	}
	file := c.Name + ".o"
	if s.Oracle {
		file = c.Name + ".bt"
		// bpftrace takes many seconds to start under emulation.
		j.Limit *= 3
	}
	j.Tool = append(append(j.Tool, filepath.Join(work, file)), c.Args...)
	return j
}

// arguments splits a command into its arguments. A command with quotes or operators is run by a shell.
func arguments(command string) []string {
	if strings.ContainsAny(command, "'\"|;&<>") {
		return []string{"sh", "-c", command}
	}
	return strings.Fields(command)
}

// work returns the directory of scripts and objects for guests of an architecture.
func (s *Suite) work(goarch string) string {
	if o := s.own[goarch]; o != nil {
		return o.work
	}
	return s.Work
}

// puts lists the files that a guest needs. A guest whose root is a disk has its own C library; other
// guests get ours, for the C workloads and for the programs of this machine that cases trace.
func (s *Suite) puts(goarch string) ([]vm.Put, error) {
	bin := s.bin(goarch)
	puts := []vm.Put{{Host: bin, Guest: "/bin"}, {Host: s.work(goarch), Guest: guestWork}}
	if s.Oracle {
		// /bin is a link on a Debian disk and must stay one.
		puts[0].Guest = "/usr/bin"
		return puts, nil
	}
	program := filepath.Join(bin, "getaddrinfo")
	if _, err := os.Stat(program); err != nil {
		return puts, nil // no compiler: the feature check skips the cases
	}
	if goarch != runtime.GOARCH {
		for _, l := range crossCompilers[goarch].libraries {
			puts = append(puts, vm.Put{Host: l, Guest: "/lib/" + filepath.Base(l)})
		}
		return puts, nil
	}
	programs := []string{program}
	for _, p := range []string{"/bin/bash", "/usr/bin/openssl"} {
		if _, err := os.Stat(p); err == nil {
			puts = append(puts, vm.Put{Host: p, Guest: p})
			programs = append(programs, p)
		}
	}
	needed := []string{"/etc/ld.so.cache"}
	for _, p := range programs {
		libraries, err := vm.Libraries(p)
		if err != nil {
			return nil, err
		}
		needed = append(needed, libraries...)
	}
	slices.Sort(needed)
	for _, l := range slices.Compact(needed) {
		puts = append(puts, vm.Put{Host: l, Guest: l})
	}
	return puts, nil
}

// modules lists the modules of a kernel that the cases load: nf_conntrack, its dependencies and one
// user of it. The other modules are for tools/maketarget.
func modules(image string) []vm.Put {
	var all []vm.Put
	paths, _ := filepath.Glob(filepath.Join(filepath.Dir(image), "modules", "*"))
	for _, path := range paths {
		switch name := filepath.Base(path); {
		case name == "order", strings.HasPrefix(name, "nf_") && strings.HasSuffix(name, ".ko"), name == "libcrc32c.ko":
			all = append(all, vm.Put{Host: path, Guest: "/modules/" + name})
		}
	}
	return all
}

// guestWork is the directory of scripts and objects in a guest.
const guestWork = "/t"
