// SPDX-License-Identifier: Apache-2.0

package run

import (
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestAlarms checks that the exit of a process triggers an alarm, and that there is none after close.
func TestAlarms(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Skip("skipped: ", err)
	}
	pidfd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
	if err != nil {
		t.Skip("skipped: ", err)
	}
	defer unix.Close(pidfd)
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(event)
	seen := make(chan int, 100)
	a, err := openAlarms([]int{pidfd, event}, func(fd int) { seen <- fd })
	if err != nil {
		t.Fatal(err)
	}
	want := func(fd int) {
		t.Helper()
		select {
		case got := <-seen:
			if got != fd {
				t.Errorf("alarm of descriptor %d, want %d", got, fd)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("no alarm for descriptor %d", fd)
		}
	}
	for range 2 { // the data stays unread, and each write triggers an alarm
		unix.Write(event, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		want(event)
	}
	cmd.Process.Kill()
	want(pidfd) // even before its parent waits for it
	cmd.Wait()  // may trigger another alarm
	a.close()
	for len(seen) > 0 {
		<-seen
	}
	unix.Write(event, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	if len(seen) != 0 {
		t.Error("alarm after close")
	}
}
