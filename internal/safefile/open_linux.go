// SPDX-License-Identifier: Apache-2.0

package safefile

import (
	"os"

	"golang.org/x/sys/unix"
)

// Open opens the regular file at path for reading. It follows symbolic links. The error is an *os.PathError, with the
// cause ErrNotRegular if path is not a regular file, or a *FileSystemError.
func Open(path string) (*os.File, error) { return (&query{path: path}).open() }

// OpenHead is like Open, for a file of which only the first n bytes are read.
func OpenHead(path string, n int) (*os.File, error) { return (&query{path: path, limit: n}).open() }

// OpenPseudo is like Open, and also opens readable files of proc, sysfs and cgroup file systems.
func OpenPseudo(path string) (*os.File, error) { return (&query{path: path, pseudo: true}).open() }

// OpenIn opens the regular file at path below the directory root, as a process with that root directory would: no
// symbolic link and no ".." can leave it. It needs openat2 (Linux 5.6).
func OpenIn(root, path string) (*os.File, error) { return (&query{root: root, path: path}).open() }

// OpenInNoFollow is like OpenIn, for a path that is not itself a symbolic link.
func OpenInNoFollow(root, path string) (*os.File, error) {
	return (&query{root: root, path: path, noFollow: true}).open()
}

// OpenSame is like OpenIn, or like Open if root is empty, for the file with an inode number.
func OpenSame(root, path string, ino uint64) (*os.File, error) {
	return (&query{root: root, path: path, ino: ino}).open()
}

// Resolve returns the path, as seen by this process, of the regular file at path below the directory root. Below root
// the result contains no symbolic links, so that calls that use it cannot leave the root directory of a process.
func Resolve(root, path string) (string, error) {
	q := query{ask: askPath, root: root, path: path}
	err := q.run()
	return q.text, err
}

// Exists reports whether there is anything at path, also a symbolic link that refers to nothing.
func Exists(path string) bool {
	return (&query{ask: askExists, path: path}).run() == nil
}

// CreateIn creates the regular file at path below the directory root with mode 0600, or truncates an existing one,
// for writing. No symbolic link below root is followed, and a file with several hard links is refused, because
// another link may be outside root.
func CreateIn(root, path string) (*os.File, error) {
	full := root + "/" + path
	fail := func(err error) (*os.File, error) { return nil, &os.PathError{Op: "create", Path: full, Err: err} }
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fail(err)
	}
	defer unix.Close(dir)
	how := unix.OpenHow{
		Flags:   unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_CLOEXEC,
		Mode:    0o600,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	}
	fd, err := openat2(dir, path, &how)
	if err == unix.EEXIST {
		how = unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: how.Resolve}
		var at int
		if at, err = openat2(dir, path, &how); err != nil {
			return fail(err)
		}
		defer unix.Close(at)
		var st unix.Stat_t
		if err = unix.Fstat(at, &st); err == nil && (st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink > 1) {
			err = ErrNotRegular
		}
		if err == nil {
			fd, err = reopen(at, unix.O_WRONLY|unix.O_TRUNC)
		}
	}
	if err != nil {
		return fail(err)
	}
	return os.NewFile(uintptr(fd), full), nil
}

// DirIn opens the directory at path below the directory root, for use in paths below
// /proc/self/fd. No symbolic link below root is followed.
func DirIn(root, path string) (*os.File, error) {
	full := root + "/" + path
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: root, Err: err}
	}
	defer unix.Close(dir)
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	}
	fd, err := openat2(dir, path, &how)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: full, Err: err}
	}
	return os.NewFile(uintptr(fd), full), nil
}

// openat2 calls openat2(2) until it is not interrupted, or crossed by a rename (EAGAIN).
func openat2(dir int, path string, how *unix.OpenHow) (fd int, err error) {
	for {
		if fd, err = unix.Openat2(dir, path, how); err != unix.EINTR && err != unix.EAGAIN {
			return fd, err
		}
	}
}

// ReadIn is like Read, for the file that OpenIn opens.
func ReadIn(root, path string, limit int64) ([]byte, error) {
	f, err := OpenIn(root, path)
	if err != nil {
		return nil, err
	}
	return readAll(f, limit)
}

// ListIn returns the names in the directory at path below the directory root, resolved as OpenIn does, without order.
// More than limit of them are an error that wraps ErrTooLarge.
func ListIn(root, path string, limit int) ([]string, error) {
	return (&query{ask: askNames, root: root, path: path, limit: limit}).list()
}

// List is like ListIn, for a path that is resolved as Open does.
func List(path string, limit int) ([]string, error) {
	return (&query{ask: askNames, path: path, limit: limit}).list()
}
