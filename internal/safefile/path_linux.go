// SPDX-License-Identifier: Apache-2.0

package safefile

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// PathOf returns the path of an open file, without symbolic links. It is an error if the file is no longer there, or
// has no path in this process's mount namespace.
func PathOf(f *os.File) (string, error) {
	path, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
	if err != nil {
		return "", err
	}
	found, err := f.Stat()
	if err != nil {
		return "", err
	}
	if fi, err := os.Lstat(path); err != nil || !os.SameFile(fi, found) {
		return "", &os.PathError{Op: "resolve", Path: f.Name(), Err: os.ErrNotExist}
	}
	return path, nil
}

// OnOwnMount reports whether a file was opened on a mount of this process's mount namespace that gives set-user-ID programs
// their effect: what belongs to root there, root of this system has made. Containers have mounts of their own, and users
// mount nothing else (FUSE). It does not wait for the file system, as fstatfs(2) may.
func OnOwnMount(f *os.File) bool {
	m, ok := ownMounts().all[mountID(int(f.Fd()))]
	return ok && !m.nosuid
}

// InMemory reports whether a file has no directory, as memfd_create(2) makes it: the copies that Open makes, for example.
func InMemory(f *os.File) bool {
	path, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
	return err != nil || strings.HasPrefix(path, "/memfd:")
}

// OfRoot reports whether no user but root can change which file is at an absolute path without symbolic links, or its
// content.
func OfRoot(path string) bool { return ofUsers(path, 0, 0) }

// ofUsers is OfRoot for two users.
func ofUsers(path string, one, other uint32) bool {
	for {
		var st unix.Stat_t
		if unix.Lstat(path, &st) != nil || st.Uid != one && st.Uid != other || st.Mode&0o022 != 0 || st.Mode&unix.S_IFMT == unix.S_IFLNK {
			return false
		}
		if path == "/" {
			return true
		}
		path = filepath.Dir(path)
	}
}
