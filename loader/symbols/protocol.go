// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"btc/internal/safefile"
)

// Requests to the parser process, and its responses, are sent over a stream socket. Both
// messages begin with a header of fixed size, in native byte order; the files of a request
// come with its header.

// Kinds of requests.
const (
	askFile     = iota + 1 // one ELF file: its functions
	askDebug               // an ELF file and its file of symbols; sum: checksum of that, if flag is 1
	askPerfMap             // a perf map from an offset on
	askDemangle            // the name in text

	askFunctions // an ELF file and a Question
	askProbes    // an ELF file: its USDT probes
	askAddress   // an ELF file: an Address
	askUnwind    // an ELF file: its unwind table; or, with a build id in text, a pack or a table; flag 1: only its build id
)

type request struct {
	kind, flag uint8
	sum        uint32
	off        uint64
	text       string
	files      []int // descriptors
}

type reply struct {
	table
	ok       bool
	stripped bool
	full     bool   // table does not contain everything in the file
	sum      uint32 // checksum of the parsed file
	off      uint64 // perf map: where to read on
	text     string // build ID, demangled name
	link     string
}

const (
	requestHead = 24
	replyHead   = 40
	maxText     = 1 << 16 // bytes of a string in a message
)

func (r *request) head() []byte {
	b := make([]byte, requestHead, requestHead+len(r.text))
	b[0], b[1] = r.kind, r.flag
	binary.NativeEndian.PutUint32(b[4:], r.sum)
	binary.NativeEndian.PutUint64(b[8:], r.off)
	binary.NativeEndian.PutUint32(b[16:], uint32(len(r.text)))
	return append(b, r.text...)
}

func (r *request) read(b []byte) (textLen int) {
	r.kind, r.flag = b[0], b[1]
	r.sum, r.off = binary.NativeEndian.Uint32(b[4:]), binary.NativeEndian.Uint64(b[8:])
	return int(min(binary.NativeEndian.Uint32(b[16:]), maxText))
}

// Flags in the first byte of a reply.
const (
	replyOK = 1 << iota
	replyStripped
	replyFull
)

func (r *reply) write(w io.Writer) error {
	b := make([]byte, replyHead, replyHead+len(r.text)+len(r.link))
	for bit, set := range map[byte]bool{replyOK: r.ok, replyStripped: r.stripped, replyFull: r.full} {
		if set {
			b[0] |= bit
		}
	}
	for i, v := range []uint32{
		r.sum, uint32(len(r.entries)), uint32(len(r.names)), uint32(len(r.text)), uint32(len(r.link)),
	} {
		binary.NativeEndian.PutUint32(b[4+4*i:], v)
	}
	binary.NativeEndian.PutUint64(b[24:], r.off)
	for _, part := range [][]byte{append(append(b, r.text...), r.link...), raw(r.entries), r.names} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

var errBadReply = errors.New("invalid response from the process that reads symbols")

func (r *reply) read(in io.Reader) error {
	var b [replyHead]byte
	if _, err := io.ReadFull(in, b[:]); err != nil {
		return err
	}
	r.ok, r.stripped, r.full = b[0]&replyOK != 0, b[0]&replyStripped != 0, b[0]&replyFull != 0
	word := func(i int) uint32 { return binary.NativeEndian.Uint32(b[4+4*i:]) }
	r.sum, r.off = word(0), binary.NativeEndian.Uint64(b[24:])
	entries, names, text, link := word(1), word(2), word(3), word(4)
	if entries > maxEntries || names > maxNames || text > maxText || link > maxText {
		return errBadReply
	}
	words := make([]byte, text+link)
	if _, err := io.ReadFull(in, words); err != nil {
		return err
	}
	r.text, r.link = string(words[:text]), string(words[text:])
	if entries == 0 && names == 0 {
		return nil
	}
	r.entries, r.names = make([]entry, entries), make([]byte, names)
	if _, err := io.ReadFull(in, raw(r.entries)); err != nil {
		return err
	}
	_, err := io.ReadFull(in, r.names)
	return err
}

// socket reads and writes a socket until the process at the other end has used too much time.
type socket struct {
	fd        int
	pid       int           // of that process; 0: there is no limit
	left      time.Duration // to wait
	blocked   time.Duration // of it, the process neither computed nor was stopped
	checked   time.Time     // when the limits were last checked
	cpuClock  int32
	cpuSeen   time.Duration // reading of that clock at that time
	cpuLimit  time.Duration
	cancelled func() bool // reports whether waiting is to end; may be nil
}

var (
	errStopped   = errors.New("the process that reads symbols is stopped")
	errCancelled = errors.New("cancelled")
)

// waitPiece is the interval at which the limits are checked.
const waitPiece = 250 * time.Millisecond

// cpu returns the CPU time of the process at the other end.
//
//go:noinline
func (s *socket) cpu() time.Duration {
	var used unix.Timespec
	if unix.ClockGettime(s.cpuClock, &used) != nil {
		return s.cpuSeen // it has ended
	}
	return time.Duration(used.Nano())
}

// isStopped reports whether the process is stopped by a signal.
func (s *socket) isStopped() bool {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.pid))
	i := bytes.LastIndexByte(b, ')')
	return i >= 0 && bytes.HasPrefix(b[i:], []byte(") T"))
}

// wait sets a timeout option of the socket to waitPiece, unless a limit has been reached.
func (s *socket) wait(option int) error {
	if s.pid == 0 {
		return nil
	}
	now, used := time.Now(), s.cpu()
	passed := min(now.Sub(s.checked), 2*waitPiece) // more passed if this process was stopped, too
	s.left -= passed
	if passed >= waitPiece/2 && used-s.cpuSeen < passed/256 { // on a busy machine it would have computed a little
		if s.isStopped() {
			return errStopped
		}
		s.blocked += passed
	}
	s.checked, s.cpuSeen = now, used
	switch {
	case s.left <= 0 || used > s.cpuLimit:
		return os.ErrDeadlineExceeded
	case s.cancelled != nil && s.cancelled():
		return errCancelled
	}
	tv := unix.NsecToTimeval(int64(waitPiece))
	return unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, option, &tv)
}

func (s *socket) Read(b []byte) (int, error) {
	for {
		if err := s.wait(unix.SO_RCVTIMEO); err != nil {
			return 0, err
		}
		switch n, err := unix.Read(s.fd, b); {
		case err == unix.EINTR || err == unix.EAGAIN:
		case err != nil:
			return 0, os.NewSyscallError("read", err)
		case n == 0 && len(b) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// Write sends without SIGPIPE where the other end is gone.
func (s *socket) Write(b []byte) (done int, err error) {
	for done < len(b) {
		if err := s.wait(unix.SO_SNDTIMEO); err != nil {
			return done, err
		}
		n, err := safefile.SendMessage(s.fd, b[done:], nil)
		if err != nil && err != unix.EINTR && err != unix.EAGAIN {
			return done, os.NewSyscallError("sendmsg", err)
		}
		done += max(n, 0)
	}
	return done, nil
}
