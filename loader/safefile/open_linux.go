package safefile

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Open opens the regular file at path for reading. It follows symbolic links. The error
// is an *os.PathError, with the cause ErrNotRegular where path is something else.
func Open(path string) (*os.File, error) {
	return reopen(path, func() (int, error) { return unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0) })
}

// OpenIn opens the regular file at path below the directory root, as a process whose root
// directory it is would: no symbolic link and no ".." leads out of it. It needs openat2
// (Linux 5.6).
func OpenIn(root, path string) (*os.File, error) {
	full := root + "/" + strings.TrimPrefix(path, "/")
	return reopen(full, func() (int, error) {
		dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, err
		}
		defer unix.Close(dir)
		how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
		return unix.Openat2(dir, path, &how)
	})
}

// reopen looks at what find located with O_PATH, which has no effect on the file, and
// opens it for reading when it is a regular file.
func reopen(path string, find func() (int, error)) (*os.File, error) {
	fail := func(err error) (*os.File, error) { return nil, &os.PathError{Op: "open", Path: path, Err: err} }
	at, err := find()
	for err == unix.EINTR || err == unix.EAGAIN { // EAGAIN: a rename crossed the walk of openat2
		at, err = find()
	}
	if err != nil {
		return fail(err)
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return fail(err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fail(ErrNotRegular)
	}
	// The link names this very file, whatever is at path by now.
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(at), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fail(err)
	}
	return os.NewFile(uintptr(fd), path), nil
}
