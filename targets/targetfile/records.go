// SPDX-License-Identifier: Apache-2.0

package targetfile

// Flags of function and syscall records.
const (
	funcTraceable = 1 << iota
	funcKfunc
	funcProto
	funcVariadic
	funcModule
)

func (e *encoder) ref(r Ref) { e.uint(int(r)) }
func (d *decoder) ref() Ref  { return Ref(d.uint()) }

func (e *encoder) typ(t *Type) {
	e.uint(int(t.Kind) | int(t.Flags)<<4)
	e.string(t.Name)
	switch t.Kind {
	case Pointer, Typedef:
		e.uint(t.Size)
		e.ref(t.Elem)
	case Array:
		e.uint(t.Size)
		e.uint(t.Len)
		e.ref(t.Elem)
	case Int, Float:
		e.uint(t.Size)
	case Struct, Union:
		e.uint(t.Size)
		e.members(t)
	case Enum:
		e.uint(t.Size)
		e.uint(len(t.Enumerators))
		prev := int64(-1)
		for _, n := range t.Enumerators {
			e.string(n.Name)
			e.int64(n.Value - prev - 1) // wraps around, as in the reader
			prev = n.Value
		}
	case Proto:
		e.params(t)
	case Forward:
	default:
		panic("BUG: type record without a kind: " + t.Name)
	}
}

// members encodes an offset as the distance from the end of the previous member, as if that had the size of a
// pointer: most distances are then small and repeat.
func (e *encoder) members(t *Type) {
	e.uint(len(t.Members))
	prev := 0
	for _, m := range t.Members {
		e.string(m.Name)
		e.ref(m.Type)
		bit := int64(m.BitOffset - prev)
		if m.BitSize == 0 && bit%8 == 0 {
			e.int64(bit / 8 << 1)
		} else {
			e.int64(bit<<1 | 1)
			e.uint(m.BitSize)
		}
		prev = m.BitOffset
	}
}

func (d *decoder) members(t *Type) {
	n := d.count(3)
	if n == 0 {
		return
	}
	t.Members = make([]Member, n)
	prev := int64(0)
	for i := range t.Members {
		m := &t.Members[i]
		m.Name = d.string()
		m.Type = d.ref()
		delta := d.int64()
		if delta&1 == 0 {
			prev += delta >> 1 * 8
		} else {
			prev += delta >> 1
			m.BitSize = d.uint()
		}
		if prev < 0 || prev > 8*int64(t.Size) || m.BitSize > 64 {
			d.fail("member outside its struct")
			return
		}
		m.BitOffset = int(prev)
	}
}

func (e *encoder) params(t *Type) {
	e.ref(t.Elem)
	e.uint(len(t.Params))
	for _, p := range t.Params {
		e.string(p.Name)
		e.ref(p.Type)
	}
}

func (d *decoder) params(t *Type) {
	t.Elem = d.ref()
	n := d.count(2)
	if n == 0 {
		return
	}
	t.Params = make([]Param, n)
	for i := range t.Params {
		t.Params[i] = Param{d.string(), d.ref()}
	}
}

func (d *decoder) typ() Type {
	head := d.uint()
	t := Type{Kind: Kind(head & 15), Flags: TypeFlags(head >> 4)}
	t.Name = d.string()
	switch t.Kind {
	case Pointer, Typedef:
		t.Size = d.uint()
		t.Elem = d.ref()
	case Array:
		t.Size = d.uint()
		t.Len = d.uint()
		t.Elem = d.ref()
	case Int, Float:
		t.Size = d.uint()
	case Struct, Union:
		t.Size = d.uint()
		d.members(&t)
	case Enum:
		t.Size = d.uint()
		d.enumerators(&t)
	case Proto:
		d.params(&t)
	case Forward:
	default:
		d.fail("unknown kind of type")
	}
	return t
}

func (d *decoder) enumerators(t *Type) {
	n := d.count(2)
	t.Enumerators = make([]Enumerator, n)
	prev := int64(-1)
	for i := range t.Enumerators {
		name := d.string()
		prev += d.int64() + 1
		t.Enumerators[i] = Enumerator{name, prev}
	}
}

func (e *encoder) function(f *Func) {
	flags := 0
	set := func(on bool, bit int) {
		if on {
			flags |= bit
		}
	}
	set(f.Traceable, funcTraceable)
	set(f.Kfunc, funcKfunc)
	set(f.Proto != nil, funcProto)
	set(f.Proto != nil && f.Proto.Flags&Variadic != 0, funcVariadic)
	set(f.Module != "", funcModule)
	e.uint(flags)
	if f.Module != "" {
		e.string(f.Module)
	}
	if f.Proto != nil {
		e.params(f.Proto)
	}
}

func (d *decoder) function(name string) Func {
	flags := d.uint()
	f := Func{Name: name, Traceable: flags&funcTraceable != 0, Kfunc: flags&funcKfunc != 0}
	if flags&funcModule != 0 {
		f.Module = d.string()
	}
	if flags&funcProto != 0 {
		f.Proto = &Type{Kind: Proto}
		if flags&funcVariadic != 0 {
			f.Proto.Flags = Variadic
		}
		d.params(f.Proto)
	}
	return f
}

func (e *encoder) event(ev *Event) {
	e.string(ev.Class)
	e.uint(len(ev.Fields))
	prev := 8
	for _, f := range ev.Fields {
		e.string(f.Name)
		e.string(f.CType)
		e.int64(int64(f.Offset - prev))
		sign := 0
		if f.Signed {
			sign = 1
		}
		e.uint(f.Size<<1 | sign)
		prev = f.Offset + f.Size
	}
}

func (d *decoder) event() Event {
	ev := Event{Class: d.string()}
	n := d.count(4)
	ev.Fields = make([]Field, n)
	prev := int64(8)
	for i := range ev.Fields {
		f := &ev.Fields[i]
		f.Name = d.string()
		f.CType = d.string()
		offset := prev + d.int64()
		size := d.uint()
		f.Size, f.Signed = size>>1, size&1 != 0
		if offset < 0 || offset > 1<<20 {
			d.fail("field outside its record")
			return ev
		}
		f.Offset = int(offset)
		prev = offset + int64(f.Size)
	}
	return ev
}

func (e *encoder) syscall(s *Syscall) {
	exit := 0
	if s.Exit {
		exit = 1
	}
	e.uint((s.Nr+1)<<1 | exit)
	e.uint(len(s.Args))
	for _, a := range s.Args {
		e.string(a.Name)
		e.string(a.CType)
	}
}

func (d *decoder) syscall(name string) Syscall {
	head := d.uint()
	s := Syscall{Name: name, Nr: head>>1 - 1, Exit: head&1 != 0}
	s.Args = make([]Arg, d.count(2))
	for i := range s.Args {
		s.Args[i] = Arg{d.string(), d.string()}
	}
	return s
}
