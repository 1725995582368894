// SPDX-License-Identifier: Apache-2.0

//go:build unix

package tty

import (
	"io"

	"golang.org/x/sys/unix"
)

// screenSize returns the size of the terminal w, or a default.
func screenSize(w io.Writer) (rows, columns int) {
	if f, ok := w.(interface{ Fd() uintptr }); ok {
		if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && size.Row > 0 && size.Col > 0 {
			return int(size.Row), int(size.Col)
		}
	}
	return 24, 80
}
