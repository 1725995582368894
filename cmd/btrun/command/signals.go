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

// catchSignals makes the first SIGINT, SIGTERM or SIGHUP end the run in an orderly way, and a later
// one end it at once. SIGUSR1 runs the self probes, or prints the maps if the script has none.
// release restores the default handling.
func catchSignals(s *run.Session) (release func()) {
	signals := make(chan os.Signal, 4)
	wanted := []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGUSR1}
	if !signal.Ignored(unix.SIGHUP) { // nohup(1) ignores it
		wanted = append(wanted, unix.SIGHUP)
	}
	signal.Notify(signals, wanted...)
	// With this, writing to a closed pipe returns an error instead of killing the process. Ignoring
	// SIGPIPE would be inherited by the commands that it starts.
	brokenPipe := make(chan os.Signal, 1)
	signal.Notify(brokenPipe, unix.SIGPIPE)
	go func() {
		var stopped time.Time // zero: no signal yet
		for sig := range signals {
			switch {
			case sig == unix.SIGUSR1 && s.HasSelf():
				s.RunSelf()
			case sig == unix.SIGUSR1:
				s.Snapshot()
			case stopped.IsZero():
				stopped = time.Now()
				s.Stop()
			case time.Since(stopped) >= impatience:
				s.Abandon()
				os.Exit(128 + int(sig.(unix.Signal)))
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		signal.Stop(brokenPipe)
		close(signals)
	}
}

// runObject runs a loaded object until a signal or the run itself ends it.
func runObject(o *arguments, obj *object.Object) (status int, err error) {
	manager := newNotifier()
	defer manager.close()
	attached := o.run.Attached
	o.run.Attached = func() {
		manager.send("READY=1")
		if attached != nil {
			attached()
		}
	}
	s, err := run.Load(obj, o.run)
	if err != nil {
		return 1, err
	}
	defer manager.send("STOPPING=1")
	defer catchSignals(s)() // until everything is detached
	defer s.Close()
	if o.Remote {
		go o.stopWithInput(s)
	}
	return s.Run()
}
