// SPDX-License-Identifier: Apache-2.0

// Package types holds the types of the bpftrace language: their names, the rules of promotion, their sizes for
// sizeof, and how their values are stored in maps, tuples and events (docs/layouts.md).
//
// It depends on no other package of btc. C structs, unions and enums are represented by Composite and EnumDef, which
// frontend/cdef fills from the target's types or from C text; members are loaded on demand.
package types

import (
	"fmt"
	"strings"
)

// Kind is the kind of a Type.
type Kind uint8

// The kinds.
const (
	Invalid    Kind = iota // type of an erroneous expression: compatible with everything, reported once
	None                   // no value (void)
	Int                    // Size 1, 2, 4 or 8; Signed; Flexible
	Bool                   // 1 byte
	Enum                   // Size, Signed, Enum
	String                 // Size: capacity in bytes, NUL included
	Buffer                 // Size: capacity in bytes
	Pointer                // Elem, Space
	Array                  // Len times Elem
	Struct                 // Comp: a struct or a union, by value
	Tuple                  // Fields, unnamed
	Record                 // Fields, named
	Func                   // C function: only as the target of a pointer
	Float                  // C floating point: only as a member that is not read
	Kstack                 // Depth, Mode
	Ustack                 // Depth, Mode
	Ksym                   // address of a kernel symbol
	Usym                   // address of a user symbol and its process
	Inet                   // IPv4 or IPv6 address
	Mac                    // hardware address
	Timestamp              // Format, Clock
	Username               // user id, printed as a name
	CgroupPath             // cgroup id, printed as paths
	Probe                  // full name of the attach point that fired

	// Aggregations: types of map values only. Signed where it matters.
	Count
	Sum
	Min
	Max
	Avg
	Stats
	Hist
	Lhist
	Tseries
)

// Space is the address space of a pointer, or of a number, which decides what a cast of the number to a pointer
// means.
type Space uint8

// The address spaces.
const (
	NoSpace Space = iota // not known: decided by the address at run time
	Kernel
	User
	Either // kernel on one path, user on another: decided like NoSpace
)

// String returns the name in messages.
func (s Space) String() string { return [...]string{"none", "kernel", "user", "either"}[s] }

// Known reports whether the compiler knows the address space.
func (s Space) Known() bool { return s == Kernel || s == User }

// Join returns the space of a value that may come from s or from o.
func (s Space) Join(o Space) Space {
	switch {
	case s == o || o == NoSpace:
		return s
	case s == NoSpace:
		return o
	}
	return Either
}

// Type is a type of the language. Types are immutable once made; compare them
// with Equal, not by pointer.
type Type struct {
	Kind   Kind
	Size   int  // bytes, as for sizeof; for String and Buffer the capacity
	Signed bool // Int, Enum, aggregations
	// Flexible marks the Int type of a non-negative literal, which takes the
	// signedness of its peer.
	Flexible bool
	Elem     *Type     // Pointer, Array
	Len      int       // Array: elements; 0 for one of unknown length
	Chars    CharArray // Array: whether it is read as a string
	Raw      bool      // String: the bytes after a NUL are kept, see KernelBytes
	Full     bool      // String: a char array, which may fill it without a NUL
	Space    Space     // see HasSpace
	Fields   []Field
	Comp     *Composite
	Enum     *EnumDef
	Depth    int    // Kstack, Ustack: most frames, 1..1024
	Mode     string // Kstack, Ustack: bpftrace, perf, raw or build_id
	Format   string // Timestamp: strftime format; CgroupPath: filter
	// FormatFrom is the string parameter ("$1", "--name") whose value is Format at load; "": none.
	FormatFrom string
	Clock      int // Timestamp: 0 boot, 1 monotonic, 2 tai, 3 sw_tai

	// Tuple, Record: computed when the type is made, because walking nested ones can take exponential time.
	align, parts int
	store        Storage
}

// CharArray is how a char array of a C struct is read.
type CharArray uint8

