// SPDX-License-Identifier: Apache-2.0

package tty

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Keys reads the keys of a terminal one by one, without showing them. While the process is in the background it leaves the
// terminal alone. Ctrl-Z and the end restore it.
type Keys struct {
	fd      int
	pressed func(Key)
	show    func(bool)
	size    unix.Winsize // of the window

	mu    sync.Mutex
	saved *unix.Termios // how the terminal was; nil: it is so
	ended bool
}

// lookInterval is how often Keys looks whether the process is in the foreground, the terminal still as it was set (a shell may have
// changed it), and the window as large.
const lookInterval = time.Second / 2

// HasKeys reports whether Listen reads keys on this system.
const HasKeys = true

// Listen calls pressed with each key of a terminal, one at a time, until Close. It calls show with false before the process is
// stopped, and with true when it goes on.
func Listen(f *os.File, pressed func(Key), show func(bool)) *Keys {
	k := &Keys{fd: int(f.Fd()), pressed: pressed, show: show}
	go k.read()
	return k
}

// Close restores the terminal. No key is passed on after it. A nil receiver has nothing to close.
func (k *Keys) Close() {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.ended {
		k.ended = true
		k.restore()
	}
}

// stop stops the processes of the terminal, as Ctrl-Z does without Keys. The terminal is restored before a shell gets it back: so
// the key is not a signal of the terminal, which would let the shell come first.
func (k *Keys) stop() {
	k.show(false) // which may wait for the terminal; Close does not
	defer k.show(true)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended {
		return
	}
	k.restore()
	unix.Kill(0, unix.SIGTSTP)
	time.Sleep(lookInterval / 5) // until the signal has arrived
	k.pressed(Resized)
}

// read reads keys until Close.
func (k *Keys) read() {
	var text []byte
	for {
		k.mu.Lock()
		ended, mine := k.ended, k.foreground()
		if !ended && mine {
			k.set()
		}
		k.mu.Unlock()
		if ended {
			return
		}
		if size, err := unix.IoctlGetWinsize(k.fd, unix.TIOCGWINSZ); err == nil && *size != k.size {
			k.size = *size
			k.pass(Resized)
		}
		if !mine {
			time.Sleep(lookInterval)
			continue
		}
		wait := lookInterval
		if len(text) > 0 { // the rest of a sequence comes at once
			wait = lookInterval / 10
		}
		poll := []unix.PollFd{{Fd: int32(k.fd), Events: unix.POLLIN}}
		n, err := unix.Poll(poll, int(wait.Milliseconds()))
		switch {
		case err != nil && err != unix.EINTR, n > 0 && poll[0].Revents&unix.POLLIN == 0: // the terminal is gone
			return
		case n <= 0:
			text = nil
			continue
		case !k.foreground():
			continue
		}
		var b [64]byte
		if n, err = unix.Read(k.fd, b[:]); err != nil || n == 0 {
			return
		}
		text = append(text, b[:n]...)
		for len(text) > 0 {
			key, n := decode(text)
			if n == 0 {
				break
			}
			text = text[n:]
			switch key {
			case NoKey:
			case suspend:
				k.stop()
			default:
				k.pass(key)
			}
		}
	}
}

// pass passes on a key.
func (k *Keys) pass(key Key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.ended {
		k.pressed(key)
	}
}

// foreground reports whether the process may read the terminal, and change it: one in the background is stopped by that.
func (k *Keys) foreground() bool {
	group, err := unix.IoctlGetInt(k.fd, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// set makes the terminal pass on each key at once, without showing it. Ctrl-C stays a signal.
func (k *Keys) set() {
	now, err := unix.IoctlGetTermios(k.fd, unix.TCGETS)
	if err != nil || now.Lflag&unix.ICANON == 0 && k.saved != nil {
		return
	}
	k.saved = now
	t := *now
	t.Lflag &^= unix.ICANON | unix.ECHO
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	t.Cc[unix.VSUSP] = 0 // disabled; see stop
	unix.IoctlSetTermios(k.fd, unix.TCSETS, &t)
}

func (k *Keys) restore() {
	if k.saved != nil && k.foreground() {
		unix.IoctlSetTermios(k.fd, unix.TCSETS, k.saved)
	}
	k.saved = nil
}

// maxSequence is the length from which on a sequence is none.
const maxSequence = 16

// decode returns the first key of a text and its length: NoKey for one that is not known, and 0 bytes for the beginning of a
// sequence.
func decode(text []byte) (key Key, n int) {
	switch c := text[0]; {
	case c == 'k':
		return Up, 1
	case c == 'j':
		return Down, 1
	case c == '\t' || c == byte(suspend) || c >= ' ' && c < 0x7f:
		return Key(c), 1
	case c != 0x1b:
		return NoKey, 1
	case len(text) == 1:
		return NoKey, 0
	case text[1] != '[' && text[1] != 'O':
		return NoKey, 1
	}
	for n = 2; n < len(text) && n < maxSequence; n++ {
		if text[n] >= '@' {
			return sequence(string(text[2 : n+1])), n + 1
		}
	}
	if n == maxSequence {
		return NoKey, n
	}
	return NoKey, 0
}

// sequence returns the key for which terminals send a text after an escape character and "[" or "O".
func sequence(text string) Key {
	switch text {
	case "A":
		return Up
	case "B":
		return Down
	case "5~":
		return PageUp
	case "6~":
		return PageDown
	case "H", "1~", "7~":
		return Home
	case "F", "4~", "8~":
		return End
	case "Z":
		return BackTab
	}
	return NoKey
}
