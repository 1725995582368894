// SPDX-License-Identifier: Apache-2.0

package obj

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"btc/ir"
	"btc/targets/kernel"
)

// The local types of CO-RE relocations. A loader matches them with the host's types by name, so a
// local struct has only the members that the script uses, at the target's offsets and with
// anonymous members flattened.

// coreTypes collects the accesses of a module, and then builds the local types.
type coreTypes struct {
	t     *kernel.Target
	b     *builder
	nodes map[string]*coreNode // keyed by "struct sock" etc.
	order []*coreNode
}

// coreNode is a struct, union or enum with the members that are used.
type coreNode struct {
	kind    kernel.Kind
	name    string // "" for the type of a field inside an anonymous member
	size    int
	signed  bool
	typedef string // name of a typedef, if the access starts at one
	typ     *kernel.Type
	members []*coreMember
	id      typeID
	done    bool
}

// coreMember is a used member.
type coreMember struct {
	name  string
	field kernel.Field
	child *coreNode // set if the path continues inside, or the member is an aggregate
	known bool      // false: not in the target, invented for an existence test
	value int32     // enumerator
}

func (m *coreMember) bitOff() int { return m.field.Offset*8 + m.field.BitOffset }

// coreStep is a step of a resolved access path.
type coreStep struct {
	member *coreMember
	index  []int // array indices that follow the member
}

// coreAccess is a resolved access: the input of a record and its instruction.
type coreAccess struct {
	root  *coreNode
	steps []coreStep
	// The accessed object: offset from the root in bits, and its type.
	bitOff  int
	bitSize int
	typ     *kernel.Type // nil if the target does not have it
}

func newCoreTypes(t *kernel.Target, b *builder) *coreTypes {
	return &coreTypes{t: t, b: b, nodes: map[string]*coreNode{}}
}

// node returns the node of a type, given its C name.
func (c *coreTypes) node(name string) *coreNode {
	if n := c.nodes[name]; n != nil {
		return n
	}
	n := &coreNode{}
	kind, tag, _ := strings.Cut(name, " ")
	switch kind {
	case "struct":
		n.kind, n.name = kernel.Struct, tag
		n.typ, _ = c.t.Struct(tag)
	case "union":
		n.kind, n.name = kernel.Union, tag
		n.typ, _ = c.t.Union(tag)
	case "enum":
		n.kind, n.name = kernel.Enum, tag
		n.typ, _ = c.t.Enum(tag)
	default:
		n.kind, n.typedef = kernel.Struct, name
		if td, ok := c.t.Typedef(name); ok {
			n.typ = td.Resolve()
			n.kind, n.name = n.typ.Kind, n.typ.Name
		}
	}
	n.fill()
	c.nodes[name] = n
	c.order = append(c.order, n)
	return n
}

func (n *coreNode) fill() {
	if n.typ != nil {
		n.size, n.signed = n.typ.Size, n.typ.Signed
	} else if n.kind == kernel.Enum {
		n.size = 4
	}
}

// child returns the node for the type of a member. It is shared if the type has a name.
func (c *coreTypes) child(m *coreMember, typ *kernel.Type) *coreNode {
	if typ.Name != "" {
		words := map[kernel.Kind]string{kernel.Struct: "struct ", kernel.Union: "union "}
		return c.node(words[typ.Kind] + typ.Name)
	}
	if m.child == nil {
		m.child = &coreNode{kind: typ.Kind, typ: typ}
		m.child.fill()
	}
	return m.child
}