// The values of CharArray.
const (
	NoChars CharArray = iota // as an array
	// KernelChars is a char array of the kernel's or a program's types: a string of that
	// capacity; one without a NUL counts as truncated.
	KernelChars
	// KernelBytes is an array of other one-byte integers (u8) of the kernel's types. It is a string as in bpftrace, but
	// all its bytes are read: addresses that differ only after a zero byte are different keys.
	KernelBytes
	// ScriptChars is a char array in a C definition of the script: a string with room for an
	// additional NUL.
	ScriptChars
)

// Field is an element of a tuple (no Name) or a field of a record.
type Field struct {
	Name string
	Type *Type
}

// EnumDef is a C enum. Two Enum types are the same if their definitions are.
type EnumDef struct {
	Tag string // "" for an anonymous enum
	// CORE is the name for enumerator relocations ("enum tcp_state"), "" when the
	// values are fixed.
	CORE   string
	Values []EnumValue
}

// Has reports whether an enumerator has the value v.
func (d *EnumDef) Has(v int64) bool {
	for _, e := range d.Values {
		if e.Value == v {
			return true
		}
	}
	return false
}

// EnumValue is one enumerator.
type EnumValue struct {
	Name  string
	Value int64
}

// Find returns the enumerator of a name.
func (e *EnumDef) Find(name string) (EnumValue, bool) {
	for _, v := range e.Values {
		if v.Name == name {
			return v, true
		}
	}
	return EnumValue{}, false
}

// Composite is a C struct or union.
type Composite struct {
	Tag   string // "" for an anonymous one
	Union bool
	// CORE is the name for field relocations: "struct sock", or the bare name of a typedef of an anonymous struct; ""
	// if the layout is fixed (defined by the script) or the type has no name.
	CORE string
	// Forward is set for a type that is only declared: it has no members and no size.
	Forward bool
	Size    int // bytes
	// Align is in bytes; 0 if AlignOf must be called.
	Align   int
	AlignOf func() int
	Load    func() []Member
	// Lookup finds one member like Find, without loading all; it may be nil.
	Lookup func(name string) (Member, bool)

	members []Member
	loaded  bool
	parts   int // see memberParts; 0 if not known
}

// Member is a member of a composite.
type Member struct {
	Name string // "" for an anonymous struct or union
	Type *Type
	// Off is the offset in bytes from the start of the composite; for a bitfield, the offset of the storage unit
	// (Type.Size bytes) that contains its first bit.
	Off int
	// BitOff and BitSize place a bitfield in its storage unit, counted from the
	// least significant bit. BitSize is 0 for other members.
	BitOff, BitSize int
}

// Members returns the members in order of declaration.
func (c *Composite) Members() []Member {
	if !c.loaded {
		c.loaded = true
		if c.Load != nil {
			c.members = c.Load()
		}
	}
	return c.members
}

// memberParts returns the sum of the members' Type.Parts.
func (c *Composite) memberParts() int {
	if c.parts == 0 && !c.Forward {
		c.parts = 1 // guards against damaged types that contain themselves
		n := 0
		for _, m := range c.Members() {
			n = min(n+m.Type.Parts(), MaxParts)
		}
		c.parts = max(1, n)
	}
	return c.parts
}

// Find finds a member by name, also inside anonymous members; its offset counts
// from the start of c.
func (c *Composite) Find(name string) (Member, bool) {
	if c.Lookup != nil {
		return c.Lookup(name)
	}
	return c.find(name, 0)
}

// Alignment returns the natural alignment in bytes.
func (c *Composite) Alignment() int {
	if c.Align == 0 && c.AlignOf != nil {
		c.Align = c.AlignOf()
	}
	return max(1, c.Align)
}

func (c *Composite) find(name string, depth int) (Member, bool) {
	if name == "" || depth > 16 {
		return Member{}, false
	}
	for _, m := range c.Members() {
		if m.Name == name {
			return m, true
		}
		if m.Name != "" || m.Type.Kind != Struct {
			continue
		}
		if in, ok := m.Type.Comp.find(name, depth+1); ok {
			in.Off += m.Off
			return in, true
		}
	}
	return Member{}, false
}

