// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package fan

import "os/exec"

func ownGroup(*exec.Cmd) {}

// killGroup kills a command.
func killGroup(cmd *exec.Cmd) { cmd.Process.Kill() }
