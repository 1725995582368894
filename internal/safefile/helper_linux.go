// SPDX-License-Identifier: Apache-2.0

package safefile

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The helper process opens files of file systems that may not respond. A thread that waits for one may not be
// killable, so that a process with such a thread would not end. The helper sends open files, or copies of them.

// helperName is argv[0] of this program when it is the helper process.
const helperName = "btrun-files"

const (
	helperSocket = 3 // in the helper process
	maxPause     = 10 * time.Minute
	maxCopy      = 512 << 20 // bytes of a copied file
	maxMessage   = 3 * unix.PathMax
)

// answerTime is the limit of a query. A variable for tests.
var answerTime = 5 * time.Second

type helperProcess struct {
	mu   sync.Mutex
	proc *os.Process
	sock int
	// After a timeout, queries fail at once until resume. The pause doubles with each, so that a server that never
	// responds delays a long run by a small part of its time.
	resume time.Time
	pause  time.Duration
}

var helper helperProcess

// call sends a query and waits for the answer.
func (h *helperProcess) call(q *query) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Now().Before(h.resume) {
		return ErrNoAnswer
	}
	if h.proc == nil {
		if err := h.start(); err != nil {
			return err
		}
	}
	err := h.exchange(q)
	if err != errSlow {
		h.pause = 0
		return err
	}
	h.proc.Kill()
	go h.proc.Wait() // may take for ever
	unix.Close(h.sock)
	h.proc, h.pause = nil, min(max(2*h.pause, answerTime), maxPause)
	h.resume = time.Now().Add(h.pause)
	return ErrNoAnswer
}

// exchange returns errSlow if there is no answer.
func (h *helperProcess) exchange(q *query) error {
	if _, err := SendMessage(h.sock, q.pack(), found(q.at)); err != nil {
		return errSlow
	}
	end := time.Now().Add(answerTime)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(h.sock), Events: unix.POLLIN}}, int(time.Until(end).Milliseconds()))
		if n > 0 {
			break
		}
		if err != unix.EINTR || time.Now().After(end) {
			return errSlow
		}
	}
	b := make([]byte, maxMessage)
	n, fds, err := ReceiveMessage(h.sock, b)
	if err != nil || n == 0 {
		return errSlow
	}
	if len(fds) > 0 {
		q.f, q.copied = os.NewFile(uintptr(fds[0]), q.name()), true
	}
	kind, text, _ := strings.Cut(string(b[:n]), "\x00")
	q.text = text
	return unpackError(kind, text)
}

// found is a list of a descriptor; -1: none.
func found(fd int) []int {
	if fd < 0 {
		return nil
	}
	return []int{fd}
}

// pack encodes a query. A path has no NUL.
func (q *query) pack() []byte {
	flag := func(b bool) string { return strconv.FormatBool(b) }
	self := func(path string) string { // not the helper process
		if rest, ok := strings.CutPrefix(path, "/proc/self/"); ok {
			return "/proc/" + strconv.Itoa(os.Getpid()) + "/" + rest
		}
		return path
	}
	return []byte(strings.Join([]string{
		strconv.Itoa(q.ask), self(q.root), self(q.path), flag(q.pseudo), flag(q.noFollow),
		strconv.FormatUint(q.ino, 10), strconv.Itoa(q.limit), strconv.Itoa(caller.uid), strconv.Itoa(caller.gid),
	}, "\x00"))
}

func unpackQuery(b []byte) *query {
	f := strings.Split(string(b), "\x00")
	if len(f) != 9 {
		return nil
	}
	q := &query{root: f[1], path: f[2], pseudo: f[3] == "true", noFollow: f[4] == "true"}
	q.ask, _ = strconv.Atoi(f[0])
	q.ino, _ = strconv.ParseUint(f[5], 10, 64)
	q.limit, _ = strconv.Atoi(f[6])
	caller.uid, _ = strconv.Atoi(f[7])
	caller.gid, _ = strconv.Atoi(f[8])
	return q
}

// sentErrors are the errors that keep their identity, by their index.
var sentErrors = []error{nil, ErrNotRegular, ErrTooLarge, errConsumes, errOther, errNoProc, os.ErrNotExist}

