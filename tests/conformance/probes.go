// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// shell runs the tests that need probes, other programs or a command line, with the adapter
// (./bpftrace) in place of bpftrace.
type shell struct {
	dir     string // working directory: testprogs, testlibs, runtime
	adapter string // path of the program called bpftrace
	using   sync.Map
}

// hold locks the programs that this test runs, so that no other test runs them: a probe sees all
// processes of its program.
func (s *shell) hold(d definition) (release func()) {
	names := map[string]bool{}
	for _, m := range ownProgram.FindAllStringSubmatch(strings.Join(append(d.befores, d.prog, d.needs["RUN"], d.needs["AFTER"]), " "), -1) {
		name, _, _ := strings.Cut(filepath.Base(m[1]), "-")
		names[name] = true
	}
	var held []*sync.Mutex
	for _, name := range slices.Sorted(maps.Keys(names)) { // always in the same order, to avoid deadlocks
		m, _ := s.using.LoadOrStore(name, &sync.Mutex{})
		m.(*sync.Mutex).Lock()
		held = append(held, m.(*sync.Mutex))
	}
	return func() {
		for _, m := range held {
			m.Unlock()
		}
	}
}

// command returns the command line of the test.
func (s *shell) command(d definition) string {
	if run := d.needs["RUN"]; run != "" {
		return strings.ReplaceAll(run, "{{BPFTRACE}}", s.adapter)
	}
	json := ""
	if d.json() {
		json = "-q -f json"
	}
	return fmt.Sprintf("%s %s -e '%s'", s.adapter, json, strings.ReplaceAll(d.prog, "'", `'\''`))
}

func (d definition) json() bool { return len(d.expects) > 0 && d.expects[0].mode == "JSON" }

// alone reports whether a test looks at processes or programs of the whole machine, so that no other
// test may run at the same time.
func (d definition) alone() bool {
	return wholeMachine.MatchString(d.prog + d.needs["RUN"] + d.needs["AFTER"])
}

var wholeMachine = regexp.MustCompile(`\b(pidof|pkill|killall|bpftool)\b|usdt:\*|fentry:bpf|/tmp/bpftrace-file`)

// run runs a test and compares its output.
func (s *shell) run(d definition) (o outcome) {
	defer s.hold(d)()
	before, err := s.before(d)
	defer func() {
		for _, p := range before {
			p.stop()
		}
		if c := d.needs["CLEANUP"]; c != "" {
			s.sh(c).Run()
		}
	}()
	if err != nil {
		return outcome{failure: err}
	}
	line := s.command(d)
	if len(before) > 0 {
		line = strings.ReplaceAll(line, "{{BEFORE_PID}}", strconv.Itoa(before[0].pid))
	}
	run, err := s.trace(d, line)
	o.output = run.text
	if err != nil {
		o.failure = err
		return o
	}
	r := runner{tests: s.dir}
	o.failure = r.check(d, o.output, run.status, run.stopped)
	return o
}

func (s *shell) sh(command string) *exec.Cmd {
	c := exec.Command("bash", "-c", command)
	c.Dir = s.dir
	return c
}

// started is a program of a BEFORE. pid is the process that has its name: a descendant of cmd if a
// wrapper starts it.
type started struct {
	cmd *exec.Cmd
	pid int
}

func (p started) stop() {
	syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	p.cmd.Wait()
}

// before starts the programs of BEFORE and waits until each has become the expected process.
func (s *shell) before(d definition) ([]started, error) {
	var all []started
	for _, b := range d.befores {
		words := strings.Fields(b)
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Dir = s.dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			return all, fmt.Errorf("BEFORE %s: %w", b, err)
		}
		name := filepath.Base(words[len(words)-1])
		if filepath.Base(words[0]) == "watchpoint_threaded" {
			name = "watchpoint_threaded"
		}
		p := started{cmd: cmd}
		for end := time.Now().Add(5 * time.Second); p.pid == 0; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				return append(all, p), fmt.Errorf("BEFORE %s: no process named %s", b, name)
			}
			p.pid = named(cmd.Process.Pid, name[:min(len(name), 15)])
		}
		all = append(all, p)
	}
	return all, nil
}

// named returns the process called name: pid or one of its descendants.
func named(pid int, name string) int {
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err == nil && strings.TrimSpace(string(comm)) == name {
		return pid
	}
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, c := range strings.Fields(string(children)) {
		child, _ := strconv.Atoi(c)
		if found := named(child, name); found != 0 {
			return found
		}
	}
	return 0
}

// trace runs the test's command until it exits or reaches its time limit.
func (s *shell) trace(d definition, line string) (ended, error) {
	cmd := exec.Command("bash", "-c", line)
	cmd.Dir = s.dir
	if strings.Contains(line, "tail -n +2") { // the test removes a line that bpftrace prints for its test runner
		cmd.Env = append(cmd.Env, "__BPFTRACE_NOTIFY_PROBES_ATTACHED=1")
	}
	return follow(cmd, d)
}

// ownProgram matches the names of the tests' programs and libraries in a command.
var ownProgram = regexp.MustCompile(`(?:\./)?(test(?:progs|libs)/[\w./-]+)`)
