// SPDX-License-Identifier: Apache-2.0

package safefile

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// use is what the files of a type of file system are good for.
type use uint8

const (
	refused  use = iota // opening a file may have effects: those of tracefs remove events, for example
	programs            // files of users
	served              // files of users, which come from a server that may not respond
	reports             // pseudo files whose opening and reading have no effect
)

// filesystems are the types that are not on a block device but whose files are opened, and btrfs and bcachefs, whose
// device numbers do not show theirs. All other types that are not on a device are refused: tracefs, debugfs, bpf,
// configfs, securityfs, efivarfs, functionfs, nfsd and more. The magic number (linux/magic.h and the file systems'
// sources) identifies mounts of other namespaces.
var filesystems = []struct {
	name  string
	magic uint32
	use   use
}{
	{"overlay", 0x794c7630, programs},
	{"tmpfs", 0x01021994, programs},
	{"ramfs", 0x858458f6, programs},
	{"rootfs", 0, programs}, // an initramfs: ramfs or tmpfs
	{"hugetlbfs", 0x958458f6, programs},
	{"btrfs", 0x9123683e, programs},
	{"bcachefs", 0xca451a4e, programs},
	{"zfs", 0x2fc12fc1, programs},
	{"aufs", 0x61756673, programs},
	{"ecryptfs", 0xf15f, programs},
	{"fuse", 0x65735546, served},
	{"fuseblk", 0x65735546, served}, // on a device, but a process serves it
	{"virtiofs", 0x65735546, served},
	{"nfs", 0x6969, served},
	{"nfs4", 0x6969, served},
	{"cifs", 0xff534d42, served},
	{"smb3", 0xfe534d42, served},
	{"9p", 0x01021997, served},
	{"ceph", 0x00c36400, served},
	{"afs", 0x5346414f, served},
	{"lustre", 0x0bd00bd0, served},
	{"gpfs", 0x47504653, served},
	{"vboxsf", 0x786f4256, served},
	{"proc", 0x9fa0, reports},
	{"sysfs", 0x62656572, reports},
	{"cgroup", 0x27e0eb, reports},
	{"cgroup2", 0x63677270, reports},
}

// named are types that are refused but that a magic number identifies, so that the error has their name.
var named = []struct {
	name  string
	magic uint32
}{{"tracefs", 0x74726163}, {"debugfs", 0x64626720}, {"bpf", 0xcafe4a11}, {"nsfs", 0x6e736673}}

// useOf returns the use of a type, by its name in mountinfo.
func useOf(name string, device bool) use {
	name, _, _ = strings.Cut(name, ".") // fuse.sshfs
	for i := range filesystems {
		if filesystems[i].name == name {
			return filesystems[i].use
		}
	}
	if device {
		return programs
	}
	return refused
}

// byMagic is useOf for the magic number of a file system.
func byMagic(magic uint32, device bool) (string, use) {
	for i := range filesystems {
		if f := &filesystems[i]; f.magic == magic {
			return f.name, f.use
		}
	}
	for i := range named {
		if named[i].magic == magic {
			return named[i].name, refused
		}
	}
	return fmt.Sprintf("%#x", magic), useOf("", device)
}

// mount is a mounted file system.
type mount struct {
	name   string
	use    use
	nosuid bool
}

// mountTable is the mounts of a namespace, by mount ID. IDs are unique among all namespaces.
type mountTable struct {
	all  map[string]mount
	slow bool            // walking a path may wait for a server
	tops map[string]bool // mount points in the root directory
}

// parseMounts reads a mountinfo file (proc_pid_mountinfo(5)): ID, parent, major:minor, root, mount point, options,
// optional fields, "-", type, and more.
func parseMounts(text []byte) mountTable {
	t := mountTable{all: map[string]mount{}, tops: map[string]bool{}}
	for line := range bytes.Lines(text) {
		head, tail, _ := strings.Cut(string(line), " - ")
		f := strings.Fields(head)
		name, _, ok := strings.Cut(tail, " ")
		if !ok || len(f) < 6 {
			continue
		}
		m := mount{name, useOf(name, !strings.HasPrefix(f[2], "0:")), slices.Contains(strings.Split(f[5], ","), "nosuid")}
		t.all[f[0]] = m
		if m.use != served && name != "autofs" {
			t.tops[f[4]] = true
		}
		// systemd mounts autofs on /proc/sys/fs/binfmt_misc, which no program is in.
		t.slow = t.slow || m.use == served || name == "autofs" && !strings.HasPrefix(f[4], "/proc/")
	}
	return t
}

// own is the mount table of this process.
var own struct {
	sync.Mutex
	mountTable
	f *os.File
}

// ownMounts returns the current mounts. The kernel reports changes to poll(2) (fs/proc_namespace.c, mounts_poll).
func ownMounts() mountTable {
	own.Lock()
	defer own.Unlock()
	changed := own.f == nil
	if changed {
		// Not os.Open: the poller of the Go runtime would see the changes first, and the kernel reports each once.
		fd, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return mountTable{slow: true}
		}
		own.f = os.NewFile(uintptr(fd), "")
	} else {
		p := []unix.PollFd{{Fd: int32(own.f.Fd()), Events: unix.POLLPRI}}
		n, err := unix.Poll(p, 0)
		changed = err != nil || n != 0 && p[0].Revents&(unix.POLLPRI|unix.POLLERR) != 0
	}
	if changed {
		// Reading on from the last position, not from an offset, returns whole lines although mounts change.
		own.f.Seek(0, io.SeekStart)
		text, err := io.ReadAll(own.f)
		if err != nil {
			own.f.Close()
			own.f = nil
			return mountTable{slow: true}
		}
		own.mountTable = parseMounts(text)
	}
	return own.mountTable
}

// mountID returns the ID of the mount that an O_PATH descriptor refers to, "" if it is not known. It does not wait
// for the file system, as statx(2) may.
func mountID(at int) string {
	text, _ := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(at))
	_, rest, _ := strings.Cut(string(text), "mnt_id:")
	id, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(id)
}

// check returns an error if files of the file system of an O_PATH descriptor are not opened.
func (m *mount) check(at int, pseudo bool, st *unix.Stat_t) error {
	switch {
	case m.use == programs || m.use == served:
		return nil
	case m.use != reports || !pseudo:
		return &FileSystemError{m.name}
	}
	var log unix.Stat_t
	// Reading /proc/kmsg removes what it returns. All procfs mounts have the same inode for it (proc_get_inode).
	isLog := unix.Lstat("/proc/kmsg", &log) == nil && log.Ino == st.Ino
	if link, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(at)); err != nil || strings.HasSuffix(link, "/kmsg") {
		isLog = true
	}
	switch {
	case m.name == "proc" && isLog:
		return errConsumes
	case st.Mode&0o444 == 0: // root could open it all the same
		return unix.EACCES
	}
	return nil
}
