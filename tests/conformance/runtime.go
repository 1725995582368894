package conformance

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"btc/cmd/btc/driver"
	"btc/frontend/diag"
	"btc/ir/target"
)

// attachTimeout is how long a program may take until its probes are attached.
const attachTimeout = 10 * time.Second

// runner runs runtime tests.
type runner struct {
	tests  string // of the checkout; the working directory of each run
	dir    string // for objects
	btrun  string // the loader, under the name that tests expect to see
	target *target.Target
}

// outcome is what one test gave.
type outcome struct {
	failure error      // nil: as expected
	refused *diag.List // not nil: the script did not compile
	output  string
}

// run compiles a test's program, runs it, and compares.
func (r *runner) run(d definition) (o outcome) {
	defer func() {
		if p := recover(); p != nil {
			o.failure = fmt.Errorf("panic: %v", p)
		}
	}()
	out, diags := driver.Compile(driver.Input{Name: diag.Stdin, Text: d.prog, Target: r.target, Compiler: "test"})
	said := messages(diags)
	if out == nil {
		o := outcome{refused: diags, output: said}
		o.failure = r.check(d, o.output, 1, false)
		return o
	}
	path := filepath.Join(r.dir, strings.ReplaceAll(d.key(), "/", "."))
	if err := write(path, out); err != nil {
		return outcome{failure: err}
	}
	run, err := r.trace(d, path+".o")
	if err != nil {
		return outcome{failure: err, output: run.text}
	}
	o.output = run.text
	if !d.exact() {
		o.output = said + run.text
	}
	o.failure = r.check(d, o.output, run.status, run.stopped)
	return o
}

func write(path string, out *driver.Output) error {
	if err := os.WriteFile(path+".o", out.Object, 0o600); err != nil {
		return err
	}
	return os.WriteFile(path+".json", out.Manifest, 0o600)
}

// exact tells whether the whole output is compared.
func (d definition) exact() bool {
	return len(d.expects) > 0 && (d.expects[0].mode == "FILE" || d.expects[0].mode == "JSON")
}

// check compares output and status.
func (r *runner) check(d definition, output string, status int, stopped bool) error {
	for _, e := range d.expects {
		if err := e.met(r.tests, output, d.timestamp); err != nil {
			return err
		}
	}
	switch {
	case stopped:
	case d.willFail && status == 0:
		return fmt.Errorf("want a failure")
	case !d.willFail && status != d.status:
		return fmt.Errorf("exit status %d, want %d", status, d.status)
	}
	return nil
}

// ended is a run that has come to its end.
type ended struct {
	text    string // standard output and standard error
	status  int
	stopped bool // by the test's time limit
}

var attached = regexp.MustCompile(`(?m)^Attached \d+ probes?\n`)

// watch gathers output and closes attached when the loader says so.
type watch struct {
	mu       sync.Mutex
	text     bytes.Buffer
	attached chan struct{}
	once     sync.Once
}

func (w *watch) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.text.Write(p)
	if attached.Match(w.text.Bytes()) {
		w.once.Do(func() { close(w.attached) })
	}
	return n, err
}

func (w *watch) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// trace runs the loader on an object until it ends or the test's time is over.
func (r *runner) trace(d definition, object string) (ended, error) {
	args := []string{}
	json := len(d.expects) > 0 && d.expects[0].mode == "JSON"
	if json {
		args = append(args, "-q", "-f", "json")
	}
	limit := attachTimeout + time.Duration(d.timeout)*time.Second
	ctx, cancel := context.WithTimeout(context.Background(), limit+2*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, r.btrun, append(args, object)...)
	cmd.Dir = r.tests
	cmd.Env = append([]string{"test=" + d.name, "PATH=" + os.Getenv("PATH")}, d.env...)
	w := &watch{attached: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = w, w
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return ended{}, err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	stopped := r.await(d, cmd, w, done, json)
	text := w.String()
	if d.exact() {
		if at := attached.FindStringIndex(text); at != nil {
			text = text[at[1]:]
		}
	}
	return ended{text, cmd.ProcessState.ExitCode(), stopped}, nil
}

// await waits for the end of a run, and ends it when its time is over. AFTER is
// started when the probes are attached.
func (r *runner) await(d definition, cmd *exec.Cmd, w *watch, done <-chan error, json bool) (stopped bool) {
	ready, limit := w.attached, attachTimeout
	if json { // says nothing when it is attached
		ready, limit = nil, time.Duration(d.timeout)*time.Second
	}
	select {
	case <-done:
		return false
	case <-time.After(limit):
	case <-ready:
		if after := d.needs["AFTER"]; after != "" {
			c := exec.Command("sh", "-c", after)
			c.Dir = r.tests
			if c.Start() == nil {
				go c.Wait()
			}
		}
		select {
		case <-done:
			return false
		case <-time.After(time.Duration(d.timeout) * time.Second):
		}
	}
	cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-done:
	case <-time.After(time.Second):
		cmd.Process.Kill()
		<-done
	}
	return true
}
