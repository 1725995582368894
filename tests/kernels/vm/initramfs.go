// SPDX-License-Identifier: Apache-2.0

package vm

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

//go:embed init.sh
var initScript string

// guestDirs are directories that every guest has, in addition to those for the Puts.
var guestDirs = strings.Fields("bin sbin usr usr/bin usr/sbin dev proc sys tmp mnt root etc out vmrun var run")

// applets are the busybox commands in a guest.
var applets = strings.Fields(`sh mount umount stty cut echo ip hostname mkdir sleep cat ls cp mv rm ln chroot poweroff
 tar sync true false test grep sed awk head tail wc sort uniq od hexdump dd ps kill pidof sysctl uname id env seq
 printf find tr date timeout nproc mknod dmesg insmod lsmod chmod touch usleep yes xargs tee expr readlink stat ping nc
 md5sum sha256sum cmp diff du df free mktemp basename dirname nohup setsid which top vi less time taskset nice su rmdir
 mke2fs mkswap swapon swapoff blockdev`)

// busybox returns the static busybox for the guests of an image: the one next to the image, or else the
// one of this machine.
func busybox(image string, p platform) (string, error) {
	beside := filepath.Join(filepath.Dir(image), "busybox")
	if _, err := os.Stat(beside); err == nil {
		return beside, nil
	}
	if !p.native() {
		return "", fmt.Errorf("no %s (tests/kernels/getkernels.sh fetches it)", beside)
	}
	for _, p := range []string{"/bin/busybox", "/usr/bin/busybox"} {
		if _, err := os.Stat(p); err == nil {
			return p, nil
		}
	}
	if p, err := exec.LookPath("busybox"); err == nil {
		return p, nil
	}
	return "", errors.New("no static busybox (package busybox-static)")
}

// initramfs builds the guest's initial root file system: busybox, our init, the command and the Puts.
func initramfs(c Config) ([]byte, error) {
	p, err := platformOf(c.Image)
	if err != nil {
		return nil, err
	}
	box, err := busybox(c.Image, p)
	if err != nil {
		return nil, err
	}
	a := newArchive()
	for _, d := range guestDirs {
		a.dir(d)
	}
	a.device("dev/console", 5, 1)
	a.device("dev/null", 1, 3)
	if err := a.tree(box, "bin/busybox"); err != nil {
		return nil, err
	}
	for _, name := range applets {
		a.link("bin/"+name, "busybox")
	}
	a.file("init", 0o755, []byte(initScript))
	a.file("etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"))
	a.file("etc/group", 0o644, []byte("root:x:0:\n"))
	a.file("etc/hosts", 0o644, []byte("127.0.0.1 localhost\n::1 localhost\n"))
	a.file("vmrun/cmd", 0o755, []byte(commandScript(c)))
	putRoot := ""
	if c.Disk != "" {
		a.file("vmrun/disk", 0o644, nil)
		putRoot = "put" // init copies it to the root of the disk
	}
	if c.Scratch {
		a.file("vmrun/scratch", 0o644, nil)
	}
	if c.OutTar != "" {
		a.file("vmrun/out", 0o644, nil)
	}
	if c.Disk != "" || c.Scratch || c.OutTar != "" {
		if err := a.diskDriver(filepath.Join(filepath.Dir(c.Image), "modules")); err != nil {
			return nil, err
		}
	}
	for _, put := range c.Puts {
		if err := a.tree(put.Host, path.Join(putRoot, put.Guest)); err != nil {
			return nil, fmt.Errorf("file for the guest: %w", err)
		}
	}
	return a.bytes(), nil
}

// diskDriver adds the NVMe driver modules of a kernel and their load order. Kernels without such
// modules have the driver built in.
func (a *archive) diskDriver(modules string) error {
	order, err := os.ReadFile(filepath.Join(modules, "order"))
	if err != nil {
		return nil // the kernel's directory has no modules
	}
	var names []string
	for _, name := range strings.Fields(string(order)) {
		if !strings.HasPrefix(name, "nvme") {
			continue
		}
		if err := a.tree(filepath.Join(modules, name+".ko"), "vmrun/modules/"+name+".ko"); err != nil {
			return err
		}
		names = append(names, name)
	}
	a.file("vmrun/modules/order", 0o644, []byte(strings.Join(names, "\n")+"\n"))
	return nil
}

// commandScript returns the shell script that runs the command in its environment.
func commandScript(c Config) string {
	var s strings.Builder
	for _, e := range c.Env {
		k, v, _ := strings.Cut(e, "=")
		fmt.Fprintf(&s, "export %s=%s\n", k, shellQuote(v))
	}
	if len(c.Command) == 1 {
		s.WriteString(c.Command[0])
	} else {
		for _, a := range c.Command {
			s.WriteString(shellQuote(a) + " ")
		}
	}
	s.WriteString("\n")
	return s.String()
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
