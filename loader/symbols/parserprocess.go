// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"hash/crc32"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"btc/internal/elffile"
	"btc/internal/safefile"
)

// Any program started under this name becomes the parser process: btrun, btc, a test.
func init() {
	if len(os.Args) == 1 && os.Args[0] == parserName {
		if err := dropPrivileges(); err != nil {
			os.Exit(1)
		}
		serve(&socket{fd: parserSocket})
		os.Exit(0)
	}
}

// Limits of the parser process.
const (
	parserMemory = 768 << 20 // bytes of data (RLIMIT_DATA)
	// The parser process of root has a user and group of its own, so that no other process may send it signals or
	// change its limits: firstUser and its process ID. Nothing assigns these (https://systemd.io/UIDS-GIDS). A user
	// namespace may only have nobody.
	firstUser = 0x7000_0000
	nobody    = 65534
)

// The argument of capset(2); the system call by several threads needs an address that
// stays.
var (
	capHead = unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	noCaps  [2]unix.CapUserData
)

// dropPrivileges leaves the process only what it needs to compute: no capabilities, an unprivileged user, no
// descriptors except the socket, and no way to open or execute anything.
func dropPrivileges() error {
	closeInherited()
	// The process ends when the socket is closed; a signal to the parent may arrive first.
	os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0) // memory that a file takes ends this process first
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT)
	for _, l := range []struct {
		kind int
		max  uint64
	}{{unix.RLIMIT_DATA, parserMemory}, {unix.RLIMIT_CORE, 0}, {unix.RLIMIT_FSIZE, 0}, {unix.RLIMIT_NOFILE, 16}} {
		unix.Setrlimit(l.kind, &unix.Rlimit{Cur: l.max, Max: l.max})
	}
	allThreads := func(trap, a, b, c uintptr) error {
		_, _, err := syscall.AllThreadsSyscall(trap, a, b, c)
		if err == unix.ENOTSUP { // with cgo (race detector): changing the user affects all threads
			_, _, err = unix.Syscall(trap, a, b, c)
		}
		if err != 0 {
			return err
		}
		return nil
	}
	prctl := func(option int, a, b uintptr) error { return allThreads(unix.SYS_PRCTL, uintptr(option), a, b) }
	// These calls need privileges. Without privileges, no_new_privs has the same effect as an empty bounding set.
	for c := uintptr(0); prctl(unix.PR_CAPBSET_DROP, c, 0) == nil; c++ {
	}
	if os.Geteuid() == 0 || os.Getuid() == 0 {
		syscall.Setgroups(nil)
		for _, user := range []int{firstUser + os.Getpid(), nobody} {
			if syscall.Setresgid(user, user, user) == nil && syscall.Setresuid(user, user, user) == nil {
				break // otherwise the user namespace has no such user
			}
		}
	}
	err := allThreads(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&capHead)), uintptr(unsafe.Pointer(&noCaps)), 0)
	if err != nil {
		return err
	}
	if err := prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0); err != nil {
		return err
	}
	// Changing the user resets these two; not every path here changes it.
	unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
	unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	restrictSyscalls() // a kernel without seccomp leaves the rest
	return nil
}

// closeInherited closes the descriptors that btrun got from its own parent, and the runtime's files of the cgroup. It keeps the
// runtime's epoll instance and eventfd, which exist if a package's init has needed a timer, as that of crypto/rand does: execve(2)
// would have closed these two, so nobody else can have opened them.
func closeInherited() {
	names, err := descriptors()
	if err != nil {
		unix.CloseRange(parserSocket+1, ^uint(0), 0)
	}
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil || fd <= parserSocket {
			continue
		}
		flags, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if file, _ := os.Readlink("/proc/self/fd/" + name); flags&unix.FD_CLOEXEC == 0 || !strings.HasPrefix(file, "anon_inode:[event") {
			unix.Close(fd)
		}
	}
}

// descriptors returns the descriptors of this process, and the one that it reads them by, which is closed. os.ReadDir, which
// sorts them, would make btrun 14 KB larger.
func descriptors() ([]string, error) {
	d, err := os.Open("/proc/self/fd")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

// fdReader reads a file by its descriptor.
type fdReader int

func (f fdReader) ReadAt(b []byte, off int64) (done int, err error) {
	for done < len(b) {
		n, err := unix.Pread(int(f), b[done:], off+int64(done))
		switch {
		case err == unix.EINTR:
		case err != nil:
			return done, err
		case n == 0:
			return done, io.EOF
		default:
			done += n
		}
	}
	return done, nil
}

// serve answers requests until the socket is closed.
func serve(s *socket) {
	for {
		var r request
		if r.receive(s) != nil {
			return
		}
		answer := r.answer()
		for _, fd := range r.files {
			unix.Close(fd)
		}
		if answer.write(s) != nil {
			return
		}
	}
}

// receive reads a request and its files.
func (r *request) receive(s *socket) error {
	head := make([]byte, requestHead)
	for {
		n, files, err := safefile.ReceiveMessage(s.fd, head)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return io.EOF
		}
		r.files = files
		if _, err := io.ReadFull(s, head[n:]); err != nil {
			return err
		}
		break
	}
	text := make([]byte, r.read(head))
	_, err := io.ReadFull(s, text)
	r.text = string(text)
	return err
}

// answer handles a request. An unforeseen failure yields an empty response.
func (r *request) answer() (answer *reply) {
	answer = &reply{}
	defer func() {
		if recover() != nil {
			answer = &reply{}
		}
	}()
	var p *parsed
	var err error
	switch {
	case r.kind == askFile && len(r.files) == 1:
		p, err = parseFile(fdReader(r.files[0]))
	case r.kind == askDebug && len(r.files) == 2:
		debug := fdReader(r.files[1])
		if r.flag == 1 && !hasChecksum(debug, r.sum) {
			return answer
		}
		p, err = parseDebugFile(fdReader(r.files[0]), debug, r.flag == 1)
	case r.kind == askPerfMap && len(r.files) == 1:
		t, end, full := parsePerfMap(fdReader(r.files[0]), int64(r.off))
		return &reply{ok: true, table: t, off: uint64(end), full: full}
	case r.kind >= askFunctions && r.kind <= askAddress && len(r.files) == 1:
		return r.answerFile(fdReader(r.files[0]))
	case r.kind == askUnwind && len(r.files) == 1:
		return r.answerUnwind(fdReader(r.files[0]))
	case r.kind == askDemangle:
		return &reply{ok: true, text: elffile.Demangled(r.text)}
	default:
		return answer
	}
	if err != nil {
		return answer
	}
	return &reply{
		ok:       true,
		table:    p.table,
		full:     p.full,
		stripped: p.stripped,
		sum:      p.linkSum,
		text:     p.buildID,
		link:     p.link,
	}
}

// maxDebugFile bounds the file that is read whole for its checksum, in bytes.
const maxDebugFile = 2 << 30

func hasChecksum(r io.ReaderAt, sum uint32) bool {
	h := crc32.NewIEEE()
	n, err := io.Copy(h, io.NewSectionReader(r, 0, maxDebugFile+1))
	return err == nil && n <= maxDebugFile && h.Sum32() == sum
}
