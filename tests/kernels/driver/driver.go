// SPDX-License-Identifier: Apache-2.0

// Package driver runs jobs (a tracing tool and the workload that it observes) on the machine that it
// runs on, and reports which features this machine has.
//
// It reads jobs as JSON lines and writes a stream of JSON records as things happen, so that the results
// so far survive a crash of the machine. The same driver runs in guests, started by cmd/runjobs, and on
// the host.
package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Job is one run of a tool.
type Job struct {
	Name string
	Tool []string // argument vector
	// Before is a background load. The tool is started after its first output.
	Before []string
	After  []string      // workload to start once the tool is attached; when it exits, the tool gets SIGINT
	Needs  []string      // features, see Features
	Limit  time.Duration // for the whole job
}

// Record is one record of the stream. Exactly one of Started, Skipped and Outcome is set: a job writes
// either one record with Skipped, or one with Started and one with Outcome.
type Record struct {
	Job     string
	Started bool     `json:",omitempty"`
	Skipped string   `json:",omitempty"` // the reason
	Outcome *Outcome `json:",omitempty"`
}

// Outcome is the result of one job.
type Outcome struct {
	Stdout, Stderr []byte
	Exit           int    // exit status of the tool; -1 if a signal ended it
	TimedOut       bool   // the tool was killed at the time limit
	Problem        string // why the job could not be carried out; "" if it was
	Report         []byte // what the workload wrote to $WORKLOAD_REPORT
	Took           time.Duration
}

// RunAll runs the jobs one after the other and writes the records to w.
func RunAll(jobs []Job, w io.Writer) error {
	out := json.NewEncoder(w)
	for _, job := range jobs {
		if reason := missingFeature(job.Needs); reason != "" {
			if err := out.Encode(Record{Job: job.Name, Skipped: reason}); err != nil {
				return err
			}
			continue
		}
		if err := out.Encode(Record{Job: job.Name, Started: true}); err != nil {
			return err
		}
		o := run(job)
		if err := out.Encode(Record{Job: job.Name, Outcome: &o}); err != nil {
			return err
		}
	}
	return nil
}

// Dry writes the first record of each job, and runs none.
func Dry(jobs []Job, w io.Writer) error {
	out := json.NewEncoder(w)
	for _, job := range jobs {
		reason := missingFeature(job.Needs)
		if err := out.Encode(Record{Job: job.Name, Skipped: reason, Started: reason == ""}); err != nil {
			return err
		}
	}
	return nil
}

// attachedMark is what the tools print on standard error once all probes are attached.
const attachedMark = "Attached "

func run(job Job) Outcome {
	begin := time.Now()
	dir, err := os.MkdirTemp("", "job")
	if err != nil {
		return Outcome{Exit: -1, Problem: err.Error()}
	}
	defer os.RemoveAll(dir)
	report := filepath.Join(dir, "report")
	environment := append(os.Environ(), "WORKLOAD_REPORT="+report)

	ctx, cancel := context.WithTimeout(context.Background(), job.Limit)
	defer cancel()
	if len(job.Before) > 0 {
		end, err := runBefore(ctx, job.Before, environment)
		if err != nil {
			return Outcome{Exit: -1, Problem: fmt.Sprintf("%s: %v", job.Before[0], err)}
		}
		defer end()
	}
	tool := exec.CommandContext(ctx, job.Tool[0], job.Tool[1:]...)
	tool.Env = environment
	// Children of a killed tool must not keep its pipes open.
	tool.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	tool.Cancel = func() error { return syscall.Kill(-tool.Process.Pid, syscall.SIGKILL) }
	tool.WaitDelay = 5 * time.Second
	var stdout bytes.Buffer
	stderr := watched{mark: attachedMark, seen: make(chan struct{})}
	tool.Stdout, tool.Stderr = &stdout, &stderr
	o := Outcome{Exit: -1}
	if err := tool.Start(); err != nil {
		o.Problem = err.Error()
		return o
	}
	ended := make(chan error, 1)
	go func() { ended <- tool.Wait() }()
	if len(job.After) > 0 {
		var waitErr error
		o.Problem, waitErr = runAfter(ctx, job.After, environment, tool.Process, &stderr, ended)
		ended <- waitErr
	}
	err = <-ended
	o.TimedOut = errors.Is(ctx.Err(), context.DeadlineExceeded)
	o.Exit = tool.ProcessState.ExitCode()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) && !o.TimedOut {
		o.Problem = strings.TrimSpace(o.Problem + " " + err.Error())
	}
	o.Stdout, o.Stderr, o.Took = stdout.Bytes(), stderr.bytes(), time.Since(begin)
	o.Report, _ = os.ReadFile(report) // absent if no workload ran
	return o
}

// runBefore starts the background load and waits for its first output; end kills it.
func runBefore(ctx context.Context, command, environment []string) (end func(), err error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = environment
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	end = func() {
		cmd.Process.Kill()
		cmd.Wait()
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		end()
		return nil, err
	}
	return end, nil
}

// settle is the delay between the "Attached" line of a tool and the start of the workload, and between
// the end of the workload and the signal to the tool.
const settle = 300 * time.Millisecond

// runAfter starts the workload once the tool is attached, waits for its end and interrupts the tool. It
// returns a description of what went wrong and the result of waiting for the tool.
func runAfter(ctx context.Context, command, environment []string, tool *os.Process, stderr *watched, ended <-chan error) (string, error) {
	select {
	case err := <-ended:
		return "the tool ended before the workload was started", err
	case <-stderr.seen:
	}
	time.Sleep(settle)
	problem := ""
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = environment
	if text, err := cmd.CombinedOutput(); err != nil {
		problem = fmt.Sprintf("workload: %v %s", err, text)
	}
	time.Sleep(settle)
	if err := tool.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		problem += " interrupt: " + err.Error()
	}
	return problem, <-ended
}

// watched is a buffer that signals when mark has been written to it.
type watched struct {
	mark string
	seen chan struct{}

	mu   sync.Mutex
	buf  bytes.Buffer
	told bool
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.buf.Write(p)
	if !w.told && bytes.Contains(w.buf.Bytes(), []byte(w.mark)) {
		w.told = true
		close(w.seen)
	}
	return n, err
}

func (w *watched) bytes() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Clone(w.buf.Bytes())
}
