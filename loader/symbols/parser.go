// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"btc/internal/safefile"
)

// parser runs the unprivileged process that parses untrusted files: symbol tables, perf
// maps, mangled names. This process only opens the files. A request that crashes the
// process or takes too long fails; the next one starts the process again.
type parser struct {
	proc  *os.Process
	sock  socket
	fails int
	last  time.Time // failure
	warn  func(string)
	used  time.Duration // by all requests: CPU time, and the time in which a file did not respond
	// patience multiplies the time limits of a request; 0: 1.
	patience int
	helper   Helper
}

// Helper is where files are parsed.
type Helper int

// Without a process of its own, parsing has no limits of time and memory; what a file can make it do is bounded only by
// the size of the results.
const (
	Process Helper = iota // in the parser process
	Here                  // in this process
	None                  // nowhere: each request fails
)

// SetHelper sets what parses the files of processes, before the first lookup.
func (t *Table) SetHelper(h Helper) { t.parser.helper = h }

// errNoHelper is the error of a request with None.
var errNoHelper = errors.New("files of processes are not read without the process that reads them")

// parserName is argv[0] of this program when it is the parser process.
const parserName = "btrun-symbols"

const (
	parserSocket = 3 // the socket's descriptor in the parser process
	// parseTime is the CPU time limit of a request, and parseWait its wall clock limit on a
	// busy machine. They bound how long a hostile file can block, and maxParseFails how
	// often.
	parseTime     = 4 * time.Second
	parseWait     = 4 * parseTime
	maxParseFails = 16
	failPause     = 10 * time.Minute // after which one more failure is allowed
)

var errParserOff = errors.New("the process that reads symbols failed too often")

// maxTries bounds how often a request is sent if other processes end or stop the parser meanwhile.
const maxTries = 4

// call sends a request and waits for the response.
func (p *parser) call(r *request) (*reply, error) {
	switch p.helper {
	case Here:
		return r.answer(), nil
	case None:
		return nil, errNoHelper
	}
	if p.fails >= maxParseFails {
		if time.Since(p.last) < failPause {
			return nil, errParserOff
		}
		p.fails = maxParseFails - 1
	}
	for try := 1; ; try++ {
		if p.proc == nil {
			if err := p.start(); err != nil {
				p.fails, p.last = maxParseFails, time.Now()
				p.warn("WARNING: symbols of processes are not available: cannot start the process that reads them: " + err.Error())
				return nil, err
			}
		}
		answer, err := p.exchange(r)
		if err == nil {
			return answer, nil
		}
		switch {
		case !p.disturbed(err):
			p.last = time.Now()
			if p.fails++; p.fails == maxParseFails {
				p.warn("WARNING: symbols of processes are no longer read: the process that reads them failed too often")
			}
			return nil, err
		case try == maxTries || err == errCancelled:
			return nil, err
		}
	}
}

// disturbed ends the process after a failed exchange. It reports whether the request is not the reason: this process
// cancelled it, or another one, or the kernel, which ran out of memory, killed or stopped the parser.
func (p *parser) disturbed(err error) bool {
	if err == os.ErrDeadlineExceeded || err == errStopped || err == errCancelled {
		p.stop()
		return err != os.ErrDeadlineExceeded
	}
	// It has ended, or is about to.
	proc, late := p.proc, atomic.Bool{}
	overdue := time.AfterFunc(time.Second, func() { late.Store(true); proc.Kill() })
	state, _ := proc.Wait()
	overdue.Stop()
	p.stop()
	if state == nil || late.Load() {
		return false
	}
	status, ok := state.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == unix.SIGKILL
}

func (p *parser) exchange(r *request) (*reply, error) {
	patience := time.Duration(max(p.patience, 1))
	s := &p.sock
	s.pid, s.left, s.blocked, s.checked = p.proc.Pid, patience*parseWait, 0, time.Now()
	s.cpuClock = int32(^s.pid<<3 | 2) // CPUCLOCK_SCHED of the process (linux/posix-timers.h)
	begin := s.cpu()
	s.cpuSeen, s.cpuLimit = begin, begin+patience*parseTime
	defer func() { p.used += max(s.cpuSeen, s.cpu()) - begin + s.blocked }()
	b := r.head()
	n, err := safefile.SendMessage(s.fd, b, r.files)
	if err != nil {
		return nil, os.NewSyscallError("sendmsg", err)
	}
	if _, err := s.Write(b[n:]); err != nil {
		return nil, err
	}
	answer := &reply{}
	return answer, answer.read(s)
}

// start runs this program again as the parser process; its own init function makes it that.
func (p *parser) start() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socketpair", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "parser")
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		unix.Close(pair[0])
		return err
	}
	defer null.Close()
	p.proc, err = os.StartProcess("/proc/self/exe", []string{parserName}, &os.ProcAttr{
		Files: []*os.File{null, null, null, theirs},
		Env:   []string{"GOTRACEBACK=none", "GOMEMLIMIT=256MiB"},
		Sys:   &unix.SysProcAttr{Setpgid: true}, // signals of the terminal do not reach it
	})
	if err != nil {
		unix.Close(pair[0])
		return err
	}
	p.sock.fd = pair[0]
	return nil
}

// stop ends the process.
func (p *parser) stop() {
	if p.proc == nil {
		return
	}
	unix.Close(p.sock.fd)
	p.proc.Kill()
	p.proc.Wait()
	p.proc = nil
}