func packError(err error) string {
	var errno syscall.Errno
	var fs *FileSystemError
	switch {
	case errors.As(err, &errno):
		return "E" + strconv.Itoa(int(errno)) + "\x00"
	case errors.As(err, &fs):
		return "T\x00" + fs.Type
	}
	for i, e := range sentErrors {
		if err == e {
			return strconv.Itoa(i) + "\x00"
		}
	}
	return "X\x00" + err.Error()
}

func unpackError(kind, text string) error {
	if n, ok := strings.CutPrefix(kind, "E"); ok {
		errno, _ := strconv.Atoi(n)
		return syscall.Errno(errno)
	}
	if i, err := strconv.Atoi(kind); err == nil && i >= 0 && i < len(sentErrors) {
		return sentErrors[i]
	}
	if kind == "T" {
		return &FileSystemError{text}
	}
	return errors.New(text)
}

// start runs this program again as the helper process; its own init function makes it that.
func (h *helperProcess) start() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	theirs := os.NewFile(uintptr(pair[1]), "helper")
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err == nil {
		defer null.Close()
		h.proc, err = os.StartProcess("/proc/self/exe", []string{helperName}, &os.ProcAttr{
			Files: []*os.File{null, null, null, theirs},
			Env:   []string{"GOTRACEBACK=none"},
			Sys:   &unix.SysProcAttr{Setpgid: true}, // signals of the terminal do not reach it
		})
	}
	if err != nil {
		unix.Close(pair[0])
		if errors.Is(err, os.ErrNotExist) { // it is not about the file that is to be opened
			err = errNoProc
		}
		return err
	}
	h.sock = pair[0]
	return nil
}

// Any program started under this name becomes the helper process: btrun, btc, a test. It ends with its parent, or
// with the query that it waits for.
func init() {
	if len(os.Args) != 1 || os.Args[0] != helperName {
		return
	}
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT)
	b := make([]byte, maxMessage)
	for {
		n, fds, err := ReceiveMessage(helperSocket, b)
		q := unpackQuery(b[:n])
		if err != nil || q == nil {
			os.Exit(0)
		}
		q.at = append(fds, -1)[0]
		asCaller(func() { err = q.here() })
		answer, fd := packError(err), -1
		if err == nil {
			answer += q.text
			if q.f != nil {
				fd = int(q.f.Fd())
			}
		}
		SendMessage(helperSocket, []byte(answer), found(fd))
		q.f.Close()
		unix.Close(q.at)
	}
}

// here answers a query in the helper process, where it may wait.
func (q *query) here() (err error) {
	if q.at < 0 {
		dir := unix.AT_FDCWD
		if q.root != "" {
			if dir, err = unix.Open(q.root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
				return err
			}
			defer unix.Close(dir)
		}
		if q.at, err = q.find(dir, q.path, 0); err != nil {
			return err
		}
	}
	t, foreign := q.mounts()
	m, known := t.all[mountID(q.at)]
	if !known {
		var fs unix.Statfs_t
		var st unix.Stat_t
		if err := errors.Join(unix.Fstatfs(q.at, &fs), unix.Fstat(q.at, &st)); err != nil {
			return err
		}
		m.name, m.use = byMagic(uint32(fs.Type), unix.Major(st.Dev) != 0)
	}
	q.m = m
	if err := q.finish(); err != nil || q.f == nil {
		return err
	}
	// Reading the file, and even closing it, may wait, too.
	in := q.f
	switch {
	case q.ask == askNames:
		all, err := names(in, q.limit)
		in.Close()
		if err != nil {
			return err
		}
		return q.memory(bytes.NewBufferString(strings.Join(all, "\x00")))
	case strings.HasPrefix(m.name, "fuse") || foreign || !known && m.name == "overlay":
		most := int64(maxCopy + 1)
		if q.limit > 0 {
			most = int64(q.limit)
		}
		err = q.memory(io.LimitReader(in, most))
		in.Close()
	}
	return err
}

// memory makes a copy in memory the result.
func (q *query) memory(r io.Reader) error {
	fd, err := unix.MemfdCreate("file", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	q.f = os.NewFile(uintptr(fd), "")
	n, err := io.Copy(q.f, r)
	if err == nil && n > maxCopy {
		err = ErrTooLarge
	}
	q.f.Seek(0, io.SeekStart)
	return err
}
