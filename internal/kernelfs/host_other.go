// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package kernelfs

import (
	"errors"
	"runtime"
)

// errNotLinux is the error of functions about the running kernel on other systems.
var errNotLinux = errors.New("available only on Linux, not on " + runtime.GOOS)

// Release returns the running kernel's release, as `uname -r` prints it.
func Release() (string, error) { return "", errNotLinux }

// Machine returns the running kernel's architecture, as `uname -m` prints it.
func Machine() (string, error) { return "", errNotLinux }

func ownTracefs() (string, error) { return "", errNotLinux }
