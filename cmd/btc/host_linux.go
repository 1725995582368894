// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"syscall"

	"btc/internal/manifest"
	"btc/loader/format"
	"btc/loader/permit"
)

// writtenFiles returns the permissions for the files that a script names.
func writtenFiles(m *manifest.Manifest) []string { return permit.Written(m) }

// isTerminal reports whether a file is a terminal.
func isTerminal(f *os.File) bool { return format.IsTerminal(f) }

// passedOn are the signals that btc forwards to btrun. A terminal sends SIGINT to both; btrun then
// takes the second one, which comes at the same moment, for a copy of the first.
var passedOn = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1}

// ownFile reports whether path is a regular file that only this user can have written.
func ownFile(path string) bool {
	fi, err := os.Lstat(path)
	if err != nil || !fi.Mode().IsRegular() || fi.Mode().Perm()&0o022 != 0 {
		return false
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
