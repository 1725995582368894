// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package options

// The formats are named where objects run.
func formatNames() []string { return nil }

func formatUsage() string { return "text, or one that btrun names" }
