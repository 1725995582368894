// SPDX-License-Identifier: Apache-2.0

//go:build linux

package safefile

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Each type of file system that a kernel may have, by the name in mountinfo.
func TestUses(t *testing.T) {
	for _, c := range []struct {
		use    use
		device bool
		names  string
	}{
		{programs, false, "overlay tmpfs ramfs rootfs hugetlbfs btrfs bcachefs zfs aufs ecryptfs"},
		{programs, true, "ext2 ext3 ext4 xfs btrfs f2fs vfat exfat ntfs3 iso9660 udf squashfs erofs romfs cramfs jfs nilfs2 ocfs2 gfs2 reiserfs minix"},
		{served, false, "fuse fuse.sshfs fuse.lxcfs fuse.ext4 nfs nfs4 cifs smb3 9p ceph virtiofs afs lustre gpfs vboxsf"},
		{served, true, "fuseblk fuseblk.ntfs-3g"},
		{reports, false, "proc sysfs cgroup cgroup2"},
		{refused, false, "tracefs debugfs securityfs configfs bpf functionfs gadgetfs nfsd selinuxfs smackfs apparmorfs pstore mqueue " +
			"binfmt_misc efivarfs devtmpfs devpts autofs fusectl rpc_pipefs resctrl cpuset sockfs pipefs nsfs pidfs bdev anon_inodefs " +
			"dmabuf secretmem guest_memfd ipathfs qib_fs ibmasmfs usbfs openpromfs spufs hypfs xenfs oprofilefs dlmfs ocfs2_dlmfs zonefs_x nosuchfs"},
	} {
		for name := range strings.FieldsSeq(c.names) {
			if use := useOf(name, c.device); use != c.use {
				t.Errorf("%s: use %d, want %d", name, use, c.use)
			}
		}
	}
	for i := range filesystems {
		f := &filesystems[i]
		if name, use := byMagic(f.magic, false); f.magic != 0 && use != f.use {
			t.Errorf("%s: its magic number means %s", f.name, name)
		}
	}
	for _, f := range named {
		if name, use := byMagic(f.magic, false); name != f.name || use != refused {
			t.Errorf("%s: %s %d", f.name, name, use)
		}
	}
	if name, use := byMagic(0x12345678, false); name != "0x12345678" || use != refused {
		t.Errorf("unknown type: %s %d", name, use)
	}
	if _, use := byMagic(0xef53, true); use != programs {
		t.Errorf("unknown type on a device: %d", use)
	}
	// A type of this kernel that is not on a device and not in the table is refused.
	text, _ := os.ReadFile("/proc/filesystems")
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "nodev\t"); ok && useOf(name, false) == refused {
			t.Log("refused here:", name)
		}
	}
}

func TestParseMounts(t *testing.T) {
	const plain = "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n" +
		"40 36 0:12 / /sys/kernel/tracing rw,nosuid,noexec - tracefs tracefs rw\n41 36 0:30 / /x rw - y\n1 2\n" +
		"42 36 0:40 / /tmp rw - tmpfs a\\040b rw\n43 36 0:41 / /proc/sys/fs/binfmt_misc rw - autofs systemd-1 rw\n"
	m := parseMounts([]byte(plain))
	if m.all["36"] != (mount{"ext3", programs, false}) || m.all["40"] != (mount{"tracefs", refused, true}) || m.all["42"].use != programs || m.slow {
		t.Errorf("mounts: %+v", m)
	}
	if !m.tops["/tmp"] || m.tops["/mnt3"] {
		t.Errorf("mount points: %v", m.tops)
	}
	for _, slow := range []string{
		"44 36 0:42 / /home/u/x rw - fuse.sshfs u@h: rw", "44 36 8:1 / /win rw - fuseblk /dev/sda1 rw",
		"44 36 0:42 / /home rw - autofs x rw", "44 36 0:42 / /n rw - nfs4 h:/x rw",
	} {
		if m := parseMounts([]byte(plain + slow + "\n")); !m.slow || m.tops["/win"] || m.tops["/home"] {
			t.Errorf("%s: %+v", slow, m)
		}
	}
}

