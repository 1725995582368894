// SPDX-License-Identifier: Apache-2.0

// Package kernelfs reads the facts about the running kernel that the loader needs: release,
// CPUs, kernel symbols, tracepoints.
//
// It reads /proc and /sys and caches nothing; callers cache results if needed.
package kernelfs

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Namespace identifies a PID namespace; zero for the initial one.
type Namespace struct{ Dev, Ino uint64 }

// OnlineCPUs lists the numbers of the CPUs that are online, ascending.
func OnlineCPUs() ([]int, error) { return cpuList("/sys/devices/system/cpu/online") }

// PossibleCPUs returns the number of CPUs that may ever be online: the number of
// slots in the value of a per-CPU map.
func PossibleCPUs() (int, error) {
	cpus, err := cpuList("/sys/devices/system/cpu/possible")
	if err != nil {
		return 0, err
	}
	return cpus[len(cpus)-1] + 1, nil
}

func cpuList(path string) ([]int, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	cpus, err := parseCPUs(strings.TrimSpace(string(b)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return cpus, nil
}

// parseCPUs parses the kernel's list form: "0-3,8,10-11".
func parseCPUs(list string) ([]int, error) {
	var cpus []int
	for part := range strings.SplitSeq(list, ",") {
		lo, hi, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(lo)
		if err != nil {
			return nil, fmt.Errorf("bad CPU list %q", list)
		}
		last := first
		if isRange {
			if last, err = strconv.Atoi(hi); err != nil {
				return nil, fmt.Errorf("bad CPU list %q", list)
			}
		}
		const most = 1 << 16 // far above CONFIG_NR_CPUS
		if first < 0 || last < first || last >= most {
			return nil, fmt.Errorf("bad CPU list %q", list)
		}
		for cpu := first; cpu <= last; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}
