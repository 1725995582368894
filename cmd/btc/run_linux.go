package main

import (
	"btc/internal/manifest"
	"btc/loader/permit"
)

// writtenFiles are the permissions for the files that a script names.
func writtenFiles(m *manifest.Manifest) []string { return permit.Written(m) }
