// SPDX-License-Identifier: Apache-2.0

// Package vm boots a Linux kernel under QEMU's software emulation with a throw-away initramfs, runs one
// command in it as root, and returns its standard output, standard error, exit status and, if asked
// for, the files that it left in /out.
//
// It needs a kernel image for a supported architecture (see platforms), the QEMU of that architecture
// and a static busybox, but neither root nor KVM. Run only returns a result if the guest itself
// reported the exit status of the command: a panic, a hang or a killed QEMU is always an error.
package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Put copies one file or directory of this machine into the guest.
type Put struct {
	Host  string // file or directory here; symbolic links are kept as links
	Guest string // absolute path in the guest
}

// Config says what to boot and what to run in it. QEMU, Image and Command are required.
type Config struct {
	QEMU    string   // program to run, see FindQEMU
	Image   string   // kernel: vmlinux (preferred: boots faster under emulation) or vmlinuz
	Command []string // argument vector; a single element is a shell command line
	Puts    []Put    // files for the guest
	Env     []string // "K=V" for the command
	Disk    string   // ext4 image that becomes the command's root; it is not changed
	Scratch bool     // give the guest an unused disk, /dev/scratch
	OutTar  string   // if set, the guest's /out is written to this file as a tar archive
	Memory  int      // MiB, default 768
	CPUs    int      // default 2; only one runs at a time
	// Silence is how long the guest may write nothing to its streams before it is ended, default 2 minutes. The run may take
	// as long as it likes: on a busy machine a guest is many times slower. Until the command starts, bootSilence holds if it is longer.
	Silence time.Duration
	// Progress, if set, is called with what the command has written to standard output, whenever that has grown, at most every
	// progressEvery.
	Progress func(stdout []byte)
	Append   string // additional kernel arguments
	Console  string // if set, the output of the kernel's console is written to this file
}

// Result is the result of a command in a guest.
type Result struct {
	Stdout, Stderr []byte
	Exit           int           // status of the command, 0..255
	Boot           time.Duration // guest's clock at the start of the command
	Run            time.Duration // guest's time spent in the command
}

// GuestError is the error of a run in which the guest did not report an exit status.
type GuestError struct {
	Reason  string // what is known about the cause
	Console string // end of the kernel's console output
	Stdout  []byte // what the command had printed so far
}

func (e *GuestError) Error() string {
	return fmt.Sprintf("guest: %s; end of its console:\n%s", e.Reason, e.Console)
}

const (
	// thread=multi crashes guests that patch code (kprobes, ftrace, static keys).
	accelerator = "tcg,thread=single"
	// No boot-time self tests, no mitigations (slow under emulation), no address randomization, and no
	// reboot on a panic.
	kernelArgs = "quiet panic=-1 mitigations=off nokaslr cryptomgr.notests=1"
	outBytes   = 256 << 20 // limit for /out; the file is sparse
	// scratchBytes is the size of /dev/scratch.
	scratchBytes = 16 << 20 // the file is sparse
	// bootSilence is the limit of silence until the command starts: a booting kernel prints nothing ("quiet").
	bootSilence   = 5 * time.Minute
	progressEvery = 10 * time.Second
)

// FindQEMU returns the QEMU for a kernel image: the one that tests/setup/qemu.sh unpacked below dir, or
// else the one of this machine. The error says in one line why the image cannot be booted here.
func FindQEMU(dir, image string) (string, error) {
	p, err := platformOf(image)
	if err != nil {
		return "", err
	}
	if _, err := busybox(image, p); err != nil {
		return "", err
	}
	unpacked, err := filepath.Abs(filepath.Join(dir, p.qemu))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(unpacked); err == nil {
		return unpacked, nil
	}
	if p, err := exec.LookPath(p.qemu); err == nil {
		return p, nil
	}
	return "", fmt.Errorf("no %s (tests/setup/install.sh gets it)", p.qemu)
}

// FindImage returns the image of the kernel called name in dir, laid out by getkernels.sh:
// dir/name/vmlinux, or dir/name/Image on other architectures than x86_64. If name is a path, it returns
// name.
func FindImage(dir, name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, image := range []string{"vmlinux", "Image", "vmlinuz"} {
		p := filepath.Join(dir, name, image)
		if _, err := os.Stat(p); err == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("no kernel %s in %s (tests/kernels/getkernels.sh fetches it)", name, dir)
}

// Run boots the guest, runs the command and returns its result. The error is a *GuestError if the guest
// died, hung or never reached the command.
func Run(ctx context.Context, c Config) (*Result, error) {
	c = withDefaults(c)
	dir, err := os.MkdirTemp("", "vm")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	initrd, err := initramfs(c)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "initrd"), initrd, 0o600); err != nil {
		return nil, err
	}
	args, err := qemuArgs(c, dir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go watch(ctx, cancel, c, dir)
	qemuOutput, runErr := runQEMU(ctx, c.QEMU, args)
	return collect(ctx, c, dir, qemuOutput, runErr)
}

// runQEMU runs QEMU and returns its output. The kernel ends QEMU when this process ends, however it ends. It does so when the
// thread that started QEMU ends (prctl(2), PR_SET_PDEATHSIG), so the goroutine keeps its thread.
func runQEMU(ctx context.Context, program string, args []string) ([]byte, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd.CombinedOutput()
}

