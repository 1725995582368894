// SPDX-License-Identifier: Apache-2.0

// Package fan runs one object on many hosts at once and merges what they report.
//
// It takes hosts, and functions that make the command that reaches a host (ssh, kubectl exec), the
// object for an architecture, and the program to copy where hosts have none. On each host the command
// runs btrun --remote, which reads the object from standard input and writes json2 to standard output.
// It returns the merged runs and a result for each host. A host is left alone when its time is over:
// the end of its input ends the run there. It opens no network connection itself and prints nothing.
package fan

import (
	"context"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"btc/internal/merge"
)

// Host is a host to run on.
type Host struct {
	Name string
	// Problem is why it cannot be asked, known before; "": nothing.
	Problem string
}

// State is how the run of a host ended.
type State string

// The states. Hosts in state OK are in the report.
const (
	OK         State = "ok"
	Failed     State = "failed"      // it, or the way to it, reported an error
	Late       State = "late"        // it did not answer, or not end, in time
	NotStarted State = "not started" // the fan was interrupted before
)

// Result is what became of a host.
type Result struct {
	Host   Host
	State  State
	Reason string // of all states but OK
	// Counted: it is in the merged runs. A host that was lost counts with its last snapshot.
	Counted bool
	Arch    string // label; "": it did not say
	Kernel  string // release
	Status  int    // exit status of the run there
	Took    time.Duration
}

// Counts is how many hosts are in which phase. Bad ones are part of Done.
type Counts struct{ All, Waiting, Connecting, Running, Done, Bad int }

// Fan is the run. The functions are called from several goroutines; calls to Event, Message and Progress
// are one after the other.
type Fan struct {
	Hosts []Host
	// Command makes the command that runs btrun --remote - on a host.
	Command func(h Host) *exec.Cmd
	// Object returns the object for an architecture with its manifest, as one stream.
	Object func(archLabel string) ([]byte, error)
	// Program returns btrun for an architecture. The command then begins by printing MachineMark and
	// the output of uname -m, and reads a line with a size and so many bytes of the program before it
	// runs that. nil: hosts have btrun.
	Program func(archLabel string) ([]byte, error)
	// Event is called with each line of json2 that is not of the report. It is valid until Event returns.
	Event func(h Host, line []byte)
	// Message is called with each line of the error output of a run.
	Message func(h Host, line string)
	// Progress is called when a host changes its phase.
	Progress func(Counts)

	// Maps are the names of the object's maps: a host that reports others is not running it. nil: any.
	Maps []string
	// Identity is what tells runs of one script, whose objects differ by architecture; "": the object.
	Identity string
	ByHost   bool
	Parallel int           // hosts at a time, at least 1
	Connect  time.Duration // until a host answers
	Timeout  time.Duration // of the run there; 0: it has none
	Grace    time.Duration // for a host to report after the run's time, and after an interrupt
	// Partial: hosts send snapshots, and one that is lost counts with its last.
	Partial bool

	mu     sync.Mutex // of counts, and of calls
	counts Counts
	pool   chan *merge.Runs
}

// Run runs the fan. When ctx ends, hosts are asked to end; when kill ends, their commands are killed.
// The results are in the order of the hosts.
func (f *Fan) Run(ctx, kill context.Context) ([]Result, *merge.Runs, error) {
	n := min(runtime.NumCPU(), max(len(f.Hosts), 1))
	f.pool = make(chan *merge.Runs, n)
	for range n {
		f.pool <- &merge.Runs{ByHost: f.ByHost}
	}
	f.counts = Counts{All: len(f.Hosts), Waiting: len(f.Hosts)}
	results := make([]Result, len(f.Hosts))
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(max(f.Parallel, 1), len(f.Hosts)) {
		wg.Go(func() {
			for i := range next {
				results[i] = f.host(ctx, kill, f.Hosts[i])
			}
		})
	}
	for i := range f.Hosts {
		next <- i
	}
	close(next)
	wg.Wait()
	all := <-f.pool
	for range n - 1 {
		if err := all.Add(<-f.pool); err != nil {
			return results, nil, err
		}
	}
	return results, all, nil
}

// phase returns the counter of a phase.
type phase func(c *Counts) *int

func waiting(c *Counts) *int    { return &c.Waiting }
func connecting(c *Counts) *int { return &c.Connecting }
func running(c *Counts) *int    { return &c.Running }

// enter moves a host to its next phase; nil: it is done.
func (f *Fan) enter(from, to phase, bad bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*from(&f.counts)--
	if to != nil {
		*to(&f.counts)++
	} else {
		f.counts.Done++
	}
	if bad {
		f.counts.Bad++
	}
	if f.Progress != nil {
		f.Progress(f.counts)
	}
}

// host runs on one host.
func (f *Fan) host(ctx, kill context.Context, h Host) Result {
	s := &session{fan: f, phase: waiting, stream: merge.Stream{Name: h.Name, Host: h.Name, Object: f.Identity}}
	s.result.Host = h
	began := time.Now()
	r := &s.result
	switch {
	case h.Problem != "":
		r.State, r.Reason = Failed, h.Problem
	case ctx.Err() != nil:
		r.State, r.Reason = NotStarted, "the run was interrupted before"
	default:
		s.enter(connecting)
		s.run(ctx, kill)
		s.conclude()
	}
	r.Took = time.Since(began)
	f.enter(s.phase, nil, r.State != OK)
	return *r
}
