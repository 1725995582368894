// SPDX-License-Identifier: Apache-2.0

// Package kernels runs the end-to-end cases of testdata on the kernels that getkernels.sh fetched. Each
// script is compiled once; the same object files run on all kernels, with one boot per kernel.
//
//	go test ./tests/kernels                              on 6.12 what tests/run cannot run here, and the core on 6.12 and others
//	BTC_TIER=kernels go test ./tests/kernels -timeout 0  all kernels, all cases; on riscv64 the core
//	go test ./tests/kernels -kernel sid -case latency    one kernel; -kernel '.*arm64' runs two
//	go test ./tests/kernels -kernel 6.1-rt               a real-time kernel, which only runs with -kernel and in that tier
//	go test ./tests/kernels -kernel sid-riscv64          the core on riscv64, which only runs with -kernel, -slow and in that tier
//	go test ./tests/kernels -oracle -kernel 6.12         the same cases with bpftrace
//
// A run takes as long as it makes progress: guests and cases that print nothing for minutes are ended.
package kernels

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"btc/tests/kernels/cases"
	"btc/tests/kernels/suite"
	"btc/tests/kernels/vm"
	"btc/tests/tier"
)

var (
	kernel = flag.String("kernel", "", "run only kernels whose whole name matches this regular expression")
	only   = flag.String("case", "", "run only cases that match this regular expression")
	slow   = flag.Bool("slow", false, "with -kernel all cases on riscv64, not only those with \"core: yes\"; without it riscv64 guests, too: their emulation is slow")
	oracle = flag.Bool("oracle", false, "run the reference bpftrace (tests/setup/oracle.sh makes it) instead of btrun")
)

// names are the names of the kernels in getkernels.sh.
var names = []string{"5.10", "6.1", "6.12", "sid", "6.1-arm64", "sid-arm64", "6.12-riscv64", "sid-riscv64", "6.1-rt", "6.12-rt"}

// The first tier runs on the kernel most the core and all cases that this machine's kernel cannot run (tests/run runs the
// others), and the core on the oldest kernel, the newest, and another architecture.
const most = "6.12"

var coreOnly = []string{"5.10", "sid", "sid-arm64"}

func TestKernels(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: boots kernels under emulation, minutes (-short)")
	}
	images := images(t)
	if len(images) == 0 {
		t.Skip("skipped: no kernel to boot (tests/kernels/getkernels.sh fetches them)")
	}
	disk := ""
	if *oracle {
		disk = "../../build/oracle/root.ext4"
		if _, err := os.Stat(disk); err != nil {
			t.Skip("skipped: no reference bpftrace (tests/setup/oracle.sh makes it): ", err)
		}
	}
	parent := t
	s := suite.New(t, regexp.MustCompile(*only), *oracle)
	first := *kernel == "" && !*slow && !*oracle && !tier.Kernels.Runs()
	here := map[string]bool{}
	if first {
		here = s.RunHere(t)
	}
	for _, name := range append([]string{most}, names...) { // the longest begins first
		image, ok := images[name]
		if !ok {
			continue
		}
		delete(images, name)
		t.Run(name, func(t *testing.T) {
			core := strings.HasSuffix(name, "-riscv64") && !*slow
			m := suite.Machine{Image: image, Disk: disk}
			switch {
			case first && name == most:
				m.Cases = func(c *cases.Case) bool { return c.Core || !here[c.Name] }
			case first && !slices.Contains(coreOnly, name):
				tier.Kernels.Need(t, "boots one more kernel")
			case first || core:
				core = true
				m.Cases = func(c *cases.Case) bool { return c.Core }
			}
			if *oracle && name == "5.10" {
				t.Skip("skipped: bpftrace needs Linux 5.15")
			}
			qemu, err := vm.FindQEMU("../../build/qemu", image)
			if err != nil {
				t.Skip("skipped: ", err)
			}
			if goarch, err := vm.Arch(image); err != nil {
				t.Fatal(err)
			} else if *oracle && goarch != runtime.GOARCH {
				t.Skip("skipped: the reference bpftrace is this machine's")
			} else {
				s.Foreign(parent, goarch, core)
			}
			t.Parallel() // each QEMU uses one core
			m.QEMU = qemu
			s.Guest(t, name, m)
		})
	}
}

// images returns the image of each kernel that was fetched and reports the others as skipped.
func images(t *testing.T) map[string]string {
	dir, err := filepath.Abs("../../build/kernels")
	if err != nil {
		t.Fatal(err)
	}
	wanted := regexp.MustCompile("^(" + *kernel + ")$")
	if *kernel == "" {
		wanted = regexp.MustCompile("")
	}
	found := map[string]string{}
	for _, name := range names {
		optional := *kernel == "" && !tier.Kernels.Runs()
		if !wanted.MatchString(name) || strings.HasSuffix(name, "-rt") && optional || strings.HasSuffix(name, "-riscv64") && optional && !*slow {
			continue
		}
		image, err := vm.FindImage(dir, name)
		if err != nil {
			t.Run(name, func(t *testing.T) { t.Skip("skipped: ", err) })
			continue
		}
		found[name] = image
	}
	return found
}
