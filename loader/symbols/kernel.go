// Package symbols turns addresses into names: kernel addresses by
// /proc/kallsyms, user addresses by a process's memory map and the symbol tables
// of the files in it. It also writes stacks in the language's forms.
//
// It takes addresses and gives text. Everything is read when first needed.
package symbols

import (
	"os"
	"strconv"
	"sync"

	"btc/loader/hostinfo"
)

// Table is the symbols of the host and of the processes seen. One goroutine may look addresses
// up while another calls Snapshot and Poll, which do not wait until a file is read.
type Table struct {
	Demangle bool   // show C++ and Rust names as written in the source
	Watch    *Watch // what processes map from when it began; nil: nothing is known

	kernel  *hostinfo.Kallsyms
	kernTry bool
	kernErr error
	mu      sync.Mutex // of procs, their missed, files, held and Watch; not held while a file is read
	procs   map[uint32]*process
	files   map[fileID]*fileSyms
	held    map[fileID]*os.File // open, symbols not read yet

	perfMaps map[uint32]*perfMap
	readable map[string]string // mangled -> shown
}

// New makes an empty table.
func New(demangle bool) *Table {
	return &Table{Demangle: demangle, procs: map[uint32]*process{}, files: map[fileID]*fileSyms{}, held: map[fileID]*os.File{}, readable: map[string]string{}, perfMaps: map[uint32]*perfMap{}}
}

// Poll is Watch.Poll.
func (t *Table) Poll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Watch.Poll()
}

// Kernel finds the function at a kernel address. It reads kallsyms at the first
// call (about 0.1 s).
func (t *Table) Kernel(addr uint64) (sym hostinfo.Symbol, off uint64, ok bool) {
	if !t.kernTry {
		t.kernTry = true
		t.kernel, t.kernErr = hostinfo.LoadKallsyms()
	}
	if t.kernel == nil {
		return hostinfo.Symbol{}, 0, false
	}
	return t.kernel.Lookup(addr)
}

// KernelError is why kernel addresses cannot be resolved, nil when they can or
// none was asked for.
func (t *Table) KernelError() error { return t.kernErr }

// Ksym is the bare name of the kernel function at addr, or the address in hex.
func (t *Table) Ksym(addr uint64) string {
	if sym, _, ok := t.Kernel(addr); ok {
		return sym.Name
	}
	return hex(addr)
}

// hex is an address without a name; 0 has no prefix, as C++ streams write it.
func hex(v uint64) string {
	if v == 0 {
		return "0"
	}
	return "0x" + strconv.FormatUint(v, 16)
}
