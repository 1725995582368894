// SPDX-License-Identifier: Apache-2.0

// Package kernel describes the kernel that the compiler compiles for.
//
// It takes a target file (targets/targetfile: written by `btc target capture` or
// `tools/maketarget`, or the embedded default) and returns the compiler's view of it: types
// with their layout, tracepoints, syscalls, functions. It also has the tables that are the
// same on every kernel of an architecture: program contexts (ProgKind, Context) and helpers
// (Helper).
//
// Nothing here reads the running host: the same target always gives the same results.
//
// Everything is decoded on first use: opening a target costs microseconds, a lookup decodes
// the few kilobytes that it needs. A lookup that meets a damaged chunk returns "not found"
// and the error is kept for Err, which the driver must check once after checking a script.
package kernel

import (
	"fmt"
	"sync"

	"btc/internal/arch"
	"btc/internal/safefile"
	"btc/targets/targetfile"
)

// Target is one kernel to compile for. Its methods may be called from several
// goroutines. Types of two targets must not be mixed.
type Target struct {
	file *targetfile.File
	arch *arch.Arch

	// probes, when set, is the target that names what can be probed; see ProbesOf.
	probes *Target

	mu      sync.Mutex
	types   map[targetfile.Ref]*Type // every type returned, so that types compare by pointer
	byName  map[namedKey][]*Type     // cached results of Named
	modules map[string]string        // results of ModuleOf
	err     error                    // first error from a damaged chunk
}

// maxFile bounds a target file, in bytes; that of a host with all modules is 10 MB.
const maxFile = 256 << 20

// Open reads a target file. It fails on a file that is not a target, is truncated, has an
// unknown version or an unknown architecture.
func Open(path string) (*Target, error) {
	data, err := safefile.Read(path, maxFile)
	if err != nil {
		return nil, err
	}
	t, err := New(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// New makes a target from the bytes of a target file. The bytes are not copied and must not
// change afterwards.
func New(data []byte) (*Target, error) { return fromFile(targetfile.Open(data)) }

func fromFile(file *targetfile.File, err error) (*Target, error) {
	if err != nil {
		return nil, err
	}
	row := arch.ByName(file.Meta.Arch)
	if row == nil {
		return nil, fmt.Errorf("target is for unknown architecture %q", file.Meta.Arch)
	}
	return &Target{file: file, arch: row, types: map[targetfile.Ref]*Type{}}, nil
}

// ProbesOf makes t list the tracepoints and functions of other instead of its own, and take
// the descriptions of tracepoints that it lacks from other. A script that is compiled for
// other is checked against t this way: probes that t's kernel lacks are not attached there,
// so they need not fit.
func (t *Target) ProbesOf(other *Target) { t.probes = other }

// Release returns the kernel release the target was taken from, as `uname -r` prints
// it. It is for messages only: compiled code never depends on a version.
func (t *Target) Release() string { return t.file.Meta.Release }

// Arch returns the row of the architecture table for this target.
func (t *Target) Arch() *arch.Arch { return t.arch }

// Gaps lists what could not be read when the target was captured, one sentence each: for
// example that the list of traceable functions is BTF's.
func (t *Target) Gaps() []string { return t.file.Meta.Gaps }

// Err returns the first error from a damaged chunk, or nil. Lookups cannot return it, because
// absence is a valid result.
func (t *Target) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// fail keeps the first error. The caller holds t.mu.
func (t *Target) fail(err error) {
	if t.err == nil && err != nil {
		t.err = err
	}
}
