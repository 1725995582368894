// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import "io"

// listKernelTypes reports that there is no Linux kernel here.
func listKernelTypes(io.Writer, string, string) bool { return false }
