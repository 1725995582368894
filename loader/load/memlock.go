// SPDX-License-Identifier: Apache-2.0

package load

import "golang.org/x/sys/unix"

// raiseMemlock lifts the process's limit of locked memory: before Linux 5.11 the memory of maps and programs counts
// as locked, and the default limit is 64 KiB. An error matters only if the kernel then refuses something: later
// kernels ignore the limit.
func raiseMemlock() error {
	all := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	return unix.Prlimit(0, unix.RLIMIT_MEMLOCK, &all, nil)
}
