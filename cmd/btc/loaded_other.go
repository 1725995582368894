// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import "btc/report/stages"

func loadedPrograms([]string) *stages.Kernel {
	return &stages.Kernel{Absent: "The kernel's instructions are shown on Linux, while btrun has the object loaded."}
}
