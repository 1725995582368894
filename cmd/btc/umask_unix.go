// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import "syscall"

// umask sets the permissions that new files lack, and returns those before.
func umask(mask int) int { return syscall.Umask(mask) }
