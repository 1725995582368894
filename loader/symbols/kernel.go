// SPDX-License-Identifier: Apache-2.0

// Package symbols is symbolization: it resolves addresses to names, kernel addresses by
// /proc/kallsyms, user addresses by a process's memory map and the symbol tables of its files. It
// also formats stacks.
//
// It takes addresses and returns text. Symbol tables are read on demand.
package symbols

import (
	"encoding/binary"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"btc/internal/elffile"
	"btc/internal/kernelfs"
)

// Table holds the symbols of the host and of the processes seen. One goroutine may look up addresses while another
// calls Snapshot and Poll, which do not wait while a file is read. Its memory is bounded by the constants below.
type Table struct {
	Demangle bool // show C++ and Rust names as written in the source
	// Later leaves functions in user stacks without names where the file has a build id, by which btc symbolize finds them.
	// Kernel frames then have build ids, too.
	Later bool
	Watch *Watch // process mappings since it began; nil: none
	// Referenced calls add for the processes that the script's maps refer to: they are kept when other processes that
	// have exited are dropped. Snapshot calls it. May be nil.
	Referenced func(add func(tgid uint32))
	// Warn shows one-time messages, such as that a limit was reached. It may be called from any goroutine; if nil,
	// messages are dropped.
	Warn func(string)

	// Used only by lookups.
	parser   parser
	kernel   *kernelfs.Kallsyms
	kernTry  bool
	kernIDs  map[string]kernelID // by module; "": the kernel
	readable map[string]string   // mangled -> shown
	shown    int                 // bytes of readable
	payer    uint32              // process whose address is being named

	mu       sync.Mutex // guards the fields below, those of procs and Watch; not held while a file is read
	clock    uint64     // LRU clock
	procs    map[uint32]*process
	mapBytes int // size of procs in bytes
	sweepAt  int // number of processes in procs at which exited ones are dropped
	paths    map[string]string
	files    map[fileID]*fileSyms // files that cannot be read are entries without symbols
	held     map[fileID]*os.File  // open, symbols not read yet
	symBytes int                  // size of files, and of the perf maps in procs
	spent    allowance
	ended    time.Time     // when End was called
	endUsed  time.Duration // since then

	warnMu sync.Mutex
	warned map[string]bool
}

// Limits of a table. The least recently used entry is evicted; it is read again on demand
// if it still exists.
const (
	maxSymBytes   = 192 << 20 // bytes of functions of files and perf maps
	maxFiles      = 4096
	minProcs      = 4096     // processes that are kept without checking whether they are referenced
	recentProcs   = 1024     // the most recent of these, which are always kept
	maxProcs      = 1 << 16  // processes
	maxMapBytes   = 64 << 20 // bytes of their memory maps
	maxShownBytes = 8 << 20  // bytes of demangled names
)

// New returns an empty table; the caller must close it.
//
//go:noinline
func New(demangle bool) *Table {
	t := &Table{
		Demangle: demangle,
		procs:    map[uint32]*process{},
		files:    map[fileID]*fileSyms{},
		held:     map[fileID]*os.File{},
		readable: map[string]string{},
		paths:    map[string]string{},
		sweepAt:  minProcs,
	}
	t.parser.warn, t.parser.sock.cancelled = t.warn, t.overdue
	return t
}

// Close stops the helpers that the table started, and the watch.
func (t *Table) Close() {
	if t == nil {
		return
	}
	t.Watch.Close()
	t.parser.stop()
	for id, f := range t.held {
		f.Close()
		delete(t.held, id)
	}
}

// Join adds the processes that another table has seen since, which must not have looked up addresses, and closes that
// table. Referenced, Warn and Demangle become those of the other one.
func (t *Table) Join(o *Table) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Referenced, t.Warn = o.Referenced, o.Warn
	if t.Demangle != o.Demangle {
		t.Demangle, t.shown = o.Demangle, 0
		clear(t.readable)
	}
	if t.Watch == nil {
		t.Watch, o.Watch = o.Watch, nil
	}
	t.clock++
	for tgid, p := range o.procs {
		if len(p.maps) > 0 || t.procs[tgid] == nil {
			t.forget(tgid)
			p.used = t.clock
			t.procs[tgid] = p
			t.mapBytes += p.bytes
		}
	}
	for id, f := range o.held {
		if t.held[id] == nil && t.files[id] == nil {
			t.held[id] = f
			delete(o.held, id)
		}
	}
	o.Close()
}

// warn shows a message once.
//
//go:noinline
func (t *Table) warn(text string) {
	t.warnMu.Lock()
	defer t.warnMu.Unlock()
	if t.Warn == nil || t.warned[text] {
		return
	}
	if t.warned == nil {
		t.warned = map[string]bool{}
	}
	t.warned[text] = true
	t.Warn(text)
}

// Poll calls Watch.Poll.
func (t *Table) Poll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Watch.Poll()
}

// Kernel finds the function at a kernel address. It reads kallsyms at the first
// call (about 0.1 s).
func (t *Table) Kernel(addr uint64) (sym kernelfs.Symbol, off uint64, ok bool) {
	if !t.kernTry {
		t.kernTry = true
		t.kernel, _ = kernelfs.LoadKallsyms()
	}
	if t.kernel == nil {
		return kernelfs.Symbol{}, 0, false
	}
	return t.kernel.Lookup(addr)
}

// Ksym returns the bare name of the kernel function at addr, or the address in hex.
func (t *Table) Ksym(addr uint64) string {
	if sym, _, ok := t.Kernel(addr); ok {
		return sym.Name
	}
	return hex(addr)
}

// hex formats an address without a name; 0 has no prefix, as with C++ streams.
func hex(v uint64) string {
	if v == 0 {
		return "0"
	}
	return "0x" + strconv.FormatUint(v, 16)
}

// kernelID is the build id of the kernel or of a module, and where its code begins.
type kernelID struct {
	id   string
	base uint64
}

// kernelID returns what identifies the code of a kernel module, or of the kernel: "".
func (t *Table) kernelID(module string) kernelID {
	k, ok := t.kernIDs[module]
	if ok {
		return k
	}
	if t.kernIDs == nil {
		t.kernIDs = map[string]kernelID{}
	}
	notes := "/sys/kernel/notes"
	if module == "" {
		if all := t.kernel.Find("_text"); len(all) > 0 {
			k.base = all[0].Addr
		}
	} else {
		dir := "/sys/module/" + module
		notes = dir + "/notes/.note.gnu.build-id"
		text, _ := os.ReadFile(dir + "/sections/.text")
		k.base, _ = strconv.ParseUint(strings.TrimPrefix(strings.TrimSpace(string(text)), "0x"), 16, 64)
	}
	if b, err := os.ReadFile(notes); err == nil {
		k.id = elffile.NotedBuildID(b, binary.NativeEndian)
	}
	t.kernIDs[module] = k
	return k
}
