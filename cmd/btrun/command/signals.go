// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"btc/btrace"
	"btc/internal/quit"
)

// impatience is the time after the first signal from which another one ends the run at once.
// Earlier ones are copies of the first: timeout(1) sends its signal to the process and then to its
// group, which includes the process.
const impatience = time.Second

// guard ends a run on a signal, or when the sender of the object asks for it.
type guard struct {
	signals, brokenPipe chan os.Signal
	reloads             chan os.Signal // one, which may stand for several
	begun               chan struct{}  // closed once the run is loaded, or cannot be
	early               chan struct{}  // closed once the signals before that have been handled
	over                chan struct{}  // closed once everything is detached

	mu      sync.Mutex
	session *btrace.Session // nil until loaded
	ended   bool            // ended before it was loaded
	wait    chan struct{}   // closed to end the wait for a container
}

// newGuard catches signals before the run is loaded. SIGINT, SIGTERM and SIGHUP end the process as without a handler,
// but first discard is called, which removes new output files. SIGUSR1 is kept for the run.
func newGuard(discard func()) *guard {
	g := &guard{
		signals: make(chan os.Signal, 4), brokenPipe: make(chan os.Signal, 1), reloads: make(chan os.Signal, 1),
		begun: make(chan struct{}), early: make(chan struct{}), over: make(chan struct{}), wait: make(chan struct{}),
	}
	wanted := []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGUSR1}
	if !signal.Ignored(unix.SIGHUP) { // nohup(1) ignores it
		wanted = append(wanted, unix.SIGHUP)
	}
	signal.Notify(g.signals, wanted...)
	quit.Before(discard)
	go g.beforeRun(discard)
	return g
}

func (g *guard) beforeRun(discard func()) {
	defer close(g.early)
	held := false
	for {
		select {
		case <-g.begun:
			if held {
				select {
				case g.signals <- unix.SIGUSR1:
				default: // others are waiting
				}
			}
			return
		case sig := <-g.signals:
			if held = held || sig == unix.SIGUSR1; sig == unix.SIGUSR1 {
				continue
			}
			discard()
			signal.Reset(sig)
			unix.Kill(os.Getpid(), sig.(unix.Signal))
			time.Sleep(impatience)
			os.Exit(128 + int(sig.(unix.Signal))) // the signal was ignored before
		}
	}
}

// loaded makes the first SIGINT, SIGTERM or SIGHUP end the run in an orderly way, and a later one
// end it at once. SIGUSR1 runs the self probes, or prints the maps if the script has none, but not
// before attached is closed.
func (g *guard) loaded(s *btrace.Session, attached <-chan struct{}) {
	close(g.begun)
	<-g.early
	// With this, writing to a closed pipe returns an error instead of killing the process. Ignoring
	// SIGPIPE would be inherited by the commands that it starts.
	signal.Notify(g.brokenPipe, unix.SIGPIPE)
	quit.Before(s.RestoreTerminal)
	go handleSignals(s, g.signals, attached, g.over)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.session = s
	if g.ended {
		s.Stop()
	}
}

// release ends the control of the run by signals. They stay caught until the process exits: a copy
// of the signal that ended the run must not kill it before that.
func (g *guard) release() {
	if g.session == nil {
		close(g.begun)
		<-g.early
		return
	}
	close(g.over)
}

// end ends the run in an orderly way.
func (g *guard) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.session != nil {
		g.session.Stop()
		return
	}
	if !g.ended {
		close(g.wait)
	}
	g.ended = true
}

// abandon ends the run as end does, and exits if its report cannot be written.
func (g *guard) abandon() {
	g.end()
	time.Sleep(reportTime)
	os.Exit(1)
}

// waiting is the context of a wait for a container. context.WithCancel would add 10 KB to the
// program.
type waiting struct {
	context.Context
	ended chan struct{}
}

func (w waiting) Done() <-chan struct{} { return w.ended }

func (w waiting) Err() error {
	select {
	case <-w.ended:
		return context.Canceled
	default:
		return nil
	}
}

// controlled is the part of a *btrace.Session that signals control.
type controlled interface {
	RunSelf() bool
	PrintMaps()
	Stop()
	RestoreTerminal()
}

// handleSignals acts on signals until their channel is closed. SIGUSR1 does nothing once over is
// closed.
func handleSignals(s controlled, signals <-chan os.Signal, attached, over <-chan struct{}) {
	var stopped time.Time // zero: no signal to end yet
	held := false         // SIGUSR1 came before everything was attached
	user := func() {
		if !s.RunSelf() {
			s.PrintMaps()
		}
	}
	ready := func() {
		if attached = nil; held {
			user()
		}
	}
	for {
		select {
		case <-attached:
			ready()
		case <-over:
			user, over = func() {}, nil
		case sig, ok := <-signals:
			select {
			case <-attached: // at the same time
				ready()
			default:
			}
			switch {
			case !ok:
				return
			case sig == unix.SIGUSR1 && attached != nil:
				held = true
			case sig == unix.SIGUSR1:
				user()
			case stopped.IsZero():
				stopped = time.Now()
				s.Stop()
			case time.Since(stopped) >= impatience:
				s.RestoreTerminal()
				os.Exit(128 + int(sig.(unix.Signal)))
			}
		}
	}
}

// brokenPipe is the exit status if the output is no longer read: that of a process killed by
// SIGPIPE, as a shell reports it.
const brokenPipe = 128 + int(unix.SIGPIPE)

// runObject runs an object until a signal or the run itself ends it. discard removes new output
// files if a signal comes before the run has begun; told, which may be nil, is called when all probes are attached.
func runObject(o *arguments, object *btrace.Object, discard, told func()) (status int, err error) {
	manager := newNotifier()
	defer manager.close()
	o.Process.Alive, o.Process.Ending = manager.alive, manager.ending
	g := newGuard(discard)
	if o.Reload {
		signal.Notify(g.reloads, unix.SIGUSR2)
	}
	defer g.release() // after everything is detached
	if o.Remote {
		go o.watchInput(maxSilence, g.end, g.abandon)
	}
	report := btrace.Report(o.Report)
	s, err := btrace.LoadReport(waiting{context.Background(), g.wait}, object, btrace.Options(o.Run), &report)
	if err != nil {
		return 1, err
	}
	defer manager.send("STOPPING=1")
	attached := make(chan struct{})
	g.loaded(s, attached)
	defer s.Close()
	if o.DryRun {
		if !o.Quiet && o.format.Name == "text" {
			n, plural := s.Verified(), "s"
			if n == 1 {
				plural = ""
			}
			fmt.Fprintf(o.Report.Err, "Verified %d program%s\n", n, plural)
			if o.policy == nil { // it may not be told what processes map
				for _, text := range s.HostFacts() {
					fmt.Fprintln(o.Report.Err, "note: "+text)
				}
			}
		}
		return 0, nil
	}
	if err := s.Attach(context.Background()); err != nil {
		return 1, err
	}
	if o.Mode == "" {
		close(attached)
		if o.Reload {
			r, err := startReloader(o, s, manager, g)
			if err != nil {
				return 1, err
			}
			defer r.end()
		}
		manager.send("READY=1")
		if told != nil {
			told()
		}
	}
	status, err = s.Wait()
	if errors.Is(err, unix.EPIPE) { // the reader of the output, such as head(1), has read enough
		return brokenPipe, nil
	}
	return status, err
}
