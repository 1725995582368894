// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unsafe"

	"btc/internal/elffile"
	"btc/internal/probe"
	"btc/internal/safefile"
	"btc/loader/usdt"
)

// Files answers queries about the ELF files that attach points name. The files are not trusted: a file is opened
// here, but parsed by the parser process, which has no privileges and limited memory and time (unless NewFiles says
// otherwise).
type Files struct {
	parser parser
	opened map[string]*os.File
}

// NewFiles starts nothing; the first query starts the parser process, if that is the helper. warn receives warnings to
// show.
func NewFiles(helper Helper, warn func(string)) *Files {
	return &Files{parser{warn: warn, patience: 15, helper: helper}, map[string]*os.File{}}
}

// Close ends the parser process. The opened files stay open. It may be called on nil.
func (f *Files) Close() {
	if f != nil {
		f.parser.stop()
	}
}

// Open opens the file at path, once: what is later found out about the path, and attached to, is of the same file,
// whatever is at its path by then.
func (f *Files) Open(path string) (*os.File, error) {
	if file := f.opened[path]; file != nil {
		return file, nil
	}
	file, err := safefile.Open(path)
	if err == nil {
		f.opened[path] = file
	}
	return file, err
}

// Opened reports whether Open has opened the file at path.
func (f *Files) Opened(path string) bool { return f.opened[path] != nil }

// Release closes the file at path; "": all files. It may be called on nil.
func (f *Files) Release(path string) {
	if f == nil {
		return
	}
	for name, file := range f.opened {
		if path == "" || name == path {
			file.Close()
			delete(f.opened, name)
		}
	}
}

// MaxResults bounds the functions or probes of one file in a result.
const MaxResults = 1 << 18

// ErrNotELF is the cause of an error about a file that is not an ELF file.
var ErrNotELF = errors.New("not an ELF file")

// Function is a function of a file, as an attach point needs it.
type Function struct {
	Name        string
	Value, Size uint64 // virtual address, bytes
	Offset      uint64 // in the file, if Loaded
	Loaded      bool
	Hidden      bool // not the default one of several versions
	// Site is what the file proves about its first byte, or about the requested offset. Entry is only known if
	// requested.
	Site Site
}

// Site is what a file proves about an address in its code.
type Site = elffile.Site

// Image describes a program or library.
type Image struct {
	Path   string // path of the file, or of the archive that contains it
	File   *os.File
	Base   uint64 // offset of the ELF file in it, in bytes
	Linked bool   // the file is a program or a shared library
	// Stripped means that the file has only the symbols that programs find in it when they run.
	Stripped bool
	// Identity identifies the build (binary.Identity), if requested; NoIdentity is why there
	// is none.
	Identity, NoIdentity string
	Functions            []Function // the requested functions, in the order of the file
	// CodeOffset is the file offset of the requested address, if HasCode, and Site what the file proves about it.
	// Around is the innermost function that contains it after its first byte; nil if none is known.
	CodeOffset uint64
	HasCode    bool
	Site       Site
	Around     *Function
}

// Question selects functions of a file: by Name, which may be a pattern, or by Addr.
type Question struct {
	Name, Lang string // Lang "cpp": Name is a C++ function
	Addr       uint64
	Offset     uint64 // an offset inside the functions that Name matches, in bytes
	Identity   bool   // return the file's identity
	Return     bool   // for uretprobes: whether the sites are entries
}

// Functions returns functions of the file at path, which may be in an archive.
func (f *Files) Functions(path string, q *Question) (*Image, error) {
	var p packer
	p.text(q.Name)
	p.text(q.Lang)
	p.number(q.Addr)
	p.number(q.Offset)
	p.truth(q.Identity)
	p.truth(q.Return)
	u, img, err := f.askPath(askFunctions, path, p)
	if err != nil {
		return nil, err
	}
	img.Identity, img.NoIdentity, img.Linked, img.Stripped = u.text(), u.text(), u.truth(), u.truth()
	img.CodeOffset, img.HasCode, img.Site = u.number(), u.truth(), u.site()
	if u.truth() {
		img.Around = u.function()
	}
	for range u.count() {
		img.Functions = append(img.Functions, *u.function())
	}
	return img, u.err()
}

