// SPDX-License-Identifier: Apache-2.0

package interp

import "btc/ir"

// walk is an iteration over a map: the keys that existed when it began, as long as they
// exist. Elements added during the iteration are not visited.
type walk struct {
	keys []string
	next int
	last int64 // a range: its trip count
	cut  bool  // the trip count exceeds the limit
}

// maxLoops is BPF_MAX_LOOPS.
const maxLoops = 1 << 23

func walkOps() map[ir.Op]opFunc {
	return map[ir.Op]opFunc{
		ir.OpMapIter: func(fr *frame, v *ir.Value) int64 {
			fr.walks = append(fr.walks, &walk{keys: append([]string(nil), fr.mapOf(v).order...)})
			return int64(len(fr.walks) - 1)
		},
		ir.OpRangeIter: func(fr *frame, v *ir.Value) int64 {
			n := uint64(fr.arg(v, 0))
			fr.walks = append(fr.walks, &walk{last: int64(min(n, maxLoops)), cut: n > maxLoops})
			return int64(len(fr.walks) - 1)
		},
		ir.OpRangeNext: func(fr *frame, v *ir.Value) int64 {
			w := fr.walkOf(v, 0)
			if int64(w.next) >= w.last {
				return 0
			}
			w.next++
			return int64(w.next)
		},
		ir.OpRangeCut: func(fr *frame, v *ir.Value) int64 {
			if fr.walkOf(v, 0).cut {
				return v.Imm + 1
			}
			return 0
		},
		ir.OpMapNext: mapNext,
		ir.OpMapKey: func(fr *frame, v *ir.Value) int64 {
			key := fr.mem.alloc("key", append([]byte(nil), fr.elemOf(v).key...))
			fr.mem.object(key).readOnly = true
			return int64(key)
		},
		ir.OpElemGet:    elemGet,
		ir.OpElemGetMem: elemGetMem,
	}
}

// walkOf returns the iteration whose number is an argument.
func (fr *frame) walkOf(v *ir.Value, arg int) *walk {
	n := fr.arg(v, arg)
	if n < 0 || n >= int64(len(fr.walks)) {
		fr.trap("no iteration with number %d", n)
	}
	return fr.walks[n]
}

func mapNext(fr *frame, v *ir.Value) int64 {
	w, b := fr.walkOf(v, 1), fr.mapOf(v)
	for w.next < len(w.keys) {
		w.next++
		if addr := b.lookup([]byte(w.keys[w.next-1]), fr.in.CPU); addr != 0 {
			return int64(addr)
		}
	}
	return 0
}

// elemOf returns the element whose value the last argument points to. A deleted one is not
// found; no test needs it.
func (fr *frame) elemOf(v *ir.Value) *cell {
	elem := v.Args[len(v.Args)-1]
	addr := uint64(fr.val(elem))
	b := fr.maps[elem.Type.Sym]
	for _, e := range b.entries {
		for _, a := range e.vals {
			if a == addr {
				return &cell{b: b, key: e.key, cpu: fr.in.CPU, value: b.value(addr)}
			}
		}
	}
	fr.trap("%s is not an element of %s", elem, elem.Type.Sym)
	return nil
}

func elemGet(fr *frame, v *ir.Value) int64 {
	c := fr.elemOf(v)
	if c.b.def.Shape != ir.ShapePlain {
		return c.read()
	}
	return c.number()
}

func elemGetMem(fr *frame, v *ir.Value) int64 {
	c := fr.elemOf(v)
	copy(fr.bytes(fr.arg(v, 1), c.b.def.Value.MemSize(), true), c.object())
	return 0
}