// Names returns the names that Find finds.
func (c *Composite) Names() []string {
	var all []string
	var walk func(c *Composite, depth int)
	walk = func(c *Composite, depth int) {
		for _, m := range c.Members() {
			if m.Name != "" {
				all = append(all, m.Name)
			} else if m.Type.Kind == Struct && depth < 16 {
				walk(m.Type.Comp, depth+1)
			}
		}
	}
	walk(c, 0)
	return all
}

// Word returns "struct" or "union".
func (c *Composite) Word() string {
	if c.Union {
		return "union"
	}
	return "struct"
}

// IsScalar reports whether the compiler treats a value of the type as one integer of at most 8 bytes: an i64 in IR.
// All other values are in memory.
func (t *Type) IsScalar() bool {
	switch t.Kind {
	case Int, Bool, Enum, Pointer, Ksym, Timestamp, Username, CgroupPath, Probe, Kstack:
		return true
	}
	return false
}

// IsInteger reports whether arithmetic treats the type as a number: Int, Bool or Enum.
func (t *Type) IsInteger() bool { return t.Kind == Int || t.Kind == Bool || t.Kind == Enum }

// IsAgg reports whether t is an aggregation, which only a map's values can be.
func (t *Type) IsAgg() bool { return t.Kind >= Count && t.Kind <= Tseries }

// IsReadable reports whether an aggregation can be read as a number.
func (t *Type) IsReadable() bool { return t.Kind >= Count && t.Kind <= Avg }

// IsStack reports whether t is a kernel or user stack.
func (t *Type) IsStack() bool { return t.Kind == Kstack || t.Kind == Ustack }

// Is reports whether t is of kind k.
func (t *Type) Is(k Kind) bool { return t.Kind == k }

// PointsTo reports whether t is a pointer to kind k.
func (t *Type) PointsTo(k Kind) bool { return t.Kind == Pointer && t.Elem.Kind == k }

var kindNames = [...]string{
	Invalid: "?", None: "none", Bool: "bool", Func: "function", Float: "float",
	Kstack: "kstack", Ustack: "ustack", Ksym: "ksym_t", Usym: "usym_t", Inet: "inet", Mac: "mac_address",
	Timestamp: "timestamp", Username: "username_t", CgroupPath: "cgroup_path_t", Probe: "string",
	Count: "count_t", Sum: "sum_t", Min: "min_t", Max: "max_t", Avg: "avg_t", Stats: "stats_t",
	Hist: "hist_t", Lhist: "lhist_t", Tseries: "tseries_t",
}

// String returns the type in bpftrace's notation: "int64", "string[5]",
// "(int64,string[5])", "struct foo *".
func (t *Type) String() string {
	if t == nil {
		return "?"
	}
	switch t.Kind {
	case Int:
		return unsigned(t, "int", fmt.Sprint(8*t.Size))
	case Enum:
		if t.Enum.Tag == "" {
			return unsigned(t, "int", fmt.Sprint(8*t.Size))
		}
		return "enum " + t.Enum.Tag
	case String, Buffer:
		name := "string"
		if t.Kind == Buffer {
			name = "buffer"
		}
		if t.Size == 0 {
			return name
		}
		return fmt.Sprintf("%s[%d]", name, t.Size)
	case Pointer:
		return t.Elem.String() + " *"
	case Array:
		return fmt.Sprintf("%s[%d]", t.Elem, t.Len)
	case Struct:
		return t.compString()
	case Tuple:
		var parts []string
		for _, f := range t.Fields {
			parts = append(parts, f.Type.String())
		}
		return "(" + strings.Join(parts, ",") + ")"
	case Record:
		var parts []string
		for _, f := range t.Fields {
			parts = append(parts, "."+f.Name+" = "+f.Type.String())
		}
		return "record { " + strings.Join(parts, ", ") + " }"
	case Sum, Min, Max, Avg, Stats:
		return unsigned(t, kindNames[t.Kind], "")
	}
	return kindNames[t.Kind]
}

func unsigned(t *Type, name, tail string) string {
	if !t.Signed {
		name = "u" + name
	}
	return name + tail
}

func (t *Type) compString() string {
	if t.Comp.Tag != "" {
		return t.Comp.Word() + " " + t.Comp.Tag
	}
	if t.Comp.CORE != "" {
		return t.Comp.CORE
	}
	return t.Comp.Word() + " {...}"
}
