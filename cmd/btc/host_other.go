// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"os"

	"btc/internal/manifest"
)

// writtenFiles is never called: btc run fails earlier.
func writtenFiles(*manifest.Manifest) []string { return nil }

// isTerminal reports whether a file is a terminal, or another device of characters.
func isTerminal(f *os.File) bool {
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}

// passedOn is never used: btc run fails earlier.
var passedOn []os.Signal

// ownFile is never called: there is no target of this host.
func ownFile(string) bool { return false }
