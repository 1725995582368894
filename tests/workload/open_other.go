// SPDX-License-Identifier: Apache-2.0

//go:build !amd64

package main

import "golang.org/x/sys/unix"

// openLegacy replaces open(2), which this architecture lacks.
func openLegacy(uintptr) (uintptr, unix.Errno) { return 0, unix.ENOSYS }
