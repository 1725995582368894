// SPDX-License-Identifier: Apache-2.0

//go:build unix

package fan

import (
	"os/exec"
	"syscall"
)

// ownGroup makes a command the leader of a new process group, so that an interrupt from the
// terminal does not reach it.
func ownGroup(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
}

// killGroup kills a command and the processes that it started.
func killGroup(cmd *exec.Cmd) { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
