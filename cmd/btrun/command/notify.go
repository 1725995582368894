// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"

	"golang.org/x/sys/unix"
)

// notifier sends the state of the run to a service manager, as described in sd_notify(3): datagrams
// to the socket named by NOTIFY_SOCKET. The zero value sends nothing.
type notifier struct {
	fd int
	to *unix.SockaddrUnix
}

// newNotifier opens the socket while btrun still has its privileges. It unsets the variable, so
// that the commands of -c and system() cannot send notifications in btrun's name.
func newNotifier() notifier {
	name := os.Getenv("NOTIFY_SOCKET")
	if len(name) < 2 || name[0] != '/' && name[0] != '@' { // "@" stands for an abstract socket
		return notifier{}
	}
	os.Unsetenv("NOTIFY_SOCKET")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return notifier{}
	}
	return notifier{fd, &unix.SockaddrUnix{Name: name}}
}

// send sends assignments, one per line, such as "READY=1". It does not block if the manager does
// not read them.
func (n notifier) send(state string) {
	if n.to != nil {
		unix.Sendto(n.fd, []byte(state), unix.MSG_DONTWAIT, n.to)
	}
}

func (n notifier) close() {
	if n.to != nil {
		unix.Close(n.fd)
	}
}
