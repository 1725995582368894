// SPDX-License-Identifier: Apache-2.0

package safefile

import (
	"errors"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Open opens the regular file at path for reading. It follows symbolic links. The error
// is an *os.PathError, with the cause ErrNotRegular if path is not a regular file.
func Open(path string) (*os.File, error) {
	return reopen(path, func() (int, error) { return unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0) })
}

// OpenIn opens the regular file at path below the directory root, as a process with that root directory would: no
// symbolic link and no ".." can leave it. It needs openat2 (Linux 5.6).
func OpenIn(root, path string) (*os.File, error) { return openIn(root, path, 0) }

// OpenInNoFollow is like OpenIn, for a path that is not itself a symbolic link.
func OpenInNoFollow(root, path string) (*os.File, error) { return openIn(root, path, unix.O_NOFOLLOW) }

func openIn(root, path string, flags uint64) (*os.File, error) {
	full := strings.TrimSuffix(root, "/") + "/" + strings.TrimPrefix(path, "/")
	return reopen(full, func() (int, error) {
		dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, err
		}
		defer unix.Close(dir)
		how := unix.OpenHow{
			Flags:   unix.O_PATH | unix.O_CLOEXEC | flags,
			Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
		}
		return openat2(dir, path, &how)
	})
}

// Resolve returns the path, as seen by this process, of the regular file at path below the directory root. Below root
// the result contains no symbolic links, so that calls that use it cannot leave the root directory of a process.
func Resolve(root, path string) (string, error) {
	f, err := OpenIn(root, path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	link, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
	if err != nil {
		return "", err
	}
	found, err := f.Stat()
	if err != nil {
		return "", err
	}
	// In another mount namespace the link is relative to that namespace's root; in the current one, for a process
	// with its own root directory (chroot), it is the full path.
	for _, name := range []string{root + link, link} {
		if fi, err := os.Lstat(name); err == nil && os.SameFile(fi, found) {
			return name, nil
		}
	}
	return "", &os.PathError{Op: "resolve", Path: f.Name(), Err: os.ErrNotExist}
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
		fd, err = openFound(at, unix.O_WRONLY|unix.O_TRUNC, 1)
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

// openFound opens the file that an O_PATH descriptor refers to if it is a regular file with at most the given number
// of hard links; 0: any number.
func openFound(at, flags int, names uint64) (int, error) {
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return -1, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || names > 0 && uint64(st.Nlink) > names {
		return -1, ErrNotRegular
	}
	// The link refers to this very file, whatever is at its path by now.
	fd, err := unix.Open(
		"/proc/self/fd/"+strconv.Itoa(at),
		flags|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC,
		0,
	)
	if err == unix.ENOENT { // the file exists, so its link must
		return -1, errNoProc
	}
	return fd, err
}

// errNoProc is the error if /proc/self/fd is missing. It is not fs.ErrNotExist, because the file exists.
var errNoProc = errors.New("is /proc not mounted? mount -t proc proc /proc")

// reopen checks the file that find opened with O_PATH, which has no effect on the file, and opens it for reading if
// it is a regular file.
func reopen(path string, find func() (int, error)) (*os.File, error) {
	at, err := find()
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(at)
	fd, err := openFound(at, unix.O_RDONLY, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// ReadIn is like Read, for the file that OpenIn opens.
func ReadIn(root, path string, limit int64) ([]byte, error) {
	f, err := OpenIn(root, path)
	if err != nil {
		return nil, err
	}
	return readAll(f, limit)
}

// ListIn returns the names in the directory at path below the directory root, resolved as OpenIn does,
// without order. More than limit of them are an error that wraps ErrTooLarge.
func ListIn(root, path string, limit int) ([]string, error) {
	full := strings.TrimSuffix(root, "/") + "/" + strings.TrimPrefix(path, "/")
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: root, Err: err}
	}
	defer unix.Close(dir)
	fd, err := openat2(dir, path, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: full, Err: err}
	}
	f := os.NewFile(uintptr(fd), full)
	defer f.Close()
	names, err := f.Readdirnames(limit + 1)
	if err == nil && len(names) > limit {
		err = &os.PathError{Op: "read", Path: full, Err: ErrTooLarge}
	}
	if err != nil && err != io.EOF {
		return nil, err
	}
	return names, nil
}
