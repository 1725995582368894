// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// notifier sends the state of the run to a service manager, as described in sd_notify(3): datagrams
// to the socket named by NOTIFY_SOCKET. The zero value sends nothing.
type notifier struct {
	fd int
	to *unix.SockaddrUnix
	// watchdog is the interval in which the manager expects a keep-alive; 0: none. pinged is when the last was sent.
	watchdog time.Duration
	pinged   time.Time
}

// newNotifier opens the socket while btrun still has its privileges. It unsets the variables, so
// that the commands of -c and system() cannot send notifications in btrun's name.
func newNotifier() *notifier {
	name := os.Getenv("NOTIFY_SOCKET")
	usec, _ := strconv.ParseUint(os.Getenv("WATCHDOG_USEC"), 10, 40)
	pid := os.Getenv("WATCHDOG_PID")
	for _, v := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		os.Unsetenv(v)
	}
	if len(name) < 2 || name[0] != '/' && name[0] != '@' { // "@" stands for an abstract socket
		return &notifier{}
	}
	if pid != "" && pid != strconv.Itoa(os.Getpid()) {
		usec = 0
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return &notifier{}
	}
	return &notifier{fd: fd, to: &unix.SockaddrUnix{Name: name}, watchdog: time.Duration(usec) * time.Microsecond}
}

// send sends assignments, one per line, such as "READY=1". It does not block if the manager does
// not read them.
func (n *notifier) send(state string) {
	if n.to != nil {
		unix.Sendto(n.fd, []byte(state), unix.MSG_DONTWAIT, n.to)
	}
}

// alive tells a watchdog that the event reader is alive, four times as often as it must.
func (n *notifier) alive() {
	if n.watchdog == 0 {
		return
	}
	if now := time.Now(); now.Sub(n.pinged) >= n.watchdog/4 {
		n.pinged = now
		n.send("WATCHDOG=1")
	}
}

// ending turns the watchdog off: nothing reads events any more.
func (n *notifier) ending() {
	if n.watchdog > 0 {
		n.send("WATCHDOG_USEC=18446744073709551615")
	}
}

// reloading says that a reload begins, until READY=1. Type=notify-reload of systemd 253 needs the time.
func (n *notifier) reloading() {
	var now unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	n.send(fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", now.Nano()/1000))
}

func (n *notifier) close() {
	if n.to != nil {
		unix.Close(n.fd)
	}
}
