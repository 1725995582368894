package kernels

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"btc/tests/kernels/vm"
)

// A kernel that is locked down says no with EPERM only; btrun says what it is.
// Lockdown can be raised while the kernel runs, so one boot has all modes.
func TestLockdown(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: boots a kernel under emulation (-short)")
	}
	if !regexp.MustCompile(*only).MatchString("lockdown") || *oracle {
		t.Skip("skipped: not asked for")
	}
	const name = "6.12"
	if !regexp.MustCompile("^("+*kernel+")$").MatchString(name) && *kernel != "" {
		t.Skip("skipped: not asked for")
	}
	dir, err := filepath.Abs("../../build/kernels")
	if err != nil {
		t.Fatal(err)
	}
	image, err := vm.FindImage(dir, name)
	if err != nil {
		t.Skip("skipped: ", err)
	}
	qemu, err := vm.FindQEMU("../../build/qemu", image)
	if err != nil {
		t.Skip("skipped: ", err)
	}
	if goarch, err := vm.Arch(image); err != nil || goarch != "amd64" {
		t.Skipf("skipped: a kernel for %s: %v", goarch, err)
	}
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", bin, "btc/cmd/btc", "btc/cmd/btrun")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH=amd64")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	objects := t.TempDir()
	for object, script := range map[string]string{
		"kprobe": `kprobe:vfs_open { printf("opened\n"); exit(); }`,
		"begin":  `begin { printf("began\n"); exit(); }`,
	} {
		if out, err := exec.Command(bin+"/btc", "compile", "-arch", "x86_64", "-e", script, "-o", objects+"/"+object+".o").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	const script = `
mode() { echo "$1" > /sys/kernel/security/lockdown || echo "no $1"; echo "mode $1"; }
mode none
btrun -q -c 'cat /proc/version' /o/kprobe.o 2>&1
mode integrity
btrun -q -c 'cat /proc/version' /o/kprobe.o 2>&1
btrun -q /o/begin.o 2>&1
mode confidentiality
btrun -q -c 'cat /proc/version' /o/kprobe.o 2>&1
btrun -q /o/begin.o 2>&1
`
	if err := os.WriteFile(objects+"/all.sh", []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := vm.Run(context.Background(), vm.Config{QEMU: qemu, Image: image, Command: []string{"sh", "/o/all.sh"}, Timeout: 5 * time.Minute,
		Puts: []vm.Put{{Host: bin + "/btrun", Guest: "/bin/btrun"}, {Host: objects, Guest: "/o"}}})
	if err != nil {
		t.Fatal(err)
	}
	out := string(r.Stdout) + string(r.Stderr)
	if strings.Contains(out, "/sys/kernel/security/lockdown: No such file") {
		t.Skip("skipped: this kernel has no lockdown")
	}
	_, rest, _ := strings.Cut(out, "mode none\n")
	none, rest, _ := strings.Cut(rest, "mode integrity\n")
	integrity, confidentiality, found := strings.Cut(rest, "mode confidentiality\n")
	if !found || !strings.Contains(none, "opened\n") || !strings.Contains(integrity, "opened\n") || !strings.Contains(integrity, "began\n") {
		t.Errorf("%s", out)
	}
	const says = "kernel lockdown is in mode confidentiality"
	if strings.Count(confidentiality, says) != 2 || strings.Contains(confidentiality, "opened") || strings.Contains(confidentiality, "began") {
		t.Errorf("confidentiality: %s", confidentiality)
	}
}
