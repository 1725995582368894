// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ended is the result of a run that has ended.
type ended struct {
	text    string // standard output and standard error
	status  int
	stopped bool // by the time limit of the test
}

var attached = regexp.MustCompile(`(?m)^(?:Attached \d+ probes?|\{"type": "attached_probes".*)\n`)

// watch collects output and closes attached when the loader reports that it is attached.
type watch struct {
	mu       sync.Mutex
	text     bytes.Buffer
	attached chan struct{}
	seen     int // bytes of text that have already been searched for the message
	once     sync.Once
}

func (w *watch) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.text.Write(p)
	fresh := w.text.Bytes()[w.seen:]
	if attached.Match(fresh) {
		w.once.Do(func() { close(w.attached) })
	}
	w.seen += bytes.LastIndexByte(fresh, '\n') + 1
	return n, err
}

func (w *watch) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// follow runs a test's command until it exits or reaches the time limit of the test. Once the probes
// are attached, it starts AFTER in the same directory.
func follow(cmd *exec.Cmd, d definition) (ended, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*slowness()*(attachTimeout+time.Duration(d.timeout)*time.Second))
	defer cancel()
	env := append([]string{"test=" + d.name, "PATH=" + os.Getenv("PATH")}, d.env...)
	dir, more := cmd.Dir, cmd.Env
	cmd = exec.CommandContext(ctx, cmd.Path, cmd.Args[1:]...)
	cmd.Dir, cmd.Env = dir, append(env, more...)
	w := &watch{attached: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = w, w
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return ended{}, err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	stopped := await(d, cmd, w, done)
	text := w.String()
	if at := attached.FindStringIndex(text); at != nil && d.exact() {
		text = text[at[1]:]
	}
	return ended{text, cmd.ProcessState.ExitCode(), stopped}, nil
}

// slowness returns the factor for all time limits. Guests are emulated and share the machine.
func slowness() time.Duration {
	if os.Getenv(resultVar) != "" {
		return 5
	}
	return 1
}

// resultVar names the file to which a run in a guest writes its results.
const resultVar = "BTC_CONFORMANCE_RESULT"

// quietTime is the time given to a run that does not report when it is attached.
const quietTime = 1500 * time.Millisecond

// attachTimeout is the time limit for attaching the probes, or for printing the list of all probes. It
// is generous, for busy machines.
const attachTimeout = 40 * time.Second

// endTimeout is the time limit for a program to exit after it was asked to.
const endTimeout = 8 * time.Second

// await waits for a run to end, and ends it at its time limit.
func await(d definition, cmd *exec.Cmd, w *watch, done <-chan error) (stopped bool) {
	group := cmd.Process.Pid
	limit := attachTimeout * slowness()
	var quiet <-chan time.Time
	if d.json() || strings.Contains(d.needs["RUN"], " -q") {
		quiet = time.After(quietTime)
	}
	select {
	case <-done:
		return false
	case <-time.After(limit):
	case <-quiet:
		stopped, over := rest(d, cmd.Dir, done)
		if over {
			return stopped
		}
	case <-w.attached:
		stopped, over := rest(d, cmd.Dir, done)
		if over {
			return stopped
		}
	}
	syscall.Kill(-group, syscall.SIGTERM)
	select {
	case <-done:
	case <-time.After(endTimeout * slowness()):
		syscall.Kill(-group, syscall.SIGKILL)
		<-done
	}
	return true
}

// rest starts AFTER and waits for the end of the run or its time limit.
func rest(d definition, dir string, done <-chan error) (stopped, over bool) {
	if a := d.needs["AFTER"]; a != "" {
		after := exec.Command("bash", "-c", a)
		after.Dir = dir
		after.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		var out bytes.Buffer
		after.Stdout, after.Stderr = &out, &out
		after.WaitDelay = time.Second
		if after.Start() == nil {
			defer func() {
				syscall.Kill(-after.Process.Pid, syscall.SIGKILL)
				after.Wait()
			}()
		}
	}
	select {
	case <-done:
		return false, true
	case <-time.After(time.Duration(d.timeout) * time.Second * min(2, slowness())):
		return true, false
	}
}
