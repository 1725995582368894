// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package tty

import (
	"io"

	"golang.org/x/term"
)

// screenSize returns the size of the terminal w, or a default.
func screenSize(w io.Writer) (rows, columns int) {
	if f, ok := w.(interface{ Fd() uintptr }); ok {
		if columns, rows, err := term.GetSize(int(f.Fd())); err == nil && rows > 0 && columns > 0 {
			return rows, columns
		}
	}
	return 24, 80
}