// Probe is a statically defined probe of a file; Args are encoded as programs read them.
type Probe struct {
	Provider, Name    string
	Offset, Semaphore uint64 // in the file; Semaphore 0: none
	Args              []byte
}

// Probes returns the statically defined probes whose provider and name match patterns, each location once. failure
// describes invalid notes, which are skipped.
func (f *Files) Probes(path, provider, name string, identity bool) (img *Image, all []Probe, failure error, err error) {
	var p packer
	p.text(provider)
	p.text(name)
	p.truth(identity)
	u, img, err := f.askPath(askProbes, path, p)
	if err != nil {
		return nil, nil, nil, err
	}
	img.Identity, img.NoIdentity = u.text(), u.text()
	if text := u.text(); text != "" {
		failure = errors.New(text)
	}
	for range u.count() {
		all = append(all, Probe{u.text(), u.text(), u.number(), u.number(), []byte(u.text())})
	}
	return img, all, failure, u.err()
}

// Address is the location of a symbol, relative to others in its file.
type Address struct {
	Value, From, CodeStart       uint64 // virtual addresses: of the symbol, of the given file offset, of the first code
	Known, HasFrom, HasCodeStart bool
	Program                      bool // not a library
}

// Address looks up a symbol of a file. From is the virtual address for an offset in the file.
func (f *Files) Address(file *os.File, symbol string, offset uint64) (*Address, error) {
	var p packer
	p.text(symbol)
	p.number(offset)
	u, _, err := f.ask(askAddress, file, "", false, p)
	if err != nil {
		return nil, err
	}
	a := &Address{u.number(), u.number(), u.number(), u.truth(), u.truth(), u.truth(), u.truth()}
	return a, u.err()
}

// askPath opens a file and asks about it, or about a member of it.
func (f *Files) askPath(kind uint8, path string, question packer) (*unpacker, *Image, error) {
	archive, member, inside := elffile.Member(path)
	file, err := f.Open(archive)
	if err != nil {
		return nil, nil, err
	}
	u, img, err := f.ask(kind, file, member, inside, question)
	if img != nil {
		img.Path = archive
	}
	return u, img, err
}

// ask sends a query about a file and returns the response after its common part.
func (f *Files) ask(kind uint8, file *os.File, member string, inside bool, question packer) (*unpacker, *Image, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	var p packer
	p.truth(inside)
	p.text(member)
	p.number(uint64(info.Size()))
	text := string(append(p, question...))
	if len(text) > maxText {
		return nil, nil, errors.New("the name is too long")
	}
	answer, err := f.parser.call(&request{kind: kind, text: text, files: []int{int(file.Fd())}})
	if err != nil {
		return nil, nil, fmt.Errorf("the process that reads it failed: %w", err)
	}
	u := &unpacker{rest: answer.names}
	img := &Image{File: file, Base: u.number()}
	notELF, why := u.truth(), u.text()
	switch {
	case !answer.ok:
		return nil, nil, errors.New("cannot read it: the process that reads it failed")
	case notELF:
		return nil, nil, &notELFError{why}
	case why != "":
		return nil, nil, errors.New(why)
	}
	return u, img, nil
}

// notELFError is an error with the message of the ELF reader.
type notELFError struct{ text string }

func (e *notELFError) Error() string { return e.text }
func (e *notELFError) Unwrap() error { return ErrNotELF }

// The following code runs in the parser process.

// answerFile answers a question about an ELF file.
func (r *request) answerFile(in io.ReaderAt) *reply {
	u := &unpacker{rest: []byte(r.text)}
	inside, member, size := u.truth(), u.text(), int64(u.number())
	f, err := elffile.New(in, size, member, inside)
	var p packer
	if err != nil {
		var format *elf.FormatError
		p.number(0)
		p.truth(errors.As(err, &format) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF))
		p.text(plain(err))
		return &reply{ok: true, table: table{names: p}}
	}
	p.number(f.Offset)
	p.truth(false)
	switch r.kind {
	case askFunctions:
		err = p.functions(f.File, &Question{u.text(), u.text(), u.number(), u.number(), u.truth(), u.truth()})
	case askProbes:
		err = p.probes(f.File, u.text(), u.text(), u.truth())
	case askAddress:
		p.address(f.File, u.text(), u.number())
	}
	if err != nil {
		p = nil
		p.number(0)
		p.truth(false)
		p.text(err.Error())
	}
	return &reply{ok: true, table: table{names: p}}
}