// watch ends the run with the cause errSilent if the guest is silent for too long, and reports progress.
func watch(ctx context.Context, end context.CancelCauseFunc, c Config, dir string) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	written, stdout := int64(-1), int64(0)
	var grown, reported time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		size := func(name string) int64 {
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				return 0 // QEMU has not made it yet
			}
			return info.Size()
		}
		if n := size("console") + size("stdout") + size("stderr") + size("control"); n != written {
			written, grown = n, time.Now()
		}
		if n := size("stdout"); c.Progress != nil && n > stdout && time.Since(reported) >= progressEvery {
			text, _ := os.ReadFile(filepath.Join(dir, "stdout"))
			stdout, reported = n, time.Now()
			c.Progress(text)
		}
		limit := c.Silence
		if size("control") == 0 { // init has not reported that the command starts
			limit = max(limit, bootSilence)
		}
		if time.Since(grown) > limit {
			end(errSilent)
			return
		}
	}
}

var errSilent = errors.New("silent")

func withDefaults(c Config) Config {
	if c.Memory == 0 {
		c.Memory = 768
	}
	if c.CPUs == 0 {
		c.CPUs = 2
	}
	if c.Silence == 0 {
		c.Silence = 2 * time.Minute
	}
	return c
}

// qemuArgs gives each stream its own serial port: ttyS1 is standard output, ttyS2 standard error and
// ttyS3 the control messages. The console has another one.
func qemuArgs(c Config, dir string) ([]string, error) {
	p, err := platformOf(c.Image)
	if err != nil {
		return nil, err
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	args := []string{
		"-accel", accelerator, "-m", strconv.Itoa(c.Memory), "-smp", strconv.Itoa(c.CPUs),
		"-display", "none", "-no-reboot", "-nodefaults", "-no-user-config",
		"-kernel", c.Image, "-initrd", file("initrd"), "-append", kernelArgs + " " + p.kernelArgs + " " + c.Append,
	}
	args = append(append(args, p.machine...), p.ports(file)...)
	if c.Disk != "" {
		args = append(args, nvme(c.Disk, "root", "snapshot=on")...)
	}
	for _, d := range []struct {
		want   bool
		serial string
		bytes  int64
	}{{c.OutTar != "", "out", outBytes}, {c.Scratch, "scratch", scratchBytes}} {
		if !d.want {
			continue
		}
		raw := file(d.serial + ".raw")
		if err := os.WriteFile(raw, nil, 0o600); err != nil {
			return nil, err
		}
		if err := os.Truncate(raw, d.bytes); err != nil {
			return nil, err
		}
		args = append(args, nvme(raw, d.serial, "cache=unsafe")...)
	}
	return args, nil
}

// nvme returns the options for a disk. Kernels for clouds have the NVMe driver built in, unlike virtio;
// for others see diskDriver. The guest finds the disk by its serial number.
func nvme(file, serial, option string) []string {
	return []string{
		"-drive", fmt.Sprintf("file=%s,if=none,id=%s,format=raw,%s", file, serial, option),
		"-device", fmt.Sprintf("nvme,drive=%s,serial=%s", serial, serial),
	}
}

// control is what the guest's init reported on the control port.
type control struct {
	exit       int
	exited     bool
	start, end time.Duration
	failure    string
}

func parseControl(text []byte) control {
	var c control
	seconds := func(s string) time.Duration {
		f, _ := strconv.ParseFloat(s, 64)
		return time.Duration(f * float64(time.Second))
	}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch key {
		case "exit":
			if n, err := strconv.Atoi(value); err == nil {
				c.exit, c.exited = n, true
			}
		case "start":
			c.start = seconds(value)
		case "end":
			c.end = seconds(value)
		case "fail":
			c.failure = value
		}
	}
	return c
}

func collect(ctx context.Context, c Config, dir string, qemuOutput []byte, runErr error) (*Result, error) {
	read := func(name string) []byte {
		b, _ := os.ReadFile(filepath.Join(dir, name)) // absent if QEMU did not start
		return b
	}
	console := read("console")
	if c.Console != "" {
		if err := os.WriteFile(c.Console, console, 0o644); err != nil {
			return nil, err
		}
	}
	ctl := parseControl(read("control"))
	guestError := func(reason string) error {
		return &GuestError{Reason: reason, Console: string(console[max(0, len(console)-8000):]), Stdout: read("stdout")}
	}
	switch {
	case ctl.failure != "":
		return nil, guestError("init failed: " + ctl.failure)
	case !ctl.exited && errors.Is(context.Cause(ctx), errSilent):
		return nil, guestError(fmt.Sprintf("no exit status, and no output for %v", c.Silence))
	case !ctl.exited:
		return nil, guestError(fmt.Sprintf("ended without an exit status (QEMU: %v %s)", runErr, bytes.TrimSpace(qemuOutput)))
	}
	r := &Result{Stdout: read("stdout"), Stderr: read("stderr"), Exit: ctl.exit, Boot: ctl.start, Run: ctl.end - ctl.start}
	if c.OutTar != "" {
		if err := copyTar(filepath.Join(dir, "out.raw"), c.OutTar); err != nil {
			return nil, err
		}
	}
	return r, nil
}
