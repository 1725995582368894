// SPDX-License-Identifier: Apache-2.0

package kernelfs

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Release returns the running kernel's release, as `uname -r` prints it.
func Release() (string, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", fmt.Errorf("uname: %w", err)
	}
	return unix.ByteSliceToString(u.Release[:]), nil
}

// Machine returns the running kernel's architecture, as `uname -m` prints it.
func Machine() (string, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", fmt.Errorf("uname: %w", err)
	}
	return unix.ByteSliceToString(u.Machine[:]), nil
}
