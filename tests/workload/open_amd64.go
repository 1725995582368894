// SPDX-License-Identifier: Apache-2.0

package main

import "golang.org/x/sys/unix"

// openLegacy calls open(2), which newer architectures lack.
func openLegacy(path uintptr) (uintptr, unix.Errno) {
	fd, _, e := unix.RawSyscall(unix.SYS_OPEN, path, unix.O_RDONLY, 0)
	return fd, e
}
