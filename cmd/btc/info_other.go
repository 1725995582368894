// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

// printInfo fails: there is no Linux kernel to describe.
func printInfo() int {
	return fail("--info describes a Linux kernel: use btc version --json here")
}
