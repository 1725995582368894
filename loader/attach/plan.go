// SPDX-License-Identifier: Apache-2.0

// Package attach attaches loaded programs to the sites of their plans, which package sites has found, and detaches
// them. Each kind of probe has a file and a row in the table of attachers. It resolves no names, and chooses no strategy.
package attach

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"btc/internal/probe"
	"btc/loader/host"
	"btc/loader/resolve"
)

// Options are the user's options that affect links.
type Options struct {
	PIDs   []int // the only processes whose events count
	Follow bool  // and all that they start
	Child  int   // the stopped process of -c; 0: none
	// PinDir opens the directory of an iterator's pin, and returns the pin's name there; nil: paths are used
	// unchanged.
	PinDir func(path string) (dir *os.File, name string, err error)
	// Stop is closed to stop attaching; nil: never.
	Stop <-chan struct{}
	// Made counts the attached sites; may be nil.
	Made *atomic.Int64

	pid int // process of a match
}

func (o *Options) stopped() bool {
	select {
	case <-o.Stop:
		return true
	default:
		return false
	}
}

// process returns the process that links of user space probes are limited to: that of the match, or
// that of -c; 0: all.
func (o *Options) process() int {
	if o.pid != 0 || o.Follow {
		return o.pid
	}
	return o.Child
}

// attacher creates the link of one match.
type attacher func(*resolve.Plan, *resolve.Match, *ebpf.Program, Options, *host.Host) (io.Closer, error)

// attachers has a row for each kind that is attached.
var attachers = map[string]attacher{
	probe.Kprobe:        attachKprobe,
	probe.Kretprobe:     attachKprobe,
	probe.Tracepoint:    attachTracepoint,
	probe.RawTracepoint: attachRawTracepoint,
	probe.Fentry:        attachTracing,
	probe.Fexit:         attachTracing,
	probe.Uprobe:        attachUprobe,
	probe.Uretprobe:     attachUprobe,
	probe.USDT:          attachUprobe,
	probe.Profile:       attachProfile,
	probe.Interval:      attachInterval,
	probe.Software:      attachCounter,
	probe.Hardware:      attachCounter,
	probe.Watchpoint:    attachWatchpoint,
	probe.Iter:          attachIter,
}

// Programs are the loaded programs of a plan.
type Programs struct {
	// Strategy is the plan's strategy, or the one that the kernel accepted instead.
	Strategy resolve.Strategy
	// Of has a program for each match, the same one for several if they share it; nil for one
	// that the kernel refused.
	Of []*ebpf.Program
}

// Attached is the result of Attach.
type Attached struct {
	Links   []io.Closer
	Refused []string // functions of a multi link that the kernel did not accept
	sites   int      // attach sites that have a link
}

// Attach creates a plan's links. On error it also returns the links created so far.
func Attach(p *resolve.Plan, progs Programs, opts Options, h *host.Host) (Attached, error) {
	out := Attached{sites: len(p.Matches)}
	if progs.Strategy == resolve.Multi || progs.Strategy == resolve.SharedRaw {
		l, refused, err := attachOnce(p, progs, opts)
		if err != nil {
			return out, &resolve.Failure{Probe: p.Prog.Attach.Text, Cause: explain(p.Prog.Kind, err)}
		}
		out.Links, out.Refused = []io.Closer{l}, refused
		out.sites -= len(refused)
		return out, nil
	}
	// Matches of a pattern that turn out not to be probeable are skipped: the kernel refuses some functions that it
	// lists.
	several := len(p.Matches) > 1
	var failure *resolve.Failure
	for i := range p.Matches {
		if opts.stopped() {
			break
		}
		if progs.Of[i] == nil { // refused when it was loaded
			continue
		}
		attach := attachers[p.Prog.Kind]
		if progs.Strategy == resolve.Raw {
			attach = attachRawTracepoint
		}
		opts.pid = p.Matches[i].PID
		l, err := attach(p, &p.Matches[i], progs.Of[i], opts, h)
		if err != nil {
			failure = &resolve.Failure{Probe: p.Matches[i].Text, Cause: explain(p.Prog.Kind, err)}
			if !several || outOfRoom(err) {
				break
			}
			continue
		}
		out.Links = append(out.Links, l)
		if opts.Made != nil {
			opts.Made.Add(int64(1 + len(p.Joined)))
		}
	}
	out.sites = len(out.Links)
	if failure != nil && (len(out.Links) == 0 || !several || outOfRoom(failure.Cause)) {
		return out, failure
	}
	return out, nil
}

// attachOnce creates the single link for all matches.
func attachOnce(p *resolve.Plan, progs Programs, opts Options) (l io.Closer, refused []string, err error) {
	switch {
	case progs.Strategy == resolve.SharedRaw:
		l, err = linkRaw(p.Direction, progs.Of[0])
		return l, nil, err
	case p.AttachType == ebpf.AttachTraceKprobeMulti:
		return attachKprobeMulti(p, progs.Of[0])
	}
	return attachMulti(p, progs.Of, opts)
}

// explain adds the missing capabilities to a refusal for lack of privileges, and other causes on the host.
func explain(kind string, err error) error {
	needs := []string{"CAP_BPF", "CAP_PERFMON"}
	switch kind {
	case probe.Uprobe, probe.Uretprobe, probe.USDT:
		needs = append(needs, "CAP_SYS_ADMIN") // perf_uprobe_event_init
	case probe.Tracepoint:
		needs = append(needs, "CAP_DAC_READ_SEARCH") // the id's file in tracefs
	case probe.Watchpoint:
		needs = append(needs, "CAP_SYS_ADMIN") // addresses of the kernel: hw_breakpoint_parse
	}
	if hint := host.Hint(err, needs...); hint != "" {
		err = fmt.Errorf("%w (%s)", err, hint)
	}
	return err
}

// outOfRoom reports whether an error would occur for all further attach sites, too.
func outOfRoom(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM) ||
		errors.Is(err, unix.EPERM) ||
		errors.Is(err, unix.EACCES)
}

// Probes returns the number of probes of the plan that are attached.
func (a *Attached) Probes(p *resolve.Plan) int { return p.Probes(a.sites) }
