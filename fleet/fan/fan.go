// SPDX-License-Identifier: Apache-2.0

// Package fan runs one object on many hosts at once and merges their reports. It takes hosts, and
// functions that return the command to reach a host (ssh, kubectl exec), the object for an
// architecture, and the btrun to copy to hosts that have none. On each host the command runs btrun
// --remote, which reads the object from standard input and writes json2 to standard output. The
// package returns the merged runs and a result for each host. A host that exceeds its time limit, or
// sends nothing for a while, is abandoned: the end of its input ends the run there. The package opens
// no network connections itself and prints nothing.
package fan

import (
	"context"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"btc/fleet/merge"
	"btc/internal/manifest"
)

// Host is a host to run on.
type Host struct {
	Name string
	// Problem is the reason why the host cannot be reached, if that is known in advance, or "".
	Problem string
}

// State is how the run of a host ended.
type State string

// The states. The report includes the hosts in state OK.
const (
	OK         State = "ok"
	Failed     State = "failed"      // btrun, or the connection, reported an error
	Late       State = "late"        // the host did not answer, or did not end the run, in time
	NotStarted State = "not started" // the fan was interrupted before its run
)

// Result is the outcome for a host.
type Result struct {
	Host   Host
	State  State
	Reason string // for all states but OK
	// Counted means that the host is in the merged runs. With Partial, a host that was lost counts
	// with its last snapshot.
	Counted bool
	Arch    string // architecture label; "": not reported
	Kernel  string // kernel release
	Status  int    // exit status of btrun
	Took    time.Duration
}

// Counts is the number of hosts in each phase. Bad hosts are included in Done.
type Counts struct{ All, Waiting, Connecting, Running, Done, Bad int }

// Fan configures a run. Its functions are called from several goroutines; calls to Event, Message
// and Progress are serialized.
type Fan struct {
	Hosts []Host
	// Command returns the command that runs btrun --remote - on a host.
	Command func(h Host) *exec.Cmd
	// Object returns the object for an architecture and its manifest, as one stream, and what is
	// in the manifest.
	Object func(archLabel string) ([]byte, *manifest.Manifest, error)
	// Program returns btrun for an architecture. If it is not nil, the command prints MachineMark
	// and the output of uname -m, reads a line with a size and then the program of that size, and
	// runs that. nil: hosts have btrun.
	Program func(archLabel string) ([]byte, error)
	// Event is called with each line of json2 that is not part of the report. The line is valid
	// until Event returns.
	Event func(h Host, line []byte)
	// Message is called with each line of a run's error output.
	Message func(h Host, line string)
	// Progress is called when a host changes its phase.
	Progress func(Counts)

	// Identity identifies the script, for runs whose objects differ by architecture; "": compare
	// the hashes of the objects.
	Identity string
	ByHost   bool
	Parallel int           // maximum number of hosts at a time, at least 1
	Connect  time.Duration // time limit for a host's first answer
	Timeout  time.Duration // duration of the run; 0: unlimited
	// Grace is the time limit for the report after the end of the run, and after an interrupt. A host that sends
	// nothing for this time, but at least 10 s, is late.
	Grace time.Duration
	// Waits means that runs may wait before they attach, so that Timeout begins then.
	Waits bool
	// Partial means that hosts send snapshots, and that a host that is lost counts with its last
	// one.
	Partial bool
	// Live keeps what hosts have sent last for Snapshot.
	Live bool

	sessions []atomic.Pointer[session] // with Live, by host
	mu       sync.Mutex                // guards counts, and serializes callbacks
	counts   Counts
	set      merge.Set
	shares   shares
}

// Run runs the object on all hosts. When ctx ends, the hosts are asked to end their runs; when kill
// ends, their commands are killed. The results are in the order of the hosts. A host whose report
// contradicts its object, or those of most hosts, fails like one that is lost.
func (f *Fan) Run(ctx, kill context.Context) ([]Result, *merge.Runs) {
	f.set.ByHost = f.ByHost
	f.counts = Counts{All: len(f.Hosts), Waiting: len(f.Hosts)}
	f.shares.slots = runtime.GOMAXPROCS(0)
	results := make([]Result, len(f.Hosts))
	if f.Live && f.sessions == nil {
		f.Prepare()
	}
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(max(f.Parallel, 1), len(f.Hosts)) {
		wg.Go(func() {
			for i := range next {
				results[i] = f.host(ctx, kill, i)
			}
		})
	}
	for i := range f.Hosts {
		next <- i
	}
	close(next)
	wg.Wait()
	all, refused := f.set.Runs()
	for _, x := range refused {
		r := &results[x.Index]
		r.State, r.Reason, r.Counted = Failed, reasonOf(r.Host, x.Err), false
	}
	return results, all
}

// Prepare makes Snapshot work before Run has begun.
func (f *Fan) Prepare() { f.sessions = make([]atomic.Pointer[session], len(f.Hosts)) }

// Snapshot merges what the hosts have sent last, while Run runs or after it, and reports which hosts are up: their
// programs run, and their last snapshot is not older than fresh. Without ByHost the hosts that are not up any more
// are part of the sums, so that counts never decrease; with it, their keys are not there. Live must be set.
func (f *Fan) Snapshot(fresh time.Duration) (runs *merge.Runs, up []bool) {
	set := merge.Set{ByHost: f.ByHost}
	up = make([]bool, len(f.Hosts))
	for i := range f.sessions {
		s := f.sessions[i].Load()
		if s == nil {
			continue
		}
		s.mu.Lock()
		up[i] = s.up && time.Since(s.at) <= fresh
		if s.stream.Maps() > 0 && (up[i] || !f.ByHost) {
			set.Fold(i, &s.stream) // an error makes the host fail at the end of its run
		}
		s.mu.Unlock()
	}
	runs, _ = set.Runs()
	return runs, up
}

// reasonOf returns an error of package merge without the name of the host.
func reasonOf(h Host, err error) string { return strings.TrimPrefix(err.Error(), h.Name+": ") }

// phase returns the counter of a phase.
type phase func(c *Counts) *int

func waiting(c *Counts) *int    { return &c.Waiting }
func connecting(c *Counts) *int { return &c.Connecting }
func running(c *Counts) *int    { return &c.Running }

// enter moves a host to its next phase; nil means done.
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

// host runs the object on one host.
func (f *Fan) host(ctx, kill context.Context, index int) Result {
	h := f.Hosts[index]
	s := &session{fan: f, index: index, phase: waiting}
	s.stream = merge.Stream{Name: h.Name, Host: h.Name, Object: f.Identity}
	s.result.Host = h
	if f.Live {
		f.sessions[index].Store(s)
	}
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
