// SPDX-License-Identifier: Apache-2.0

package ehframe

import (
	"strings"

	"btc/internal/elffile"
	"btc/internal/unwind"
)

// goCode adds the code of a Go program: it keeps frame pointers. Where a goroutine or a thread starts, the stack ends.
// Functions of C that the Go linker has linked have no table of stack sizes, and are not described.
func (b *builder) goCode() {
	g := elffile.ReadGoTable(b.file)
	if g == nil {
		return
	}
	from, to := g.From, g.To
	if to-from > unwind.NoPC {
		return
	}
	b.add(from, to, piece{section: fixed, kind: unwind.KindFrames})
	b.table.Frames = b.file.Section(".eh_frame") == nil
	g.Each(func(f *elffile.GoFunction) bool {
		kind := goKind(f)
		if kind == unwind.KindFrames {
			return true
		}
		// The second piece is for after one that begins there.
		return b.add(f.Addr, f.End, piece{section: fixed, kind: kind}) && b.add(f.End, to, piece{section: fixed, kind: unwind.KindFrames, at: 1})
	})
}

// goKind returns the kind of the rows of a function.
func goKind(f *elffile.GoFunction) uint8 {
	switch s := strings.TrimSuffix(string(f.Name()), ".abi0"); {
	case s == "runtime.goexit", s == "runtime.rt0_go", s == "runtime.mstart", strings.HasPrefix(s, "_rt0_"):
		return unwind.KindEnd
	case s == "runtime.sigreturn__sigaction", s == "runtime.sigreturn":
		return unwind.KindSignal
	case !f.Sized:
		return unwind.KindNone
	}
	return unwind.KindFrames
}
