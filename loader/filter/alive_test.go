// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// A zombie is not alive, even if its parent has not waited for it yet.
func TestAlive(t *testing.T) {
	if !Alive(os.Getpid()) {
		t.Error("this one does not run")
	}
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Skip("skipped: ", err)
	}
	pid := cmd.Process.Pid
	if !Alive(pid) {
		t.Error("one that was just begun does not run")
	}
	cmd.Process.Kill()
	for end := time.Now().Add(time.Minute); Alive(pid); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("one that has ended runs as long as nobody waits for it")
		}
	}
	cmd.Wait()
	if Alive(pid) {
		t.Error("one that is gone runs")
	}
}
