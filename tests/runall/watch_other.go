// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import "time"

// watched returns the arguments of go test that limit the tests of a package.
func watched(stall time.Duration) ([]string, error) {
	return []string{"-timeout", (4 * stall).String()}, nil
}

func watch([]string, time.Duration) int { return 2 }
