// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"btc/loader/object"
	"btc/loader/run"
)

// impatience is the time after the first signal from which another one ends the run at once.
// Earlier ones are copies of the first: timeout(1) sends its signal to the process and then to its
// group, which includes the process.
const impatience = time.Second

// holdSignals keeps SIGUSR1 for the session, which does not exist yet: by default the Go runtime
// drops the signal.
func holdSignals() (signals chan os.Signal) {
	signals = make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGUSR1)
	return signals
}

// catchSignals makes the first SIGINT, SIGTERM or SIGHUP end the run in an orderly way, and a later
// one end it at once. SIGUSR1 runs the self probes, or prints the maps if the script has none, but
// not before attached is closed. release restores the default handling.
func catchSignals(s *run.Session, signals chan os.Signal, attached <-chan struct{}) (release func()) {
	wanted := []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGUSR1}
	if !signal.Ignored(unix.SIGHUP) { // nohup(1) ignores it
		wanted = append(wanted, unix.SIGHUP)
	}
	signal.Notify(signals, wanted...)
	// With this, writing to a closed pipe returns an error instead of killing the process. Ignoring
	// SIGPIPE would be inherited by the commands that it starts.
	brokenPipe := make(chan os.Signal, 1)
	signal.Notify(brokenPipe, unix.SIGPIPE)
	go handleSignals(s, signals, attached)
	return func() {
		signal.Stop(signals)
		signal.Stop(brokenPipe)
		close(signals)
	}
}

// controlled is the part of a *run.Session that signals control.
type controlled interface {
	HasSelf() bool
	RunSelf()
	Snapshot()
	Stop()
	Abandon()
}

// handleSignals acts on signals until the channel is closed.
func handleSignals(s controlled, signals <-chan os.Signal, attached <-chan struct{}) {
	var stopped time.Time // zero: no signal to end yet
	held := false         // SIGUSR1 came before everything was attached
	user := s.Snapshot
	if s.HasSelf() {
		user = s.RunSelf
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
				s.Abandon()
				os.Exit(128 + int(sig.(unix.Signal)))
			}
		}
	}
}

// runObject runs a loaded object until a signal or the run itself ends it.
func runObject(o *arguments, obj *object.Object) (status int, err error) {
	manager := newNotifier()
	defer manager.close()
	attached, told := make(chan struct{}), o.run.Attached
	o.run.Attached = func() {
		close(attached)
		manager.send("READY=1")
		if told != nil {
			told()
		}
	}
	signals := holdSignals()
	s, err := run.Load(obj, o.run)
	if err != nil {
		return 1, err
	}
	defer manager.send("STOPPING=1")
	defer catchSignals(s, signals, attached)() // until everything is detached
	defer s.Close()
	if o.Remote {
		go o.stopWithInput(s)
	}
	return s.Run()
}
