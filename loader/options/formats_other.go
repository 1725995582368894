// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package options

// The names of formats are not available where objects cannot run.
func formatNames() []string { return nil }

func formatUsage() string { return "text, or another format of btrun" }