// mounted mounts a file system until the end of the test, or skips it.
func mounted(t *testing.T, kind, source, options string, flags uintptr) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount(source, dir, kind, flags, options); err != nil {
		t.Skipf("skipped: cannot mount %s: %v", kind, err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// bound binds a file to another path until the end of the test.
func bound(t *testing.T, file string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "bound")
	if err := os.WriteFile(to, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(file, to, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("skipped: cannot bind %s: %v", file, err)
	}
	t.Cleanup(func() { unix.Unmount(to, unix.MNT_DETACH) })
	return to
}

func refusedAs(t *testing.T, path, name string) {
	t.Helper()
	for what, open := range map[string]func(string) (*os.File, error){"Open": Open, "OpenPseudo": OpenPseudo} {
		f, err := open(path)
		var is *FileSystemError
		if !errors.As(err, &is) || is.Type != name {
			t.Errorf("%s(%s): error = %v, want a refusal of %s", what, path, err, name)
		}
		f.Close()
	}
}

// A file of tracefs is refused, however its path leads there.
func TestTracefsIsRefused(t *testing.T) {
	dir := mounted(t, "tracefs", "tracefs", "", 0)
	file := dir + "/trace_pipe"
	refusedAs(t, file, "tracefs")
	refusedAs(t, dir+"/free_buffer", "tracefs")
	refusedAs(t, bound(t, file), "tracefs")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	refusedAs(t, link, "tracefs")
	refusedAs(t, "/proc/self/root"+file, "tracefs")
	refusedAs(t, "/proc/self/cwd/../../../../../../../.."+file, "tracefs")
	at, err := unix.Open(file, unix.O_PATH, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(at)
	refusedAs(t, "/proc/self/fd/"+itoa(at), "tracefs")
	for _, root := range []string{"/", "/proc/self/root", dir} {
		rest := strings.TrimPrefix(file, strings.TrimSuffix(root, "/"))
		if root == "/proc/self/root" {
			rest = file
		}
		var is *FileSystemError
		if f, err := OpenIn(root, rest); !errors.As(err, &is) {
			t.Errorf("OpenIn(%s, %s): %v", root, rest, err)
			f.Close()
		}
		if _, err := Resolve(root, rest); !errors.As(err, &is) {
			t.Errorf("Resolve(%s, %s): %v", root, rest, err)
		}
	}
	if _, err := List(dir, 1<<20); !errors.As(err, new(*FileSystemError)) {
		t.Errorf("List: %v", err)
	}
}

func itoa(n int) string { return strconv.Itoa(n) }

func TestDebugfsIsRefused(t *testing.T) {
	dir := mounted(t, "debugfs", "debugfs", "", 0)
	for _, name := range []string{"sleep_time", "split_huge_pages", "suspend_stats", "wakeup_sources", "gpio"} {
		if _, err := os.Lstat(dir + "/" + name); err == nil {
			refusedAs(t, dir+"/"+name, "debugfs")
			return
		}
	}
	t.Skip("skipped: debugfs has none of the files")
}

// Pseudo files are read by OpenPseudo only, kmsg by nothing.
func TestPseudoFiles(t *testing.T) {
	for _, path := range []string{"/proc/uptime", "/proc/self/status", "/proc/sys/kernel/ostype", "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/fs/cgroup/cgroup.controllers"} {
		if _, err := os.Lstat(path); err != nil {
			continue
		}
		f, err := OpenPseudo(path)
		if err != nil {
			t.Errorf("OpenPseudo(%s): %v", path, err)
		}
		f.Close()
		if f, err := Open(path); !errors.As(err, new(*FileSystemError)) {
			t.Errorf("Open(%s): error = %v", path, err)
			f.Close()
		}
	}
	for _, path := range []string{"/proc/sysrq-trigger", "/proc/self/clear_refs"} { // no read bit
		if f, err := OpenPseudo(path); !errors.Is(err, fs.ErrPermission) && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("OpenPseudo(%s): error = %v", path, err)
			f.Close()
		}
	}
	for _, path := range []string{"/proc/kmsg", "/proc/self/root/proc/kmsg", "/proc/../proc/kmsg"} {
		if f, err := OpenPseudo(path); !errors.Is(err, errConsumes) {
			t.Errorf("OpenPseudo(%s): error = %v", path, err)
			f.Close()
		}
	}
	if f, err := Open("/proc/self/exe"); err != nil {
		t.Errorf("program of a process: %v", err)
	} else {
		f.Close()
	}
	if f, err := OpenPseudo(bound(t, "/proc/kmsg")); !errors.Is(err, errConsumes) {
		t.Errorf("kmsg at another path: error = %v", err)
		f.Close()
	}
}

func TestKmsgOfAnotherProcfs(t *testing.T) {
	dir := mounted(t, "proc", "proc", "", 0)
	if f, err := OpenPseudo(bound(t, dir+"/kmsg")); !errors.Is(err, errConsumes) {
		t.Errorf("error = %v", err)
		f.Close()
	}
}

// A memfd is in no mountinfo file: the helper process asks its file system.
func TestInternalMount(t *testing.T) {
	fd, err := unix.MemfdCreate("x", 0)
	if err != nil {
		t.Skip("skipped: no memfd: ", err)
	}
	f := os.NewFile(uintptr(fd), "")
	defer f.Close()
	f.WriteString("content")
	g, err := Open("/proc/self/fd/" + itoa(fd))
	if err != nil {
		t.Fatal(err)
	}
	g.Close()
}

// Opening any file of a trace instance leaves its ring buffer as it is: free_buffer would empty it.
func TestTraceBufferIsKept(t *testing.T) {
	dir := mounted(t, "tracefs", "tracefs", "", 0) + "/instances/btc-test"
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Skip("skipped: no trace instances: ", err)
	}
	t.Cleanup(func() { os.Remove(dir) })
	size, on := dir+"/buffer_size_kb", dir+"/tracing_on"
	if err := os.WriteFile(size, []byte("100"), 0); err != nil {
		t.Skip("skipped: ", err)
	}
	os.WriteFile(dir+"/trace_options", []byte("disable_on_free"), 0)
	os.WriteFile(dir+"/trace_marker", []byte("mark"), 0)
	state := func() (all string) {
		for _, name := range []string{size, on, dir + "/trace"} {
			b, _ := os.ReadFile(name)
			if strings.HasSuffix(name, "/trace") { // the name of the task is not always known
				b = []byte(strings.Repeat("mark\n", strings.Count(string(b), ": mark")))
			}
			all += string(b)
		}
		return all
	}
	before := state()
	entries, err := os.ReadDir(dir)
	if err != nil || !strings.Contains(before, "mark") {
		t.Skipf("skipped: no mark in the trace: %v\n%s", err, before)
	}
	for _, e := range entries {
		path := dir + "/" + e.Name()
		for _, open := range []func() (*os.File, error){
			func() (*os.File, error) { return Open(path) }, func() (*os.File, error) { return OpenPseudo(path) },
			func() (*os.File, error) { return OpenIn("/", path) }, func() (*os.File, error) { return OpenSame("", path, 0) },
			func() (*os.File, error) { return OpenHead(path, 1) },
		} {
			if f, err := open(); err == nil {
				t.Errorf("%s was opened", path)
				f.Close()
			}
		}
	}
	if after := state(); after != before {
		t.Errorf("before:\n%safter:\n%s", before, after)
	}
}

// TestOnOwnMount checks which files belong to root of this system if they belong to user 0.
func TestOnOwnMount(t *testing.T) {
	opened := func(root, path string) *os.File {
		f, err := os.Open(root + path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.MemfdCreate("file", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	memory := os.NewFile(uintptr(fd), "file")
	defer memory.Close()
	if OnOwnMount(memory) || !InMemory(memory) {
		t.Error("a file in memory is on a mount of this process")
	}
	if InMemory(opened("", exe)) {
		t.Error("the test's program is a file in memory")
	}
	usual := mounted(t, "tmpfs", "none", "", 0)
	safe := mounted(t, "tmpfs", "none", "", unix.MS_NOSUID)
	for _, dir := range []string{usual, safe} {
		if err := os.WriteFile(dir+"/file", nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if got := OnOwnMount(opened("", dir+"/file")); got != (dir == usual) {
			t.Errorf("own mount %t, with nosuid %t", got, dir == safe)
		}
	}
	// The same file, as a process of another mount namespace sees it.
	cmd := exec.Command("/bin/sh", "-c", "echo; read x")
	cmd.SysProcAttr = &unix.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Skip("skipped: cannot make a mount namespace: ", err)
	}
	defer cmd.Wait()
	defer in.Close()
	out.Read(make([]byte, 1))
	if OnOwnMount(opened("/proc/"+strconv.Itoa(cmd.Process.Pid)+"/root", usual+"/file")) {
		t.Error("a file of another mount namespace is on a mount of this process")
	}
}
