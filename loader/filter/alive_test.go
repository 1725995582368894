// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestAlive checks that a zombie is not alive, even if its parent has not waited for it yet.
func TestAlive(t *testing.T) {
	if !Alive(os.Getpid()) {
		t.Error("Alive = false for this process")
	}
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Skip("skipped: ", err)
	}
	pid := cmd.Process.Pid
	if !Alive(pid) {
		t.Error("Alive = false for a new process")
	}
	cmd.Process.Kill()
	for end := time.Now().Add(time.Minute); Alive(pid); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("Alive = true for a zombie")
		}
	}
	cmd.Wait()
	if Alive(pid) {
		t.Error("Alive = true for a process that is gone")
	}
}
