// SPDX-License-Identifier: Apache-2.0

package safefile

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Create opens a file for writing, with additional flags, and creates it if it does not exist. In a directory that
// others can write to, such as /tmp, it follows no symbolic link and opens no file of a user other than this process's
// and the directory's owner, as kernels do if fs.protected_symlinks, protected_regular and protected_fifos are set.
// Devices, pipes and links of proc, such as /dev/stdout, are opened as usual.
func Create(path string, flags int, mode os.FileMode) (*os.File, error) {
	fail := func(err error) (*os.File, error) { return nil, &os.PathError{Op: "open", Path: path, Err: err} }
	for {
		w, err := walkTo(path)
		if err != nil {
			return fail(err)
		}
		fd, err := w.open(unix.O_WRONLY|unix.O_CLOEXEC|flags, mode)
		w.close()
		if err == unix.EEXIST && flags&unix.O_EXCL == 0 { // created in the meantime
			continue
		}
		if err != nil {
			return fail(err)
		}
		if w.st.Mode&unix.S_IFMT == unix.S_IFIFO {
			unix.SetNonblock(fd, true) // for the poller of package os
		}
		return os.NewFile(uintptr(fd), path), nil
	}
}

// Target returns the path of the file that Create would open, without symbolic links.
func Target(path string) (string, error) {
	w, err := walkTo(path)
	if err != nil {
		return "", &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer w.close()
	if w.magic {
		return path, nil
	}
	dir, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", w.dir))
	return strings.TrimSuffix(dir, "/") + "/" + w.base, err
}

// walk is the last step of a path: a name in a directory.
type walk struct {
	dir   int
	base  string
	at    int  // O_PATH descriptor of what has the name; -1: nothing
	magic bool // a link of proc, which only the kernel can follow
	st    unix.Stat_t
}

func (w *walk) close() {
	unix.Close(w.dir)
	if w.at >= 0 {
		unix.Close(w.at)
	}
}

func (w *walk) open(flags int, mode os.FileMode) (fd int, err error) {
	for {
		switch {
		case w.magic:
			fd, err = unix.Openat(w.dir, w.base, flags, 0)
		case w.at < 0:
			fd, err = unix.Openat(w.dir, w.base, flags|unix.O_CREAT|unix.O_EXCL, uint32(mode.Perm()))
		case flags&unix.O_EXCL != 0:
			return -1, unix.EEXIST
		default:
			fd, err = unix.Open(fmt.Sprintf("/proc/self/fd/%d", w.at), flags, 0)
		}
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// maxLinks bounds the number of symbolic links in a path, as the kernel does.
const maxLinks = 40

// walkTo finds the name and the directory that a path leads to. It checks the owners of all links on the way, which
// is more than the kernel does.
func walkTo(path string) (*walk, error) {
	rest := strings.Split(path, "/")
	w := &walk{dir: -1, at: -1}
	fail := func(err error) (*walk, error) {
		w.close()
		return nil, err
	}
	enter := func(name string, flags int) (err error) {
		from := w.dir
		if w.dir < 0 {
			from = unix.AT_FDCWD
		}
		next, err := unix.Openat(from, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC|flags, 0)
		if err == nil {
			unix.Close(w.dir)
			w.dir = next
		}
		return err
	}
	start := "."
	if strings.HasPrefix(path, "/") {
		start = "/"
	}
	if err := enter(start, 0); err != nil {
		return fail(err)
	}
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		last := len(rest) == 0
		switch {
		case last && (name == "" || name == "." || name == ".."):
			return fail(unix.EISDIR)
		case name == "" || name == ".":
			continue
		}
		var dir unix.Stat_t
		if err := unix.Fstat(w.dir, &dir); err != nil {
			return fail(err)
		}
		at, err := unix.Openat(w.dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == unix.ENOENT && last {
			w.base = name
			return w, nil
		}
		if err == nil {
			w.at = at
			err = unix.Fstat(at, &w.st)
		}
		if err != nil {
			return fail(err)
		}
		link := w.st.Mode&unix.S_IFMT == unix.S_IFLNK
		if link || last {
			if err := refusal(&dir, &w.st, name); err != nil {
				return fail(err)
			}
		}
		var fs unix.Statfs_t
		magic := link && unix.Fstatfs(w.dir, &fs) == nil && fs.Type == unix.PROC_SUPER_MAGIC
		if last && (!link || magic) {
			w.base, w.magic = name, magic
			return w, nil
		}
		unix.Close(w.at)
		w.at = -1
		if !link || magic {
			flags := unix.O_NOFOLLOW
			if magic {
				flags = 0
			}
			if err := enter(name, flags); err != nil {
				return fail(err)
			}
			continue
		}
		if links++; links > maxLinks {
			return fail(unix.ELOOP)
		}
		b := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(w.dir, name, b)
		if err == nil && n > 0 && b[0] == '/' {
			err = enter("/", 0)
		}
		if err != nil {
			return fail(err)
		}
		rest = append(strings.Split(string(b[:n]), "/"), rest...)
	}
	return fail(unix.ENOENT)
}

// refusal returns an error if others can write to a directory, and so may have chosen what the name in it refers to: it
// belongs to neither this process's user nor the owner of the directory, or has another name.
func refusal(dir, file *unix.Stat_t, name string) error {
	switch {
	case dir.Mode&0o002 == 0 && (dir.Mode&0o020 == 0 || dir.Mode&unix.S_ISVTX == 0):
		return nil
	case file.Uid != dir.Uid && int(file.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to user %d, in a directory that others can write to", name, file.Uid)
	case file.Mode&unix.S_IFMT == unix.S_IFREG && file.Nlink > 1:
		return fmt.Errorf("%s has another name (hard link), in a directory that others can write to", name)
	}
	return nil
}
