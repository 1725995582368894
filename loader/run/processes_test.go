// SPDX-License-Identifier: Apache-2.0

package run

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestProcessesOf(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	idle := filepath.Join(t.TempDir(), "idle")
	if err := os.WriteFile(idle, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if pids := processesOf([]string{idle, "/no/such/file", self}); !slices.Contains(pids, uint32(os.Getpid())) {
		t.Errorf("this process not found in %v", pids)
	}
	if pids := processesOf([]string{idle, "/no/such/file"}); len(pids) != 0 {
		t.Errorf("found processes %v of a program that is not running", pids)
	}
}
