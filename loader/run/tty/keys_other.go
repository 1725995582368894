// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package tty

import "os"

// Keys would read the keys of a terminal. It does on Linux.
type Keys struct{}

// HasKeys reports whether Listen reads keys on this system.
const HasKeys = false

// Listen returns nil: no keys are read.
func Listen(*os.File, func(Key), func(bool)) *Keys { return nil }

// Close does nothing.
func (*Keys) Close() {}