// access resolves a reference against the target and marks its members as used.
func (c *coreTypes) access(ref ir.CORERef, kind ir.COREKind) (*coreAccess, error) {
	root := c.node(ref.Type)
	a := &coreAccess{root: root, typ: root.typ}
	if kind == ir.EnumvalExists || kind == ir.EnumvalValue {
		a.steps = []coreStep{{member: a.root.enumerator(ref.Path)}}
		return a, nil
	}
	if ref.Path == "" {
		return a, nil
	}
	node := a.root
	parts := strings.Split(ref.Path, ".")
	for i, part := range parts {
		name, idx, err := splitIndex(part)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", ref, err)
		}
		m := node.member(name)
		if !m.known && kind != ir.FieldExists {
			return nil, fmt.Errorf("%s: the target has no member %q in %s", ref, name, ref.Type)
		}
		step := coreStep{member: m, index: idx}
		a.steps = append(a.steps, step)
		a.bitOff += m.bitOff()
		a.bitSize = m.field.BitSize
		a.typ = m.field.Type
		for _, n := range idx {
			if a.typ == nil {
				return nil, fmt.Errorf("%s: %q is unknown", ref, name)
			}
			arr := a.typ.Resolve()
			if arr.Kind != kernel.Array {
				return nil, fmt.Errorf("%s: %q is not an array", ref, name)
			}
			a.typ = arr.Elem()
			a.bitOff += n * a.typ.Size * 8
		}
		if i == len(parts)-1 {
			break
		}
		if a.typ == nil {
			return nil, fmt.Errorf("%s: %q is unknown", ref, name)
		}
		st := a.typ.Resolve()
		if st.Kind != kernel.Struct && st.Kind != kernel.Union {
			return nil, fmt.Errorf("%s: %q is not a struct", ref, name)
		}
		node = c.child(m, st)
		m.child = node
	}
	return a, nil
}

func splitIndex(part string) (string, []int, error) {
	name, rest, ok := strings.Cut(part, "[")
	var idx []int
	for ok {
		num, more, closed := strings.Cut(rest, "]")
		n, err := strconv.Atoi(num)
		if err != nil || !closed || n < 0 {
			return "", nil, fmt.Errorf("bad index in %q", part)
		}
		idx = append(idx, n)
		_, rest, ok = strings.Cut(more, "[")
	}
	return name, idx, nil
}

func (n *coreNode) member(name string) *coreMember {
	for _, m := range n.members {
		if m.name == name {
			return m
		}
	}
	m := &coreMember{name: name}
	if n.typ != nil {
		m.field, m.known = n.typ.Field(name)
	}
	n.members = append(n.members, m)
	return m
}

func (n *coreNode) enumerator(name string) *coreMember {
	for _, m := range n.members {
		if m.name == name {
			return m
		}
	}
	m := &coreMember{name: name}
	if n.typ != nil {
		for _, e := range n.typ.Enumerators {
			if e.Name == name {
				m.known, m.value = true, int32(e.Value)
			}
		}
	}
	n.members = append(n.members, m)
	return m
}

// id returns the local BTF type of a node. All accesses must have been collected: id sorts the
// members by offset, as the kernel requires, and so fixes the indices that spec returns.
func (c *coreTypes) id(n *coreNode) typeID {
	if n.done {
		return n.id
	}
	n.done = true
	slices.SortStableFunc(n.members, func(a, b *coreMember) int { return a.bitOff() - b.bitOff() })
	switch n.kind {
	case kernel.Enum:
		var es []enumerator
		for _, m := range n.members {
			es = append(es, enumerator{m.name, m.value})
		}
		n.id = c.b.enum(n.name, n.size, n.signed, es)
	default:
		kind := kindStruct
		if n.kind == kernel.Union {
			kind = kindUnion
		}
		var ms []member
		for _, m := range n.members {
			ms = append(ms, member{m.name, c.memberType(m), m.bitOff(), m.field.BitSize})
		}
		size := n.size
		if size == 0 && len(ms) > 0 {
			size = 4 // a type that the target does not have, with invented members
		}
		n.id = c.b.composite(kind, n.name, size, ms)
	}
	if n.typedef != "" {
		n.id = c.b.typedef(n.typedef, n.id)
	}
	return n.id
}

func (c *coreTypes) memberType(m *coreMember) typeID {
	if m.field.Type == nil {
		return c.b.int("unsigned int", 4, 0)
	}
	return c.localType(m.field.Type, m.child, 0)
}

