// SPDX-License-Identifier: Apache-2.0

package symbols

import "btc/loader/format"

// Kstack returns the frames of a kernel stack, innermost first, with what a mode of printing shows of them.
func (t *Table) Kstack(addrs []uint64, mode string) []format.Frame {
	return frames(addrs, mode, func(f *format.Frame) {
		if sym, off, ok := t.Kernel(f.Address); ok && mode != format.ModeBuildID {
			f.Sym, f.File, f.Offset = sym.Name, sym.Module, off
			if k := (kernelID{}); t.Later {
				if k = t.kernelID(sym.Module); k.id != "" && f.Address >= k.base {
					f.BuildID, f.FileOffset = k.id, f.Address-k.base
				}
			}
		}
	})
}

// Ustack returns the frames of a user stack of process tgid, like Kstack.
func (t *Table) Ustack(addrs []uint64, mode string, tgid uint32) []format.Frame {
	var in []mapping
	if mode != format.ModeRaw {
		t.renew(tgid)
		in = t.mapOf(addrs, tgid)
	}
	return frames(addrs, mode, func(f *format.Frame) { t.userFrame(f, tgid, in, t.Later) })
}

func frames(addrs []uint64, mode string, find func(f *format.Frame)) []format.Frame {
	all := make([]format.Frame, len(addrs))
	for i, addr := range addrs {
		all[i].Address = addr
		if addr == format.UnwindFailure {
			return all[:i+1]
		}
		if mode != format.ModeRaw {
			find(&all[i])
		}
	}
	return all
}
