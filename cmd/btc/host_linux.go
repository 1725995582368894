package main

import (
	"os"
	"syscall"

	"btc/internal/manifest"
	"btc/loader/permit"
)

// writtenFiles are the permissions for the files that a script names.
func writtenFiles(m *manifest.Manifest) []string { return permit.Written(m) }

// ownFile reports whether a regular file is there that only this user can have written.
func ownFile(path string) bool {
	fi, err := os.Lstat(path)
	if err != nil || !fi.Mode().IsRegular() || fi.Mode().Perm()&0o022 != 0 {
		return false
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
