// SPDX-License-Identifier: Apache-2.0

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

// boot runs a shell script in a guest of Linux 6.12, with btrun, and with the objects of some scripts
// in /o. It returns the output. If cpus is 0, the guest has the default number of CPUs.
func boot(t *testing.T, test string, cpus int, scripts map[string]string, script string) string {
	t.Helper()
	return bootKernel(t, "6.12", test, cpus, scripts, script)
}

// bootKernel is boot with the kernel of a name.
func bootKernel(t *testing.T, name, test string, cpus int, scripts map[string]string, script string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped: boots a kernel under emulation (-short)")
	}
	if !regexp.MustCompile(*only).MatchString(test) || *oracle {
		t.Skip("skipped: not asked for")
	}
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
	for object, text := range scripts {
		if out, err := exec.Command(bin+"/btc", "compile", "--arch", "x86_64", "-e", text, "-o", objects+"/"+object+".o").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	if err := os.WriteFile(objects+"/all.sh", []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := vm.Run(
		context.Background(),
		vm.Config{QEMU: qemu, Image: image, CPUs: cpus, Command: []string{"sh", "/o/all.sh"}, Silence: 5 * time.Minute,
			Puts: []vm.Put{{Host: bin + "/btrun", Guest: "/bin/btrun"}, {Host: objects, Guest: "/o"}}},
	)
	if err != nil {
		t.Fatal(err)
	}
	return string(r.Stdout) + string(r.Stderr)
}

// TestLockdown checks that a locked-down kernel returns nothing but EPERM; btrun must report the
// lockdown as the cause. Lockdown can be raised at run time, so one boot tests all modes.
func TestLockdown(t *testing.T) {
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
	out := boot(t, "lockdown", 0, map[string]string{
		"kprobe": `kprobe:vfs_open { printf("opened\n"); exit(); }`,
		"begin":  `begin { printf("began\n"); exit(); }`,
	}, script)
	if strings.Contains(out, "/sys/kernel/security/lockdown: No such file") {
		t.Skip("skipped: this kernel has no lockdown")
	}
	_, rest, _ := strings.Cut(out, "mode none\n")
	none, rest, _ := strings.Cut(rest, "mode integrity\n")
	integrity, confidentiality, found := strings.Cut(rest, "mode confidentiality\n")
	if !found || !strings.Contains(none, "opened\n") || !strings.Contains(integrity, "opened\n") ||
		!strings.Contains(integrity, "began\n") {
		t.Errorf("%s", out)
	}
	const says = "kernel lockdown is in mode confidentiality"
	if strings.Count(confidentiality, says) != 2 || strings.Contains(confidentiality, "opened") ||
		strings.Contains(confidentiality, "began") {
		t.Errorf("confidentiality: %s", confidentiality)
	}
}

// TestWithout checks that if the machine lacks something or has it switched off, btrun names it and
// says what to do.
func TestWithout(t *testing.T) {
	const script = `
run() { echo "== $1 $2"; timeout 120 btrun -q -c 'cat /proc/version' /o/$2.o 2>&1 | grep -v '^Linux version'; }
mount -t tmpfs none /sys/kernel/btf
run no-btf fentry
run no-btf iter
run no-btf task
run no-btf kprobe
umount /sys/kernel/btf
sysctl -w kernel.ftrace_enabled=0
run ftrace-off kprobe
sysctl -w kernel.ftrace_enabled=1
sysctl -w kernel.perf_event_max_sample_rate=50
run slow profile
sysctl -w kernel.perf_event_max_sample_rate=100000
umount /sys/kernel/debug /sys/kernel/tracing
run no-tracefs tracepoint
mount -t tmpfs none /sys
run no-sysfs begin
umount /sys
mount -t tmpfs none /proc
run no-proc begin
umount /proc
run all begin
`
	out := boot(t, "without", 0, map[string]string{
		"kprobe":     `kprobe:vfs_open { printf("opened\n"); exit(); }`,
		"begin":      `begin { printf("began\n"); exit(); }`,
		"fentry":     `fentry:vfs_open { @ = count(); }`,
		"iter":       `iter:task { @ = count(); }`,
		"task":       `begin { printf("%d\n", curtask->pid); exit(); }`,
		"profile":    `profile:hz:99 { @ = count(); }`,
		"tracepoint": `tracepoint:sched:sched_process_exec { @ = count(); }`,
	}, script)
	for what, want := range map[string]string{
		"no-btf fentry":         "fentry:vfs_open: this kernel has no BTF (/sys/kernel/btf/vmlinux is missing), and such programs are checked against it",
		"no-btf iter":           "iter:task: this kernel has no BTF (/sys/kernel/btf/vmlinux is missing), and such programs are checked against it",
		"no-btf task":           "supply its types with --btf FILE",
		"no-btf kprobe":         "opened",
		"ftrace-off kprobe":     "warning: kernel.ftrace_enabled is 0 on this machine",
		"slow profile":          "this kernel allows at most 50 samples per second (sysctl kernel.perf_event_max_sample_rate",
		"no-tracefs tracepoint": "@: ", // btrun mounts tracefs for itself
		"no-sysfs begin":        "is /sys not mounted? mount -t sysfs sysfs /sys",
		"no-proc begin":         "is /proc not mounted? mount -t proc proc /proc",
		"all begin":             "began",
	} {
		_, rest, _ := strings.Cut(out, "== "+what+"\n")
		text, _, _ := strings.Cut(rest, "\n== ")
		if !strings.Contains(text, want) || strings.Contains(text, "tracer is gone") {
			t.Errorf("%s: %q is not in:\n%s", what, want, text)
		}
	}
}
