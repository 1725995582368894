//go:build !linux

package main

import "btc/internal/manifest"

// writtenFiles is never asked: btc run ends before.
func writtenFiles(*manifest.Manifest) []string { return nil }

// ownFile is never asked: there is no target of this host.
func ownFile(string) bool { return false }
