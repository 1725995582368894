// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

// printInfo has no kernel to ask.
func printInfo() int {
	return fail("--info describes a Linux kernel: use btc version --json here")
}
