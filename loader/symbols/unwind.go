// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"debug/elf"
	"errors"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"btc/internal/elffile"
	"btc/internal/unwind"
	"btc/internal/unwind/ehframe"
)

// Unwinder makes the unwind tables of files in a parser process of its own: tables are made in the background, while
// the names of addresses are looked up. It is used by one goroutine at a time.
type Unwinder struct {
	parser    parser
	cancelled atomic.Bool
	store     *unwindStore // nil: none
}

// NewUnwinder starts nothing; the first table starts the process, if that is the helper. warn receives warnings to show.
func NewUnwinder(helper Helper, warn func(string)) *Unwinder {
	u := &Unwinder{parser: parser{warn: warn, helper: helper}}
	u.parser.sock.cancelled = u.cancelled.Load
	return u
}

// Close ends the process.
func (u *Unwinder) Close() {
	u.parser.stop()
	u.cancelled.Store(false)
}

// Cancel makes requests fail soon, until Close. Any goroutine may call it.
func (u *Unwinder) Cancel() { u.cancelled.Store(true) }

// Used is what all tables have cost: CPU time of the process, and time in which a file did not respond.
func (u *Unwinder) Used() time.Duration { return u.parser.used }

// Table makes the table of an ELF file.
func (u *Unwinder) Table(file *os.File) (*unwind.Table, error) {
	if u.store == nil {
		return u.ask(file, "")
	}
	answer, err := u.parser.call(&request{kind: askUnwind, flag: 1, files: []int{int(file.Fd())}})
	if err != nil {
		return nil, err
	}
	id := answer.text
	if !answer.ok || !validBuildID(id) {
		return u.ask(file, "")
	}
	if t := u.find(id); t != nil {
		return t, nil
	}
	t, err := u.ask(file, "")
	if err == nil && t != nil {
		u.keep(file, id, t)
	}
	return t, err
}

// validBuildID reports whether a string of the parser process is a build id, which is part of a file's name.
func validBuildID(id string) bool {
	return len(id) > 1 && len(id) <= 2*unwind.MaxBuildID && strings.Trim(id, "0123456789abcdef") == ""
}

// Stored reads the table of a build id, in hex, from a pack or from a file of a directory of tables; nil if the pack has
// none.
func (u *Unwinder) Stored(file *os.File, buildID string) (*unwind.Table, error) {
	return u.ask(file, buildID)
}

func (u *Unwinder) ask(file *os.File, buildID string) (*unwind.Table, error) {
	answer, err := u.parser.call(&request{kind: askUnwind, text: buildID, files: []int{int(file.Fd())}})
	switch {
	case err != nil:
		return nil, err
	case answer.text != "":
		return nil, errors.New(answer.text)
	case !answer.ok:
		return nil, errors.New("cannot read it: the process that reads it failed")
	case len(answer.names) == 0:
		return nil, nil
	}
	t := &unwind.Table{}
	if err := t.UnmarshalBinary(answer.names); err != nil {
		return nil, err
	}
	if buildID != "" && t.BuildID != buildID {
		return nil, errBadReply
	}
	return t, nil
}

// answerUnwind runs in the parser process.
func (r *request) answerUnwind(in io.ReaderAt) *reply {
	if r.flag == 1 {
		f, err := elf.NewFile(in)
		if err != nil {
			return &reply{}
		}
		return &reply{ok: true, text: elffile.BuildID(f)}
	}
	t, err := r.unwindTable(in)
	if err != nil {
		return &reply{ok: true, text: plain(err)}
	}
	if t == nil {
		return &reply{ok: true}
	}
	b, err := t.MarshalBinary()
	if err != nil {
		return &reply{ok: true, text: err.Error()}
	}
	return &reply{ok: true, table: table{names: b}}
}

func (r *request) unwindTable(in io.ReaderAt) (*unwind.Table, error) {
	if r.text != "" {
		return unwind.ReadTable(in, r.text)
	}
	f, err := elf.NewFile(in)
	if err != nil {
		return nil, err
	}
	return ehframe.Build(f)
}
