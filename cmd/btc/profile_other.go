// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"errors"

	"btc/loader/options"
)

// profiledCgroups returns an error: only Linux has cgroups.
func profiledCgroups(*options.Values) ([]uint64, error) {
	return nil, errors.New("cgroups, containers and pods are those of a Linux host")
}
