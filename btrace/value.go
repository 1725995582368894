// SPDX-License-Identifier: Apache-2.0

package btrace

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"btc/internal/manifest"
	"btc/loader/format"
)

// Value is a value of the script. Its dynamic type follows from the script's:
//
//	integers              int64 or uint64
//	booleans              bool
//	pointers              Pointer
//	enums                 Enum
//	strings               string, up to the first NUL
//	buf()                 []byte
//	tuples                Tuple
//	structs and records   Record
//	arrays                []Value
//	kstack, ustack        Stack
//	ksym(), usym()        Symbol
//	ntop()                Addr
//	macaddr()             MAC
//	strftime()            Timestamp
//	username              User
//	cgroup_path()         Cgroup
//	probe                 string
//	none                  nil
type Value = any

// Pointer is an address.
type Pointer uint64

func (p Pointer) String() string { return fmt.Sprintf("0x%x", uint64(p)) }

// Addr is an IP address, such as "192.0.2.1" or "2001:db8::1". netip.ParseAddr converts it, and so does Scan into a
// netip.Addr. It has its own type because package net/netip would add 61 KB to btrun.
type Addr string

func (a Addr) String() string { return string(a) }

// Enum is a value of an enum; Name is "" if no enumerator has the value.
type Enum struct {
	Name  string
	Value int64
}

func (e Enum) String() string {
	if e.Name != "" {
		return e.Name
	}
	return fmt.Sprint(e.Value)
}

// Tuple is a list of values of several types.
type Tuple []Value

// Record is a struct of the script or the kernel.
type Record []Field

// Field is a member of a Record.
type Field struct {
	Name  string
	Value Value
}

// Get returns the value of a member; nil if there is none.
func (r Record) Get(name string) Value {
	for _, f := range r {
		if f.Name == name {
			return f.Value
		}
	}
	return nil
}

// Stack is a stack of the kernel or of a process.
type Stack struct {
	// Addresses are innermost first.
	Addresses []uint64
	// Frames are innermost first, too. Inlined functions are frames of their own, and a frame with the text
	// "<unwind failure>" follows the last one that is known, so there may be more of them than addresses.
	Frames []Frame
	PID    uint32 // process of a user stack
}

// String returns the frames as btrun prints them, one per line.
func (s Stack) String() string {
	var b strings.Builder
	for i, f := range s.Frames {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(f.Text)
	}
	return b.String()
}

// Frame is a frame of a stack, as far as it is known.
type Frame struct {
	// Text is what btrun prints: by default function+offset, or the address of a frame without a name.
	Text     string
	Address  uint64
	Function string // "": unknown
	Offset   uint64 // of Address in Function
	Module   string // the path of the program or library, or the name of the kernel module; "": unknown, or the kernel itself
	BuildID  string // of Module, in hexadecimal; "": unknown
	// ModuleOffset is the offset of Address in the file Module, if BuildID is known.
	ModuleOffset uint64
	File         string // with the source code; "": unknown
	Line         int    // in File
	Inlined      bool   // Function was inlined into that of the next frame
}

func (f Frame) String() string { return f.Text }

// Symbol is an address with its name.
type Symbol struct {
	Address uint64
	Name    string
	PID     uint32 // process of the symbol, if any
}

func (s Symbol) String() string { return s.Name }

// MAC is an Ethernet address.
type MAC [6]byte

func (m MAC) String() string {
	return fmt.Sprintf("%02X:%02X:%02X:%02X:%02X:%02X", m[0], m[1], m[2], m[3], m[4], m[5])
}

// Timestamp is a time with the format that the script chose.
type Timestamp struct {
	Time time.Time
	Text string
}

func (t Timestamp) String() string { return t.Text }

// User is a user ID with the user's name on this host.
type User struct {
	ID   uint64
	Name string
}

func (u User) String() string { return u.Name }

// Cgroup is a cgroup's ID with its paths, as cgroup_path() prints them, and the container or pod that it
// belongs to.
type Cgroup struct {
	ID   uint64
	Path string
	// Label is the name of the container or pod: "web", "shop/web-0/nginx"; "": none. Namespace and
	// Pod are those of Kubernetes.
	Label, Namespace, Pod, Container string
}

// String returns the path with the label: "unified:/system.slice/docker-1234.scope (web)".
func (c Cgroup) String() string {
	return format.Cgroup{Path: c.Path, Container: format.Container{Label: c.Label}}.String()
}

// decoder decodes bytes into values, by layout.
type decoder struct {
	env    *format.Env
	frames func(l *manifest.Layout, id uint64) []uint64
}

func (d decoder) text(v format.Value) string { return string(d.env.Append(nil, v)) }

// value returns the value for v; the result does not refer to v's memory.
func (d decoder) value(v format.Value) Value {
	l, b := v.Layout, v.Bytes
	if !v.Var && len(b) < l.Size {
		return nil // cannot happen in a validated manifest
	}
	word := func() uint64 { return binary.NativeEndian.Uint64(b) }
	switch l.Kind {
	case "int":
		if l.Signed {
			return int64(format.Uint(l, b))
		}
		return format.Uint(l, b)
	case "bool":
		return format.Uint(l, b) != 0
	case "ptr":
		return Pointer(format.Uint(l, b))
	case "enum":
		n := format.Uint(l, b)
		return Enum{Name: l.Enum[string(format.AppendInt(nil, n, l.Signed))], Value: int64(n)}
	case "string":
		return string((&format.Env{}).Append(nil, v))
	case "buffer":
		return append([]byte{}, v.Buffer()...)
	case "tuple":
		t := make(Tuple, len(l.Fields))
		for i := range t {
			t[i] = d.value(v.Field(i))
		}
		return t
	case "record":
		r := make(Record, len(l.Fields))
		for i := range r {
			r[i] = Field{l.Fields[i].Name, d.value(v.Field(i))}
		}
		return r
	case "array":
		a := make([]Value, l.Count)
		for i := range a {
			a[i] = d.value(v.Item(i))
		}
		return a
	case "kstack", "ustack":
		s := Stack{Addresses: d.frames(l, word())}
		for _, f := range d.env.StackOf(v) {
			text := string(d.env.Clean(nil, []byte(strings.TrimSpace(string(format.AppendStack(nil, []format.Frame{f}, l.Mode))))))
			if f.Address == format.UnwindFailure && f.Sym == "" {
				s.Frames = append(s.Frames, Frame{Text: text})
				break
			}
			s.Frames = append(s.Frames, Frame{
				text, f.Address, f.Sym, f.Offset, f.File, f.BuildID, f.FileOffset, f.Source, f.Line, f.Inlined,
			})
		}
		if l.Kind == "ustack" {
			s.PID = binary.NativeEndian.Uint32(b[8:])
		}
		return s
	case "ksym":
		return Symbol{Address: word(), Name: d.text(v)}
	case "usym":
		return Symbol{Address: word(), Name: d.text(v), PID: binary.NativeEndian.Uint32(b[8:])}
	case "inet":
		return Addr(d.text(v))
	case "mac":
		return MAC(b[:6])
	case "timestamp":
		return Timestamp{Time: d.env.Clock(word(), l.Clock), Text: d.text(v)}
	case "username":
		return User{ID: word(), Name: d.text(v)}
	case "cgroup_path":
		c := d.env.CgroupOf(v)
		return Cgroup{word(), c.Path, c.Label, c.Namespace, c.Pod, c.Name}
	case "none":
		return nil
	}
	return d.text(v)
}