// localType returns the local form of a target type: pointers become void pointers, and structs
// have only the members that are used.
func (c *coreTypes) localType(typ *kernel.Type, child *coreNode, depth int) typeID {
	typ = typ.Resolve()
	switch typ.Kind {
	case kernel.Int:
		enc := 0
		switch {
		case typ.Bool:
			enc = intBool
		case typ.Signed:
			enc = intSigned
		}
		return c.b.int(typ.Name, typ.Size, enc)
	case kernel.Float:
		return c.b.int("unsigned long long", typ.Size, 0)
	case kernel.Pointer:
		return c.b.ptr(0)
	case kernel.Array:
		if depth > 8 {
			return 0
		}
		return c.b.array(c.localType(typ.Elem(), child, depth+1), typ.Len)
	case kernel.Enum:
		if typ.Name != "" {
			return c.id(c.node("enum " + typ.Name))
		}
		return c.b.int("unsigned int", typ.Size, 0)
	case kernel.Struct, kernel.Union:
		if child == nil {
			child = c.child(&coreMember{}, typ)
		}
		return c.id(child)
	}
	return 0
}

// spec returns the access string of a record. The type ID of its root comes from coreTypes.id.
func (a *coreAccess) spec(kind ir.COREKind) string {
	switch kind {
	case ir.TypeExists, ir.TypeSize:
		return "0"
	case ir.EnumvalExists, ir.EnumvalValue:
		return strconv.Itoa(a.root.index(a.steps[0].member))
	}
	var s strings.Builder
	s.WriteByte('0')
	node := a.root
	for _, st := range a.steps {
		fmt.Fprintf(&s, ":%d", node.index(st.member))
		for _, i := range st.index {
			fmt.Fprintf(&s, ":%d", i)
		}
		node = st.member.child
	}
	return s.String()
}

func (n *coreNode) index(m *coreMember) int {
	for i, x := range n.members {
		if x == m {
			return i
		}
	}
	panic("BUG: member " + m.name + " is not of its node")
}

// local returns the value of the relocation for the local type: loaders check that the instruction
// contains it.
func (a *coreAccess) local(kind ir.COREKind) (int64, error) {
	switch kind {
	case ir.FieldExists, ir.TypeExists, ir.EnumvalExists:
		return 1, nil
	case ir.EnumvalValue:
		return int64(a.steps[0].member.value), nil
	case ir.TypeSize:
		return int64(a.root.size), nil
	}
	if a.typ == nil {
		return 0, fmt.Errorf("unknown type")
	}
	typ := a.typ.Resolve()
	off, size := a.bitOff/8, typ.Size
	if a.bitSize > 0 {
		off, size = bitfieldUnit(a.bitOff, a.bitSize, typ.Size)
	}
	switch kind {
	case ir.FieldByteOffset:
		return int64(off), nil
	case ir.FieldByteSize:
		return int64(size), nil
	case ir.FieldSigned:
		if (typ.Kind == kernel.Int || typ.Kind == kernel.Enum) && typ.Signed {
			return 1, nil
		}
		return 0, nil
	case ir.FieldLShift:
		bits := a.bitSize
		if bits == 0 {
			bits = size * 8
		}
		return int64(64 - (a.bitOff + bits - off*8)), nil
	case ir.FieldRShift:
		bits := a.bitSize
		if bits == 0 {
			bits = size * 8
		}
		return int64(64 - bits), nil
	}
	return 0, fmt.Errorf("unknown kind %d", kind)
}

// bitfieldUnit returns the aligned unit, extended from the storage type, that contains all bits of
// a bitfield. libbpf and the kernel compute it in the same way.
func bitfieldUnit(bitOff, bitSize, typeSize int) (off, size int) {
	size = typeSize
	off = bitOff / 8 / size * size
	for bitOff+bitSize-off*8 > size*8 && size < 8 {
		size *= 2
		off = bitOff / 8 / size * size
	}
	return off, size
}
