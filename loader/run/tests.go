// SPDX-License-Identifier: Apache-2.0

package run

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"btc/internal/probe"
	"btc/loader/diag"
	"btc/loader/output"
	"btc/loader/resolve"
	"btc/loader/sites"
)

// Tests and benchmarks are programs that the kernel runs on request (BPF_PROG_TEST_RUN), with a
// packet of their own. Both print what bpftrace prints for them, except for the duration of a test,
// which is measured here.

// packet is the smallest input that the kernel accepts: an Ethernet header.
var packet = make([]byte, 14)

// errNone returns the error of a script that has nothing for the chosen mode, or only probes of another
// mode.
func (s *session) errNone() error {
	has := map[string]bool{}
	for i := range s.manifest.Programs {
		has[s.manifest.Programs[i].Kind] = true
	}
	switch mode := s.opts.Mode; {
	case mode != "":
		return fmt.Errorf("%s has no %s probes", s.manifest.Script.File, mode)
	case has[probe.Test]:
		//lint:ignore ST1005 bpftrace's words
		return errors.New("No probes attached; use --test to run test probes.")
	case has[probe.Bench]:
		//lint:ignore ST1005 bpftrace's words
		return errors.New("No probes attached; use --bench to run benchmark probes.")
	}
	return ErrNoProbes
}

// trial is a program that runs once or many times while its output is held back.
type trial struct {
	name   string
	plan   *resolve.Plan
	prog   *ebpf.Program
	output []byte // output of the last run
	passed bool   // the last run returned 0, without an exit code or errors
	result uint32
	took   time.Duration // duration of one run
}

// hasKind reports whether programs of a kind take part in the run.
func hasKind(e *sites.Expansion, kind string) bool {
	for i := range e.Plans {
		if e.Plans[i].Prog.Kind == kind {
			return true
		}
	}
	return false
}

// trials runs the programs of the mode.
type trials struct{ *session }

// list lists the programs.
func (s *trials) list() []*trial {
	var all []*trial
	for i := range s.expansion.Plans {
		if p := &s.expansion.Plans[i]; p.Prog.Kind == s.opts.Mode {
			all = append(all, &trial{name: p.Prog.Attach.Name, plan: p, prog: s.loaded.Programs[i].Of[0]})
		}
	}
	return all
}

// trialNames returns the names of the trials.
func trialNames(all []*trial) []string {
	var names []string
	for _, t := range all {
		names = append(names, t.name)
	}
	return names
}

// run runs the program n times and then handles the records that it sent.
func (s *trials) run(t *trial, times int) error {
	var text bytes.Buffer
	opts, errOut, kept, front, back, rec := s.opts, s.msg.err, s.msg.printer, s.front, s.back, s.msg.rec
	s.opts.Sink, s.opts.Out, s.msg.err, s.opts.Escape, s.opts.Buffer = &output.Text, &text, &text, false, "full"
	s.opts.Record, s.msg.rec = nil, nil // the output is part of the result
	s.startPrinter()
	defer func() {
		s.stopPrinter()
		s.opts, s.msg.err, s.msg.printer, s.front, s.back, s.msg.rec = opts, errOut, kept, front, back, rec
	}()
	s.end.errors = 0
	var err error
	if t.result, t.took, err = t.prog.Benchmark(packet, times, nil); err != nil {
		return &diag.Error{
			Script: &s.manifest.Script,
			Pos:    t.plan.Prog.Pos,
			Text:   fmt.Sprintf("cannot run %s: %v", t.plan.Prog.Attach.Text, err),
			Cause:  err,
		}
	}
	for !s.end.exited {
		record := s.reader.events.next()
		if record == nil {
			break
		}
		s.reader.awaitRoom(false)
		s.reader.handleOne(record)
	}
	s.losses.checkLoops(true)
	if s.end.exited { // queued after exit()
		s.reader.events.discard()
	}
	t.passed = t.result == 0 && s.end.status == 0 && s.end.errors == 0
	s.end.exited, s.end.status = false, 0
	if err := s.stopPrinter(); err != nil {
		return err
	}
	t.output = text.Bytes()
	return nil
}

// runTests runs each test once. If one fails, the status of the run is 1.
func (s *trials) runTests() error {
	all := s.list()
	failed := false
	s.front.sink.BeginTrials(s.opts.Mode, trialNames(all))
	for _, t := range all {
		if s.end.stopped() {
			break
		}
		if err := s.run(t, 1); err != nil {
			return err
		}
		failed = failed || !t.passed
		s.report(t, 1)
		s.front.Out.Idle()
	}
	s.front.sink.EndTrials()
	if failed {
		s.end.status = 1
	}
	return nil
}

// report prints the result of a trial.
func (s *trials) report(t *trial, times int) {
	s.front.sink.Trial(&output.Trial{
		Name: t.name, Mode: s.opts.Mode, Passed: t.passed, Took: t.took, Iterations: times,
		Output: t.output,
	})
}

// enough is the minimum duration of a benchmark.
const enough = time.Millisecond

// runBenchmarks runs each benchmark until its time is precise enough. It skips a benchmark that
// returns anything but 0. If one reports errors, the status of the run is 1.
func (s *trials) runBenchmarks() error {
	all := s.list()
	s.front.sink.BeginTrials(s.opts.Mode, trialNames(all))
	for _, t := range all {
		times := 1
		for !s.end.stopped() {
			if err := s.run(t, times); err != nil {
				return err
			}
			total := t.took * time.Duration(times)
			if t.passed && total < enough {
				times = more(times, total)
				continue
			}
			if t.passed {
				s.report(t, times)
			} else if t.result == 0 {
				s.front.later(0, t.plan.Prog.Pos, func(back *writer) { back.errorLine(fmt.Sprintf("ERROR: Benchmark '%s' failed.", t.name)) })
				s.end.status = 1
			}
			s.front.Out.Idle()
			break
		}
	}
	s.front.sink.EndTrials()
	return nil
}

// more returns the next repetition count, given the duration of n repetitions.
func more(n int, total time.Duration) int {
	switch {
	case total < time.Microsecond:
		n *= 1000
	case total < 10*time.Microsecond:
		n *= 100
	case total < 100*time.Microsecond:
		n *= 10
	default:
		n *= 2
	}
	return min(n, 1<<30)
}
