// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bpfwalk

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"btc/internal/arch"
	"btc/tests/kernels/vm"
	"btc/tests/tier"
)

var only = flag.String("kernel", "", "run in guests of the kernels only whose whole name matches this regular expression")

// TestGuests runs the other tests on older kernels.
func TestGuests(t *testing.T) {
	if testing.Short() || *compiled != "" {
		t.Skip("skipped: boots kernels under emulation")
	}
	tier.Kernels.Need(t, "boots kernels")
	images, err := filepath.Abs("../../../build/kernels")
	if err != nil {
		t.Fatal(err)
	}
	for _, kernel := range []string{"5.10", "6.1", "6.12", "sid", "6.1-arm64", "sid-arm64"} {
		if !regexp.MustCompile("^("+*only+")$").MatchString(kernel) && *only != "" {
			continue
		}
		t.Run(kernel, func(t *testing.T) {
			image, err := vm.FindImage(images, kernel)
			if err != nil {
				t.Skip("skipped: ", err)
			}
			qemu, err := vm.FindQEMU("../../../build/qemu", image)
			if err != nil {
				t.Skip("skipped: ", err)
			}
			goarch, err := vm.Arch(image)
			if err != nil {
				t.Fatal(err)
			}
			compiler, silence := "cc", 10*time.Minute
			if goarch != runtime.GOARCH {
				compiler, silence = arch.ByName(goarch).Name+"-linux-gnu-gcc", 30*time.Minute
			}
			exe, test := buildWith(t, compiler), filepath.Join(t.TempDir(), "walk.test")
			cmd := exec.Command("go", "test", "-c", "-o", test, "btc/tests/unwind/bpfwalk")
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+goarch)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			r, err := vm.Run(context.Background(), vm.Config{
				QEMU: qemu, Image: image, Silence: silence,
				Puts:    []vm.Put{{Host: test, Guest: "/bin/walk.test"}, {Host: exe, Guest: "/bin/chain"}},
				Command: []string{"mkdir -p /tmp; cd /tmp; /bin/walk.test -test.v -test.run 'TestUprobe|TestSyscall' -program /bin/chain"},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s%s", r.Stdout, r.Stderr)
			if r.Exit != 0 || strings.Contains(string(r.Stdout), "--- SKIP: TestUprobe") {
				t.Errorf("exit status %d", r.Exit)
			}
		})
	}
}