// plain is the message of an error without what a FormatError quotes: bytes of the file, which the user may not be
// permitted to read.
func plain(err error) string {
	what, _, _ := strings.Cut(err.Error(), " '")
	return what
}

func (p *packer) identity(f *elf.File, wanted bool) {
	if !wanted {
		p.text("")
		p.text("")
		return
	}
	id, err := elffile.Identity(f)
	p.text(id)
	p.failure(err)
}

func (p *packer) functions(f *elf.File, q *Question) error {
	p.text("")
	p.identity(f, q.Identity)
	p.truth(f.Type == elf.ET_EXEC || f.Type == elf.ET_DYN)
	p.truth(f.Section(".symtab") == nil)
	off, ok := CodeOffset(f, q.Addr)
	p.number(off)
	p.truth(ok)
	starts := elffile.NewStarts(f)
	if q.Name == "" || q.Offset > 0 {
		all, _ := usdt.Read(f)
		for i := range all {
			starts.Probes = append(starts.Probes, all[i].Addr)
		}
	}
	if q.Name == "" {
		p.site(starts.At(q.Addr))
		around, has := Function{}, false
		eachFunction(f, func(s *elffile.Symbol, name []byte) bool {
			if surrounds(s.Value, s.Size, q.Addr) && (!has || s.Value > around.Value) {
				around, has = functionOf(f, s, name), true
			}
			return true
		})
		has = has && around.Value != q.Addr
		p.truth(has)
		if has {
			p.function(&around)
		}
		p.number(0)
		return nil
	}
	p.site(Site{})
	p.truth(false)
	at := len(*p)
	p.number(0)
	n, full := uint64(0), false
	eachFunction(f, func(s *elffile.Symbol, name []byte) bool {
		if !q.means(unsafe.String(&name[0], len(name))) {
			return true
		}
		if full = n == MaxResults || len(*p) > maxAnswer; full {
			return false
		}
		fn := functionOf(f, s, name)
		switch {
		case q.Offset > 0:
			fn.Site = starts.At(s.Value + q.Offset)
		case starts.IsFunction(s):
			fn.Site = Site{Start: true, Entry: q.Return && starts.IsEntry(s.Value, name)}
		}
		p.function(&fn)
		n++
		return true
	})
	if full {
		return fmt.Errorf("more than %d functions match, or %d MiB of their names", MaxResults, maxAnswer>>20)
	}
	binary.NativeEndian.PutUint64((*p)[at:], n)
	return nil
}

// surrounds reports whether a function of a size contains an address after its first byte.
func surrounds(value, size, addr uint64) bool { return value <= addr && addr-value < size }

// maxAnswer bounds a response, in bytes.
const maxAnswer = 64 << 20

// means reports whether a question matches a function of that name.
func (q *Question) means(name string) bool {
	return name == q.Name || q.Lang == "cpp" && elffile.MatchesCPP(q.Name, name) || q.Lang == "" && probe.Glob(q.Name, name)
}

func functionOf(f *elf.File, s *elffile.Symbol, name []byte) Function {
	fn := Function{Name: string(name), Value: s.Value, Size: s.Size, Hidden: s.Hidden}
	fn.Offset, fn.Loaded = FileOffset(f, s.Value)
	return fn
}

func (p *packer) probes(f *elf.File, provider, name string, identity bool) error {
	p.text("")
	p.identity(f, identity)
	all, failure := usdt.Read(f)
	p.failure(failure)
	at := len(*p)
	p.number(0)
	type location struct {
		provider, name string
		offset         uint64
	}
	seen := map[location]bool{}
	for i := range all {
		l := &all[i]
		here := location{l.Provider, l.Name, l.Offset}
		if seen[here] || !probe.Glob(provider, l.Provider) || !probe.Glob(name, l.Name) {
			continue
		}
		if len(seen) == MaxResults || len(*p) > maxAnswer {
			return fmt.Errorf("more than %d probes match, or %d MiB of their names", MaxResults, maxAnswer>>20)
		}
		seen[here] = true
		p.text(l.Provider)
		p.text(l.Name)
		p.number(l.Offset)
		p.number(l.Semaphore)
		p.text(string(usdt.Encode(l.Args)))
	}
	binary.NativeEndian.PutUint64((*p)[at:], uint64(len(seen)))
	return nil
}

