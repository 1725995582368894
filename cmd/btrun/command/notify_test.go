// SPDX-License-Identifier: Apache-2.0

package command

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestNotify checks that a service manager receives the notifications, on a path and on an abstract
// socket, and that a command started by btrun does not inherit the socket.
func TestNotify(t *testing.T) {
	for _, name := range []string{filepath.Join(t.TempDir(), "socket"), "@btrun-test-" + filepath.Base(t.TempDir()) + "-x"} {
		manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		defer manager.Close()
		t.Setenv("NOTIFY_SOCKET", name)
		n := newNotifier()
		if _, set := os.LookupEnv("NOTIFY_SOCKET"); set {
			t.Error("commands inherit NOTIFY_SOCKET")
		}
		for _, state := range []string{"READY=1", "STOPPING=1"} {
			n.send(state)
			buf := make([]byte, 64)
			manager.SetReadDeadline(time.Now().Add(5 * time.Second))
			got, err := manager.Read(buf)
			if err != nil || string(buf[:got]) != state {
				t.Errorf("%s: received %q, %v, want %q", name, buf[:got], err, state)
			}
		}
		n.close()
	}
	for _, name := range []string{"", "@", "relative", "/nosuch/socket"} {
		t.Setenv("NOTIFY_SOCKET", name)
		n := newNotifier()
		n.send("READY=1")
		n.close()
	}
}
