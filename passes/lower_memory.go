// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"strings"

	"btc/ir"
	"btc/targets/kernel"
)

// lower-memory replaces reads of kernel and user memory by relocated loads and
// probe reads, and memcopy and memzero by stores.
//
// requires:    the other lowerings have run
// establishes: the module is core
// invalidates: dominators, liveness (it adds blocks for tracked pointers)
//
//	v1:i64 = read.u32 struct task_struct:pid [v0]           ; v0 is a kaddr
//	->
//	store.u64 [s0+0], 0
//	v2:i64 = core byte_sz struct task_struct:pid
//
// //	...                                                     ; v2 clamped to 8
//
//	v3:i64 = core byte_off struct task_struct:pid
//	v4:kaddr = add v0, v3
//	v5:i64 = call probe_read_kernel(s0+0, v2, v4)
//	v6:i64 = load.u64 [s0+0]
//	...                                                     ; shifts by lshift and rshift
//
// The bytes read, their offset and the shifts are the host's: a field may have another
// width there, or be a bitfield. The probe read helpers zero the destination on failure
// (all versions), so no result needs a test.
func lowerMemory(m *ir.Module) []ir.Diag {
	return rules{
		ir.OpRead:      lowerRead,
		ir.OpReadMem:   lowerReadMem,
		ir.OpFieldAddr: lowerFieldAddr,
		ir.OpMemCopy:   lowerMemCopy,
		ir.OpMemZero:   lowerMemZero,
		ir.OpMemEq:     lowerMemEq,
	}.apply(m)
}

var noField ir.CORERef

func lowerRead(l *lowering, v *ir.Value) *ir.Value {
	p := v.Args[0]
	switch {
	case !p.Type.IsPtr():
		return l.probeScalar(v, p)
	case v.CORE == noField:
		return l.LoadAs(v.Type, v.Mem, p, int(v.Imm))
	case p.Type.Kind == ir.Stack || p.Type.Kind == ir.MapVal || p.Type.Kind == ir.MapKey || p.Type.Kind == ir.Ringbuf:
		// A copy of a kernel object has the host's layout and the target's length.
		return l.fieldLoad(v, p)
	case v.Type.Kind == ir.BTF: // a pointer has 8 bytes everywhere
		return l.fieldLoad(v, p)
	case l.isBitfield(v.CORE):
		return l.probeScalar(v, l.Cast(ir.TKAddr, p))
	}
	// A load's width cannot be relocated, only its offset. Where the host's field has
	// another width, it is read through the helper; the kernel verifier sees a constant and
	// drops the side that is not taken.
	same := l.ICmp(ir.EQ, l.CORE(ir.FieldByteSize, v.CORE), ir.Const(int64(v.Mem.Size())))
	return l.IfValue(same, v.Type,
		func() *ir.Value { return l.fieldLoad(v, p) },
		func() *ir.Value {
			l.Block().Cold = true
			return l.probeScalar(v, l.Cast(ir.TKAddr, p))
		})
}

// fieldLoad loads the field directly, with the width that the target has.
func (l *lowering) fieldLoad(v, p *ir.Value) *ir.Value {
	r := l.LoadField(v.Type, v.Mem, p, v.CORE)
	r.Imm = v.Imm
	return r
}

// probeScalar reads up to 8 bytes at kaddr or uaddr p through a helper.
func (l *lowering) probeScalar(v, p *ir.Value) *ir.Value {
	word := l.Slot("read", 8, 8)
	from := l.AddImm(p, v.Imm)
	if v.CORE == noField { // the helper writes all bytes, zeros if it cannot read
		l.probeRead(word, ir.Const(int64(v.Mem.Size())), from)
		if v.Mem.Size() == 8 {
			return l.Cast(v.Type, l.Load(ir.U64, word, 0))
		}
		return l.Load(v.Mem, word, 0)
	}
	l.Store(ir.U64, word, 0, ir.Const(0))
	// A field that is not a scalar on some host must not prevent the program from loading.
	size := l.clamp(l.CORE(ir.FieldByteSize, v.CORE), 8)
	from = l.Add(from, l.CORE(ir.FieldByteOffset, v.CORE))
	l.probeRead(word, size, from)
	x := l.Load(ir.U64, word, 0)
	if v.Mem.Size() == 8 && !l.isBitfield(v.CORE) {
		return l.Cast(v.Type, x)
	}
	right := ir.OpLShr
	if v.Mem.Signed() {
		right = ir.OpAShr
	}
	if strings.HasSuffix(v.CORE.Path, "]") {
		// libbpf has no relocation for the shift of an array's element; its size implies
		// it.
		shift := l.Sub(ir.Const(64), l.Shl(size, ir.Const(3)))
		return l.Binary(right, l.Shl(x, shift), shift)
	}
	x = l.Shl(x, l.CORE(ir.FieldLShift, v.CORE))
	return l.Binary(right, x, l.CORE(ir.FieldRShift, v.CORE))
}

// probeRead copies n bytes from a kernel or user address.
func (l *lowering) probeRead(to, n, from *ir.Value) {
	l.bySpace(from, func(from *ir.Value) *ir.Value {
		_, helper := readHelpers(from)
		r := l.Call(helper, ir.TI64, to, n, from)
		l.check(helper, r)
		return r
	})
}