func (p *packer) address(f *elf.File, symbol string, offset uint64) {
	p.text("")
	a := Address{Program: elffile.IsProgram(f)}
	elffile.EachSymbol(f, func(s *elffile.Symbol) bool {
		if s.Defined() && string(s.Name()) == symbol {
			a.Value = s.Value
		}
		return a.Value == 0
	})
	a.From, a.HasFrom = loadAddress(f, offset)
	a.CodeStart, a.HasCodeStart = codeStart(f)
	for _, n := range []uint64{a.Value, a.From, a.CodeStart} {
		p.number(n)
	}
	for _, t := range []bool{a.Value != 0, a.HasFrom, a.HasCodeStart, a.Program} {
		p.truth(t)
	}
}

// loadAddress returns the virtual address of the code at an offset in the file.
func loadAddress(f *elf.File, off uint64) (uint64, bool) {
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && off >= p.Off && off-p.Off < p.Filesz {
			return off - p.Off + p.Vaddr, true
		}
	}
	return 0, false
}

// codeStart returns the lowest address of the file's code.
func codeStart(f *elf.File) (least uint64, found bool) {
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && (!found || p.Vaddr < least) {
			least, found = p.Vaddr, true
		}
	}
	return least, found
}

// packer appends numbers and strings to a message; unpacker reads them back. Their methods are not inlined, which
// would quintuple the code size.
type packer []byte

//go:noinline
func (p *packer) number(n uint64) { *p = binary.NativeEndian.AppendUint64(*p, n) }

//go:noinline
func (p *packer) truth(t bool) {
	b := byte(0)
	if t {
		b = 1
	}
	*p = append(*p, b)
}

//go:noinline
func (p *packer) text(s string) {
	p.number(uint64(len(s)))
	*p = append(*p, s...)
}

func (p *packer) failure(err error) {
	if err != nil {
		p.text(err.Error())
		return
	}
	p.text("")
}

func (p *packer) function(f *Function) {
	p.text(f.Name)
	for _, n := range []uint64{f.Value, f.Size, f.Offset} {
		p.number(n)
	}
	p.truth(f.Loaded)
	p.truth(f.Hidden)
	p.site(f.Site)
}

func (p *packer) site(s Site) {
	p.truth(s.Start)
	p.truth(s.Entry)
	p.truth(s.Inside)
}

// unpacker reads a message from the other process, which is not trusted: past its end all numbers are 0 and all
// strings empty.
type unpacker struct {
	rest []byte
	bad  bool
}

func (u *unpacker) take(n uint64) []byte {
	if n > uint64(len(u.rest)) {
		u.rest, u.bad = nil, true
		return nil
	}
	b := u.rest[:n:n]
	u.rest = u.rest[n:]
	return b
}

//go:noinline
func (u *unpacker) number() uint64 {
	if b := u.take(8); b != nil {
		return binary.NativeEndian.Uint64(b)
	}
	return 0
}

//go:noinline
func (u *unpacker) truth() bool {
	b := u.take(1)
	return b != nil && b[0] != 0
}

// text shares the memory of the message.
//
//go:noinline
func (u *unpacker) text() string {
	b := u.take(u.number())
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// count returns the length of a list.
func (u *unpacker) count() int { return int(min(u.number(), MaxResults)) }

func (u *unpacker) function() *Function {
	return &Function{
		Name:   u.text(),
		Value:  u.number(),
		Size:   u.number(),
		Offset: u.number(),
		Loaded: u.truth(),
		Hidden: u.truth(),
		Site:   u.site(),
	}
}

func (u *unpacker) site() Site { return Site{Start: u.truth(), Entry: u.truth(), Inside: u.truth()} }

func (u *unpacker) err() error {
	if u.bad {
		return errBadReply
	}
	return nil
}
