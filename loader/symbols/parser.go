// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"errors"
	"os"
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
	// patience multiplies the time limits of a request; 0: 1.
	patience int
}

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

// call sends a request and waits for the response.
func (p *parser) call(r *request) (*reply, error) {
	if p.fails >= maxParseFails {
		if time.Since(p.last) < failPause {
			return nil, errParserOff
		}
		p.fails = maxParseFails - 1
	}
	if p.proc == nil {
		if err := p.start(); err != nil {
			p.fails, p.last = maxParseFails, time.Now()
			p.warn(
				"WARNING: symbols of processes are not available: cannot start the process that reads them: " + err.Error(),
			)
			return nil, err
		}
	}
	answer, err := p.exchange(r)
	if err == nil {
		return answer, nil
	}
	p.stop()
	p.last = time.Now()
	if p.fails++; p.fails == maxParseFails {
		p.warn("WARNING: symbols of processes are no longer read: the process that reads them failed too often")
	}
	return nil, err
}

func (p *parser) exchange(r *request) (*reply, error) {
	patience := time.Duration(max(p.patience, 1))
	p.sock.deadline = time.Now().Add(patience * parseWait)
	p.sock.cpuClock = int32(^p.proc.Pid<<3 | 2) // CPUCLOCK_SCHED of the process (linux/posix-timers.h)
	var used unix.Timespec
	unix.ClockGettime(p.sock.cpuClock, &used)
	p.sock.cpuLimit = used.Nano() + int64(patience*parseTime)
	b := r.head()
	n, err := safefile.SendMessage(p.sock.fd, b, r.files)
	if err != nil {
		return nil, os.NewSyscallError("sendmsg", err)
	}
	if _, err := p.sock.Write(b[n:]); err != nil {
		return nil, err
	}
	answer := &reply{}
	return answer, answer.read(&p.sock)
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