// bySpace reads kernel memory, user memory, or, if the address space is unknown, either
// depending on the address.
func (l *lowering) bySpace(from *ir.Value, read func(*ir.Value) *ir.Value) *ir.Value {
	if from.Type.Kind != ir.Addr {
		return read(from)
	}
	return l.IfValue(l.KernelAddr(l.m.Served(), from), ir.TI64,
		func() *ir.Value { return read(l.Cast(ir.TKAddr, from)) },
		func() *ir.Value { return read(l.Cast(ir.TUAddr, from)) })
}

func lowerReadMem(l *lowering, v *ir.Value) *ir.Value {
	to, from := v.Args[0], v.Args[1]
	switch from.Type.Kind {
	case ir.Stack, ir.MapVal, ir.MapKey, ir.Ringbuf:
		l.copy(to, from, int(v.Imm))
	default:
		l.probeRead(to, ir.Const(v.Imm), from)
	}
	return nil
}

func lowerFieldAddr(l *lowering, v *ir.Value) *ir.Value {
	return l.Add(v.Args[0], l.CORE(ir.FieldByteOffset, v.CORE))
}

func lowerMemCopy(l *lowering, v *ir.Value) *ir.Value {
	l.copy(v.Args[0], v.Args[1], int(v.Imm))
	return nil
}

func lowerMemZero(l *lowering, v *ir.Value) *ir.Value {
	l.zero(v.Args[0], int(v.Imm))
	return nil
}

// lowerMemEq compares word by word, all words without a branch: branches cost the verifier,
// which follows each path, more than loads do.
func lowerMemEq(l *lowering, v *ir.Value) *ir.Value {
	p, q, n := v.Args[0], v.Args[1], int(v.Imm)
	var diff *ir.Value
	steps(n, min(l.align(p, n), l.align(q, n)), func(off, w int) {
		k := ir.MemKindOf(w, false)
		d := l.Binary(ir.OpXor, l.Load(k, p, off), l.Load(k, q, off))
		if diff == nil {
			diff = d
		} else {
			diff = l.Or(diff, d)
		}
	})
	if diff == nil {
		return ir.Bool(true)
	}
	return l.ICmp(ir.EQ, diff, ir.Const(0))
}

// maxSteps is the number of stores up to which a copy is written out; beyond
// it one helper call is shorter.
const maxSteps = 16

// copy copies n bytes between memory objects.
func (l *lowering) copy(to, from *ir.Value, n int) {
	w := min(l.align(to, n), l.align(from, n))
	if countSteps(n, w) > maxSteps {
		l.Call("probe_read_kernel", ir.TI64, to, ir.Const(int64(n)), from)
		return
	}
	steps(n, w, func(off, w int) {
		k := ir.MemKindOf(w, false)
		l.Store(k, to, off, l.Load(k, from, off))
	})
}

// zero clears n bytes of a memory object. Many bytes are cleared by a probe read of address
// 0: it fails, and the helper zeroes the destination.
func (l *lowering) zero(to *ir.Value, n int) {
	w := l.align(to, n)
	if countSteps(n, w) > maxSteps {
		l.Call("probe_read_kernel", ir.TI64, to, ir.Const(int64(n)), ir.Const(0))
		return
	}
	l.Zero(to, n, w)
}

// steps calls do for each access of a walk over n bytes by words of w bytes, with narrower
// ones at the end.
func steps(n, w int, do func(off, w int)) {
	for off := 0; off < n; off += w {
		for w > n-off {
			w /= 2
		}
		do(off, w)
	}
}

func countSteps(n, w int) int {
	count := 0
	steps(n, w, func(int, int) { count++ })
	return count
}

// align returns the widest access, in bytes, that address p allows. The kernel always requires
// aligned accesses of the stack; those of map values and records need not be aligned on the
// supported architectures. A slot's alignment is raised as needed for an access of n bytes.
func (l *lowering) align(p *ir.Value, n int) int {
	switch {
	case p.Op == ir.OpSlotAddr:
		want := 8
		for want > max(n, 1) || int(p.Imm)%want != 0 {
			want /= 2
		}
		p.Slot.Align = max(p.Slot.Align, want)
		return want
	case p.Type.Kind == ir.Stack:
		return 1
	}
	return 8
}

// isBitfield reports whether the target has the field as a bitfield. A field that the
// target lacks is not one.
func (l *lowering) isBitfield(ref ir.CORERef) bool {
	if l.m.Target == nil {
		return false
	}
	f, ok := findField(l.m.Target, ref)
	return ok && f.BitSize > 0
}

// findField looks a field up in the target.
func findField(t *kernel.Target, ref ir.CORERef) (f kernel.Field, ok bool) {
	typ, ok := structType(t, ref.Type)
	for _, part := range strings.Split(ref.Path, ".") {
		if !ok {
			return f, false
		}
		name, index, _ := strings.Cut(part, "[")
		if f, ok = typ.Field(name); !ok {
			return f, false
		}
		typ = f.Type.Resolve()
		for range strings.Count(index, "]") {
			typ = typ.Elem().Resolve()
		}
	}
	return f, ok
}

func structType(t *kernel.Target, name string) (*kernel.Type, bool) {
	kind, tag, ok := strings.Cut(name, " ")
	switch {
	case ok && kind == "struct":
		return t.Struct(tag)
	case ok && kind == "union":
		return t.Union(tag)
	}
	typ, ok := t.Typedef(name)
	if ok {
		typ = typ.Resolve()
	}
	return typ, ok
}
