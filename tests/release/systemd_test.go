// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bytes"
	"context"
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"btc/tests/kernels/vm"
)

// serviceScript is what a host's operator types: see the file.
//
//go:embed testdata/service.sh
var serviceScript string

// TestSystemd boots Debian 12 with systemd, installs the package in it and runs the unit: it starts an object as a
// service, restarts it when it is killed, and ends it with its maps printed.
func TestSystemd(t *testing.T) {
	deb := one(t, "btc_*_"+runtime.GOARCH+".deb")
	needs(t, "debootstrap", "mkfs.ext4")
	const kernels = "../../build/kernels"
	for _, name := range []string{"5.10", "6.12"} {
		t.Run(name, func(t *testing.T) {
			image, err := vm.FindImage(kernels, name)
			if err != nil {
				t.Skip("skipped: ", err)
			}
			qemu, err := vm.FindQEMU("../../build/qemu", image)
			if err != nil {
				t.Skip("skipped: ", err)
			}
			console := filepath.Join(t.TempDir(), "console")
			r, err := vm.Run(context.Background(), vm.Config{
				QEMU: qemu, Image: image, Disk: systemdDisk(t), Systemd: true, Memory: 1024, Timeout: 15 * time.Minute,
				Puts: []vm.Put{{Host: deb, Guest: "/btc.deb"}}, Command: []string{serviceScript}, Console: console,
			})
			if err != nil {
				t.Fatal(err)
			}
			if r.Exit != 0 {
				text, _ := os.ReadFile(console)
				t.Fatalf("exit status %d\n%s%s\n%.4000s", r.Exit, r.Stdout, r.Stderr, text[max(0, len(text)-4000):])
			}
			for _, want := range []string{"enabled: enabled\n", "restarts: 1\n", "maps after the stop: yes\n", "refused: "} {
				if !strings.Contains(string(r.Stdout), want) {
					t.Errorf("%q is not in\n%s%s", want, r.Stdout, r.Stderr)
				}
			}
		})
	}
}

// systemdDisk is the image of a disk with a minimal Debian 12 whose init is systemd.
func systemdDisk(t *testing.T) string {
	t.Helper()
	if err := os.MkdirAll(*roots, 0o755); err != nil {
		t.Fatal(err)
	}
	disk := filepath.Join(*roots, "systemd.ext4")
	if _, err := os.Stat(disk); err == nil {
		return disk
	}
	dir := filepath.Join(*roots, "systemd")
	defer os.RemoveAll(dir)
	args := []string{"--variant=minbase", "--include=systemd,systemd-sysv", "bookworm", dir}
	if out, err := exec.Command("debootstrap", args...).CombinedOutput(); err != nil {
		t.Skipf("skipped: debootstrap: %v: %s", err, bytes.TrimSpace(out[max(0, len(out)-200):]))
	}
	run(
		t,
		"sh",
		"-c",
		`rm -rf "$0"/var/cache/apt/archives "$0"/var/lib/apt/lists "$0"/usr/share/doc "$0"/usr/share/locale`,
		dir,
	)
	run(t, "mkfs.ext4", "-q", "-d", dir, "-m", "0", "-O", "^has_journal", disk+".new", "600M")
	if err := os.Rename(disk+".new", disk); err != nil {
		t.Fatal(err)
	}
	return disk
}
