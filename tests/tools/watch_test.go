// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Names of the tracers.
const (
	btrun    = "btrun"
	bpftrace = "bpftrace"
	bcc      = "libbpf-tools"
)

// job is a workload and the tracers that watch it at the same time.
type job struct {
	Name    string
	W, T    string // of the workload's environment, see tool.run
	Needs   []string
	Run     string
	Until   string // see tool.until
	Bin     string // directory for PATH
	Tracers []tracer
}

type tracer struct {
	Name    string
	Command []string
}

// outcome is the result of a job.
type outcome struct {
	Name    string
	Skipped string // why it was not run
	Problem string // of the workload or of a tracer's end
	Reports map[string]report
}

type report struct {
	Attached bool
	Output   string // standard output and error
}

// settle is how long tracers run on after the workload: libbpf-tools drop what they have not read by the end.
const settle = 500 * time.Millisecond

// watch starts the tracers, in their order, runs the workload once all have attached or failed, and ends the tracers.
func (j job) watch() outcome {
	o := outcome{Name: j.Name, Reports: map[string]report{}}
	path := j.Bin + ":" + os.Getenv("PATH")
	for _, p := range j.Needs {
		found := slices.ContainsFunc(filepath.SplitList(path), func(dir string) bool {
			_, err := os.Stat(filepath.Join(dir, p))
			return err == nil
		})
		if _, err := os.Stat(p); !found && (err != nil || !filepath.IsAbs(p)) {
			o.Skipped = p + " is not there"
			return o
		}
	}
	dir, err := os.MkdirTemp("/var/tmp", "btc-tools") // on a disk, unlike some /tmp
	if err != nil {
		o.Skipped = err.Error()
		return o
	}
	defer os.RemoveAll(dir)
	sessions := map[string]*session{}
	for _, t := range j.Tracers { // one after the other: what one does to start is not for the next to count
		s, err := start(dir, t)
		switch {
		case err != nil:
			o.Reports[t.Name] = report{Output: err.Error()}
		case !s.attached():
			o.Reports[t.Name] = report{Output: s.end()}
		default:
			sessions[t.Name] = s
		}
	}
	if sessions[btrun] != nil {
		begin := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		cmd := exec.CommandContext(ctx, "sh", "-c", j.Run)
		cmd.Env = append(os.Environ(), "D="+dir, "W="+j.W, "T="+j.T, "LC_ALL=C", "PATH="+path)
		if out, err := cmd.CombinedOutput(); err != nil && ctx.Err() != nil {
			o.Problem = fmt.Sprintf("the workload does not end: %s", out)
		}
		cancel()
		for until := regexp.MustCompile("(?m)" + j.Until); !until.MatchString(sessions[btrun].output()); {
			if time.Sleep(50 * time.Millisecond); time.Since(begin) > 2*time.Minute {
				o.Problem = "the tool never prints " + j.Until
				break
			}
		}
		time.Sleep(settle)
	}
	for name, s := range sessions {
		o.Reports[name] = report{Attached: true, Output: s.end()}
		if s.problem != "" {
			o.Problem += name + ": " + s.problem
		}
	}
	return o
}

// session is a tracer that runs.
type session struct {
	name    string
	cmd     *exec.Cmd
	path    string // its output and errors
	ended   chan error
	problem string
}

func start(dir string, t tracer) (*session, error) {
	f, err := os.CreateTemp(dir, "out")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	cmd := exec.Command(t.Command[0], t.Command[1:]...)
	cmd.Stdout, cmd.Stderr = f, f
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &session{name: t.Name, cmd: cmd, path: f.Name(), ended: make(chan error, 1)}
	go func() { s.ended <- cmd.Wait() }()
	return s, nil
}

func (s *session) output() string {
	b, _ := os.ReadFile(s.path)
	return string(b)
}

// attached waits until the tracer has attached. It returns false if it ends before that.
func (s *session) attached() bool {
	for range 6000 {
		select {
		case err := <-s.ended:
			s.ended <- err
			return false
		case <-time.After(50 * time.Millisecond):
		}
		if s.name == bcc && s.waits() || s.name != bcc && strings.Contains(s.output(), "Attached ") {
			return true
		}
	}
	return false
}

// waits reports whether the process, which does not say when it has attached, has programs attached and sleeps until
// something happens. While it attaches it may wait, too, but not so that a signal would end it.
func (s *session) waits() bool {
	proc := fmt.Sprintf("/proc/%d/", s.cmd.Process.Pid)
	stat, err := os.ReadFile(proc + "stat")
	if err != nil || !strings.Contains(string(stat), ") S ") {
		return false
	}
	fds, err := os.ReadDir(proc + "fd")
	if err != nil {
		return false
	}
	return slices.ContainsFunc(fds, func(fd os.DirEntry) bool {
		to, err := os.Readlink(proc + "fd/" + fd.Name())
		return err == nil &&
			(strings.Contains(to, "bpf_link") || strings.Contains(to, "bpf-link") || strings.Contains(to, "perf_event"))
	})
}

// end interrupts the tracer and returns its output.
func (s *session) end() string {
	s.cmd.Process.Signal(os.Interrupt)
	select {
	case err := <-s.ended:
		if err != nil && s.name == btrun {
			s.problem = err.Error()
		}
	case <-time.After(time.Minute):
		s.cmd.Process.Kill()
		s.problem = "it does not end"
	}
	return s.output()
}
