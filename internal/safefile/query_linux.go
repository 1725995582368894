// SPDX-License-Identifier: Apache-2.0

package safefile

import (
	"errors"
	"io"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// What a query asks for.
const (
	askOpen   = iota // the file, for reading
	askPath          // its path without symbolic links
	askExists        // whether anything is at the path
	askNames         // the names in a directory
)

// query is a request to find a file, and what to do with it.
type query struct {
	ask      int
	root     string // directory that the path cannot leave; "": none
	path     string
	pseudo   bool // accept pseudo files whose reading has no effect
	noFollow bool
	ino      uint64 // inode number that the file must have; 0: any
	limit    int    // of names, or of bytes that are read; 0: none

	at   int      // O_PATH descriptor of the file; -1: not found
	m    mount    // its mount
	f    *os.File // result of askOpen and askNames
	text string   // result of askPath
	// copied: f comes from the helper process, and for askNames contains the names.
	copied bool
}

// Errors of queries. errSlow asks for the helper process.
var (
	errSlow     = errors.New("a file system on the path may not respond")
	errConsumes = errors.New("not opened: reading it removes what it returns")
	errOther    = errors.New("another file has its name")
	// errNoProc is the error if /proc/self/fd is missing. It is not fs.ErrNotExist, because the file exists.
	errNoProc = errors.New("is /proc not mounted? mount -t proc proc /proc")
)

// name is the path in messages.
func (q *query) name() string {
	if q.root == "" {
		return q.path
	}
	return strings.TrimSuffix(q.root, "/") + "/" + strings.TrimPrefix(q.path, "/")
}

func (q *query) open() (*os.File, error) {
	err := q.run()
	return q.f, err
}

// run answers a query: in this process if no file system on the path can block it, else in the helper process.
func (q *query) run() error {
	q.at = -1
	err := error(unix.EINVAL)
	if len(q.path) < unix.PathMax && strings.IndexByte(q.path, 0) < 0 {
		err = q.quick()
	}
	if err == nil {
		err = q.finish()
	} else if err == errSlow {
		err = helper.call(q)
	}
	unix.Close(q.at)
	if err != nil {
		q.f = nil
		return &os.PathError{Op: "open", Path: q.name(), Err: err}
	}
	return nil
}

// mounts returns the mounts that the path can lead to. foreign: they are those of another user namespace, whose owner
// can mount what may not respond, also as a layer of an overlay.
func (q *query) mounts() (t mountTable, foreign bool) {
	rest, inProc := strings.CutPrefix(q.root, "/proc/")
	pid, _, _ := strings.Cut(rest, "/")
	if !inProc || sameNamespace(pid, "mnt") {
		return ownMounts(), false
	}
	text, err := os.ReadFile("/proc/" + pid + "/mountinfo")
	t = parseMounts(text)
	foreign = !sameNamespace(pid, "user")
	t.slow = t.slow || foreign || err != nil
	return t, foreign
}

func sameNamespace(pid, kind string) bool {
	theirs, err := os.Readlink("/proc/" + pid + "/ns/" + kind)
	ours, _ := os.Readlink("/proc/self/ns/" + kind)
	return err == nil && theirs == ours
}

// quick finds the file with an O_PATH descriptor, which has no effect on the file. It does not wait for a file
// system: errSlow is the error for a path that may lead through one that does not respond, with a descriptor if only
// the file itself is in one.
func (q *query) quick() (err error) {
	t, foreign := q.mounts()
	if foreign {
		return errSlow
	}
	start, rest := q.root, q.path
	if start == "" {
		start = "."
		if strings.HasPrefix(rest, "/") {
			start = "/"
			if top, below, ok := strings.Cut(rest[1:], "/"); ok && t.tops["/"+top] {
				start, rest = "/"+top, strings.TrimLeft(below, "/")
			}
		}
	}
	dir, err := unix.Open(start, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if m, ok := t.all[mountID(dir)]; !ok || m.use == served {
		return errSlow
	}
	how := uint64(unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV)
	q.at, err = q.find(dir, rest, how)
	if err == unix.EXDEV {
		if t.slow {
			return errSlow
		}
		how = unix.RESOLVE_NO_MAGICLINKS
		q.at, err = q.find(dir, rest, how)
	}
	if err == unix.ELOOP && q.root == "" { // a magic link, whose target is a file itself: /proc/PID/exe
		parent, base := path.Split(rest)
		up, e := (&query{}).find(dir, parent+".", how)
		if e != nil {
			return errSlow
		}
		defer unix.Close(up)
		if t.all[mountID(up)].name != "proc" {
			return errSlow
		}
		q.at, err = unix.Openat(up, base, unix.O_PATH|unix.O_CLOEXEC, 0)
	}
	if err == unix.ENOSYS && q.root == "" { // before Linux 5.6
		q.at, err = unix.Open(q.path, unix.O_PATH|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return err
	}
	t, _ = q.mounts() // the descriptor keeps the mount, whose ID could have been another's before
	m, ok := t.all[mountID(q.at)]
	if q.m = m; !ok || m.use == served {
		return errSlow
	}
	return nil
}

// find opens the path from dir with O_PATH.
func (q *query) find(dir int, path string, resolve uint64) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: resolve}
	if q.root != "" {
		how.Resolve |= unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS
	}
	if q.noFollow || q.ask == askExists {
		how.Flags |= unix.O_NOFOLLOW
	}
	return openat2(dir, path, &how)
}

// finish answers a query about the file that has been found.
func (q *query) finish() (err error) {
	flags := unix.O_RDONLY | unix.O_DIRECTORY
	if q.ask == askExists {
		return nil
	}
	if q.ask == askNames {
		if q.m.use == refused {
			return &FileSystemError{q.m.name}
		}
	} else {
		var st unix.Stat_t
		if err := unix.Fstat(q.at, &st); err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFREG {
			return ErrNotRegular
		}
		if q.ino != 0 && st.Ino != q.ino {
			return errOther
		}
		if err := q.m.check(q.at, q.pseudo, &st); err != nil {
			return err
		}
		if q.ask == askPath {
			q.text, err = pathOf(q.at, q.root, &st)
			return err
		}
		flags = unix.O_RDONLY | unix.O_NOATIME
	}
	fd, err := reopen(q.at, flags)
	if err == unix.EPERM { // O_NOATIME needs the owner or CAP_FOWNER
		fd, err = reopen(q.at, unix.O_RDONLY)
	}
	if err == nil {
		q.f = os.NewFile(uintptr(fd), q.name())
	}
	return err
}

// reopen opens the very file that an O_PATH descriptor refers to, whatever is at its path by now. It does not wait for
// the other end of a FIFO, a lease or a carrier.
func reopen(at, flags int) (int, error) {
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(at), flags|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT { // the file exists, so its link must
		return -1, errNoProc
	}
	return fd, err
}

// pathOf returns the path of the file at an O_PATH descriptor, as seen by this process.
func pathOf(at int, root string, want *unix.Stat_t) (string, error) {
	link, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(at))
	if err != nil {
		return "", err
	}
	// In another mount namespace the link is relative to that namespace's root; in the current one, for a process
	// with its own root directory (chroot), it is the full path.
	for _, name := range []string{strings.TrimSuffix(root, "/") + link, link} {
		var st unix.Stat_t
		if unix.Lstat(name, &st) == nil && st.Dev == want.Dev && st.Ino == want.Ino {
			return name, nil
		}
	}
	return "", os.ErrNotExist
}

// list returns the names of askNames.
func (q *query) list() (all []string, err error) {
	if err := q.run(); err != nil {
		return nil, err
	}
	defer q.f.Close()
	if q.copied {
		b, err := io.ReadAll(q.f)
		return strings.FieldsFunc(string(b), func(r rune) bool { return r == 0 }), err
	}
	if all, err = names(q.f, q.limit); err != nil {
		err = &os.PathError{Op: "read", Path: q.name(), Err: err}
	}
	return all, err
}

// names reads at most limit names of a directory.
func names(f *os.File, limit int) ([]string, error) {
	all, err := f.Readdirnames(limit + 1)
	if err == nil && len(all) > limit {
		err = ErrTooLarge
	}
	if err == io.EOF {
		err = nil
	}
	return all, err
}
