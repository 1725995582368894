// SPDX-License-Identifier: Apache-2.0

package interp

import (
	"bytes"
	"fmt"
	"strings"

	"btc/ir"
)

// libraryOps returns the ops of the language's functions, which lower-library expands.
func libraryOps() map[ir.Op]opFunc {
	return map[ir.Op]opFunc{
		ir.OpStrLen: func(fr *frame, v *ir.Value) int64 { return int64(len(fr.text(v, 0, v.Imm))) },
		ir.OpStrFind: func(fr *frame, v *ir.Value) int64 {
			return int64(strings.Index(fr.text(v, 0, v.Args[1].Imm), v.Sym))
		},
		ir.OpStrFindMem: func(fr *frame, v *ir.Value) int64 {
			return int64(strings.Index(fr.text(v, 0, v.Args[1].Imm), fr.text(v, 2, v.Args[3].Imm)))
		},
		ir.OpStrConcat: func(fr *frame, v *ir.Value) int64 {
			s := fr.text(v, 1, v.Args[2].Imm) + fr.text(v, 3, v.Args[4].Imm)
			to := fr.bytes(fr.arg(v, 0), int(v.Imm), true)
			to[copy(to[:v.Imm-1], s)] = 0
			return 0
		},
		ir.OpMemCmp: func(fr *frame, v *ir.Value) int64 {
			x, y := fr.bytes(fr.arg(v, 0), int(v.Imm), false), fr.bytes(fr.arg(v, 1), int(v.Imm), false)
			for i := range x {
				if x[i] != y[i] {
					return int64(int8(x[i])) - int64(int8(y[i]))
				}
			}
			return 0
		},
		ir.OpReadBytes: readBytes,
		ir.OpMapAddr:   func(fr *frame, v *ir.Value) int64 { return fr.arg(v, 0) },
		ir.OpProbeName: probeName,
		ir.OpSkbOutput: func(fr *frame, v *ir.Value) int64 {
			fr.skbOutput(fr.arg(v, 0), min(uint64(fr.arg(v, 1)), 0xff00), uint64(v.Imm))
			return 0
		},
		ir.OpDebugf: func(fr *frame, v *ir.Value) int64 {
			fr.trace(v.Sym, v.Args, func(i int) int64 { return fr.arg(v, i) })
			return 0
		},
		ir.OpSignal: func(fr *frame, v *ir.Value) int64 {
			return action([]string{"signal", "signal_thread"}[v.Imm], 0)(fr, v)
		},
		ir.OpOverride: func(fr *frame, v *ir.Value) int64 { return action("override", 1)(fr, v) },
		ir.OpWriteUser: func(fr *frame, v *ir.Value) int64 {
			from := fr.bytes(fr.arg(v, 1), int(v.Imm), false)
			if fr.mem.userBytes(uint64(fr.arg(v, 0)), int(v.Imm)) == nil {
				fr.helperError(v, "probe_write_user")
				return 0
			}
			fr.Actions = append(fr.Actions, fmt.Sprintf("write_user(%#x, %q)", uint64(fr.arg(v, 0)), from))
			return 1
		},
		ir.OpPath:         func(fr *frame, v *ir.Value) int64 { return fr.path(fr.arg(v, 0), int(v.Imm), fr.arg(v, 1)) },
		ir.OpSocketCookie: func(fr *frame, v *ir.Value) int64 { return cookie(fr.arg(v, 0)) },
	}
}

// text returns the string at an argument, of which at most capacity bytes are read, NUL included; "" if
// it cannot be read.
func (fr *frame) text(v *ir.Value, arg int, capacity int64) string {
	s, _ := fr.mem.str(uint64(fr.arg(v, arg)), int(capacity), fr.user(v.Args[arg].Type, fr.arg(v, arg)))
	return string(s)
}

// cString returns the string at an address of the machine's own memory.
func (fr *frame) cString(addr int64) string { return string(fr.ownString(addr, 1<<20)) }

// helperError records that a helper failed with EFAULT, in scripts compiled for that.
func (fr *frame) helperError(v *ir.Value, helper string) {
	if v.Pos.Site > 0 {
		fr.event(ir.EvHelperError, "", []string{helper, itoa(efault)})
	}
}

func readBytes(fr *frame, v *ir.Value) int64 {
	n := int(fr.arg(v, 1))
	if n < 0 || int64(n) > v.Imm {
		fr.trap("read of %d bytes, the limit is %d", n, v.Imm)
	}
	to := fr.bytes(fr.arg(v, 0), n, true)
	from := fr.readable(v.Args[2].Type, fr.arg(v, 2), n)
	if from == nil {
		clearBytes(to)
		helper := "probe_read_kernel"
		if fr.user(v.Args[2].Type, fr.arg(v, 2)) {
			helper = "probe_read_user"
		}
		fr.helperError(v, helper)
		return 0
	}
	copy(to, from)
	return 1
}

// probeName writes the name from the map "probe_names", which the loader fills.
func probeName(fr *frame, v *ir.Value) int64 {
	to := fr.bytes(fr.arg(v, 0), int(v.Imm), true)
	clearBytes(to)
	if m := fr.maps["probe_names"]; m != nil {
		key := make([]byte, 4)
		putUint(key, uint64(fr.arg(v, 1)))
		if addr := m.lookup(key, 0); addr != 0 {
			copy(to, cstring(m.value(addr)))
		}
	}
	return 0
}

// trace records a line of the trace pipe.
func (fr *frame) trace(format string, args []*ir.Value, arg func(i int) int64) {
	var words []string
	for i, a := range args {
		switch {
		case a.Type.IsPtr():
			words = append(words, fmt.Sprintf("%q", fr.cString(arg(i))))
		case i < strings.Count(format, "%"): // the helper's other arguments do not count
			words = append(words, itoa(arg(i)))
		}
	}
	fr.Actions = append(fr.Actions, fmt.Sprintf("debugf(%q, %s)", format, strings.Join(words, ", ")))
}

// path writes a path made of the address of the struct path.
func (fr *frame) path(to int64, n int, at int64) int64 {
	s := append([]byte(fmt.Sprintf("/at/%x", uint64(at))), 0)
	return int64(copy(fr.bytes(to, n, true), bytes.Clone(s)))
}

// cookie returns a number that identifies a socket.
func cookie(at int64) int64 { return at ^ 0x5eed }

func (fr *frame) skbOutput(skb int64, length, offset uint64) {
	fr.Actions = append(fr.Actions, fmt.Sprintf("skb_output(%#x, %d, %d)", uint64(skb), length, offset))
}
