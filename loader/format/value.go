// SPDX-License-Identifier: Apache-2.0

// Package format prints the bytes of an event or a map: single values,
// printf formats, time formats.
//
// It takes bytes with their layout in the manifest and appends text. Env provides what only the host knows (symbol
// names, stacks, clocks).
package format

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"time"

	"btc/internal/manifest"
)

// Env provides information that is not in a value's bytes. If a function is nil, the value prints as a number.
type Env struct {
	Ksym func(addr uint64) string              // kernel symbol's bare name, or the address in hex
	Usym func(addr uint64, tgid uint32) string // as Ksym, for an address of a process
	// Stack returns the frames of a stack of layout l, innermost first; tgid is 0 for one of the kernel.
	Stack  func(l *manifest.Layout, id uint64, tgid uint32) []Frame
	Probe  func(id uint64) string
	User   func(uid uint64) string
	Cgroup func(id uint64, filter string) Cgroup
	Clock  func(ns uint64, clock int) time.Time // wall-clock time of a clock's reading
	// Strftime, if not nil, returns the text of a time instead of Clock, and Local a time in the zone of the run.
	Strftime func(l *manifest.Layout, ns uint64) string
	Local    func(t time.Time) time.Time
	Fail     func(text string) // reports a value that cannot be printed; may be nil
	Trailer  string            // appended to a truncated string
	Escape   bool              // control characters in strings are shown as \xNN
	oneLine  bool              // newlines in strings, too
	Names    bool              // the container's name follows the ID of a cgroup
}

// Value is an object and its layout. The bytes are Layout.Size long, except for a variable field, where they are the
// string's or the buffer's content.
type Value struct {
	Layout *manifest.Layout
	Bytes  []byte
	Var    bool
}

// Append appends the value as print() shows it.
func (e *Env) Append(dst []byte, v Value) []byte {
	l, b := v.Layout, v.Bytes
	if fn := formatters[l.Kind]; fn != nil && (v.Var || len(b) >= l.Size) {
		return fn(e, dst, l, b, v.Var)
	}
	return append(dst, "<no data>"...) // validation keeps this from happening
}

type textFunc = func(e *Env, dst []byte, l *manifest.Layout, b []byte, isVar bool) []byte

// formatters has one row for each layout kind.
var formatters map[string]textFunc

func init() {
	formatters = map[string]textFunc{
		"int":         appendInt,
		"bool":        appendBool,
		"ptr":         appendPtr,
		"enum":        appendEnum,
		"string":      appendString,
		"buffer":      appendBuffer,
		"tuple":       appendTuple,
		"record":      appendRecord,
		"array":       appendArray,
		"kstack":      appendStack,
		"ustack":      appendStack,
		"ksym":        appendKsym,
		"usym":        appendUsym,
		"inet":        appendInet,
		"mac":         appendMac,
		"timestamp":   appendTimestamp,
		"probe":       appendProbe,
		"username":    appendUsername,
		"cgroup_path": appendCgroup,
		"none":        func(_ *Env, dst []byte, _ *manifest.Layout, _ []byte, _ bool) []byte { return append(dst, "null"...) },
	}
}

// Uint reads an integer of 1, 2, 4 or 8 bytes, extended as the layout says.
func Uint(l *manifest.Layout, b []byte) uint64 {
	var v uint64
	switch {
	case l.Size >= 8 && len(b) >= 8:
		return binary.NativeEndian.Uint64(b)
	case l.Size == 4 && len(b) >= 4:
		v = uint64(binary.NativeEndian.Uint32(b))
	case l.Size == 2 && len(b) >= 2:
		v = uint64(binary.NativeEndian.Uint16(b))
	case len(b) >= 1:
		v = uint64(b[0])
	}
	if l.Signed {
		shift := 64 - 8*min(l.Size, 8)
		v = uint64(int64(v<<shift) >> shift)
	}
	return v
}

// AppendInt appends a 64-bit integer in decimal.
func AppendInt(dst []byte, v uint64, signed bool) []byte {
	if signed {
		return strconv.AppendInt(dst, int64(v), 10)
	}
	return strconv.AppendUint(dst, v, 10)
}

func appendHex(dst []byte, v uint64) []byte {
	return strconv.AppendUint(append(dst, "0x"...), v, 16)
}

func appendInt(e *Env, dst []byte, l *manifest.Layout, b []byte, _ bool) []byte {
	dst = AppendInt(dst, Uint(l, b), l.Signed)
	if e.named(l) {
		if label := e.CgroupOf(Value{Layout: l, Bytes: b}).Label; label != "" {
			dst = append(e.Clean(append(dst, " ("...), []byte(label)), ')')
		}
	}
	return dst
}

// named reports whether the name of a container follows an integer.
func (e *Env) named(l *manifest.Layout) bool { return e.Names && l.IDOf != "" && e.Cgroup != nil }

func appendBool(_ *Env, dst []byte, l *manifest.Layout, b []byte, _ bool) []byte {
	return strconv.AppendBool(dst, Uint(l, b) != 0)
}

func appendPtr(_ *Env, dst []byte, l *manifest.Layout, b []byte, _ bool) []byte {
	return appendHex(dst, Uint(l, b))
}

func appendEnum(e *Env, dst []byte, l *manifest.Layout, b []byte, _ bool) []byte {
	n := len(dst)
	dst = AppendInt(dst, Uint(l, b), l.Signed)
	if name, ok := l.Enum[string(dst[n:])]; ok {
		return e.Clean(dst[:n], []byte(name))
	}
	return dst
}

// appendString appends a string up to the first NUL. A string that fills its storage was truncated, unless the layout
// says that it is complete, and gets the trailer.
func appendString(e *Env, dst []byte, l *manifest.Layout, b []byte, isVar bool) []byte {
	if !isVar {
		b = b[:l.Size]
	}
	n := bytes.IndexByte(b, 0)
	if n < 0 {
		n = len(b)
	}
	dst = e.Clean(dst, b[:n])
	if l.Size > 0 && l.Count == 0 && (n >= l.Size || isVar && len(b) >= l.Size) {
		dst = append(dst, e.Trailer...)
	}
	return dst
}

// Buffer returns the bytes of a buffer.
func (v Value) Buffer() []byte { return bufferBytes(v.Bytes, v.Var) }

// Field returns field i of a tuple or record.
func (v Value) Field(i int) Value { return field(&v.Layout.Fields[i], v.Bytes) }

// Item returns element i of an array.
func (v Value) Item(i int) Value {
	size := v.Layout.Elem.Size
	return Value{Layout: v.Layout.Elem, Bytes: v.Bytes[i*size : (i+1)*size]}
}

// bufferBytes returns the bytes of a buffer value.
func bufferBytes(b []byte, isVar bool) []byte {
	if isVar {
		return b
	}
	n := binary.NativeEndian.Uint32(b)
	b = b[4:]
	return b[:min(uint64(n), uint64(len(b)))]
}

func appendBuffer(_ *Env, dst []byte, _ *manifest.Layout, b []byte, isVar bool) []byte {
	return appendEscaped(dst, bufferBytes(b, isVar), true)
}

const hexDigits = "0123456789abcdef"

// appendEscaped appends bytes as \xNN; printable ASCII as it is when keep is set.
func appendEscaped(dst, b []byte, keep bool) []byte {
	for _, c := range b {
		if keep && c >= 32 && c <= 126 {
			dst = append(dst, c)
		} else {
			dst = append(dst, '\\', 'x', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return dst
}

func field(f *manifest.Field, b []byte) Value {
	if f.BitSize > 0 {
		return bitfield(f, b[f.Off:f.Off+f.Layout.Size])
	}
	return Value{Layout: &f.Layout, Bytes: b[f.Off : f.Off+f.Layout.Size]}
}

// bitfield extracts a field's bits from its integer, ignoring its sign, as bpftrace does.
func bitfield(f *manifest.Field, b []byte) Value {
	plain := f.Layout
	plain.Signed = false
	v := Uint(&plain, b) << (64 - f.BitOff - f.BitSize) >> (64 - f.BitSize)
	plain.Signed, plain.Size = f.Layout.Signed, 8
	return Value{Layout: &plain, Bytes: binary.NativeEndian.AppendUint64(nil, v)}
}

func appendTuple(e *Env, dst []byte, l *manifest.Layout, b []byte, _ bool) []byte {
	dst = append(dst, '(')
	for i := range l.Fields {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = e.Append(dst, field(&l.Fields[i], b))
	}
	return append(dst, ')')
}

func appendRecord(e *Env, dst []byte, l *manifest.Layout, b []byte, _ bool) []byte {
	if len(l.Fields) == 0 {
		return append(dst, "{}"...)
	}
	for i := range l.Fields {
		dst = append(dst, [2]string{"{ .", ", ."}[min(i, 1)]...)
		dst = append(e.Clean(dst, []byte(l.Fields[i].Name)), " = "...)
		dst = e.Append(dst, field(&l.Fields[i], b))
	}
	return append(dst, " }"...)
}

func appendArray(e *Env, dst []byte, l *manifest.Layout, b []byte, _ bool) []byte {
	dst = append(dst, '[')
	for i := range l.Count {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = e.Append(dst, Value{Layout: l.Elem, Bytes: b[i*l.Elem.Size : (i+1)*l.Elem.Size]})
	}
	return append(dst, ']')
}

func appendStack(e *Env, dst []byte, l *manifest.Layout, b []byte, _ bool) []byte {
	if e.Stack == nil {
		return appendHex(dst, binary.NativeEndian.Uint64(b))
	}
	text := AppendStack(nil, e.StackOf(Value{Layout: l, Bytes: b}), l.Mode)
	return e.lines().Clean(dst, text)
}

// StackOf returns the frames of a stack, innermost first.
func (e *Env) StackOf(v Value) []Frame {
	if e.Stack == nil {
		return nil
	}
	tgid := uint32(0)
	if v.Layout.Kind == "ustack" {
		tgid = binary.NativeEndian.Uint32(v.Bytes[8:])
	}
	return e.Stack(v.Layout, binary.NativeEndian.Uint64(v.Bytes), tgid)
}

func appendKsym(e *Env, dst []byte, _ *manifest.Layout, b []byte, _ bool) []byte {
	addr := binary.NativeEndian.Uint64(b)
	if e.Ksym == nil {
		return appendHex(dst, addr)
	}
	return e.Clean(dst, []byte(e.Ksym(addr)))
}

func appendUsym(e *Env, dst []byte, _ *manifest.Layout, b []byte, _ bool) []byte {
	addr := binary.NativeEndian.Uint64(b)
	if e.Usym == nil {
		return appendHex(dst, addr)
	}
	return e.Clean(dst, []byte(e.Usym(addr, binary.NativeEndian.Uint32(b[8:]))))
}

func appendMac(_ *Env, dst []byte, _ *manifest.Layout, b []byte, _ bool) []byte {
	const upper = "0123456789ABCDEF"
	for i, c := range b[:6] {
		if i > 0 {
			dst = append(dst, ':')
		}
		dst = append(dst, upper[c>>4], upper[c&15])
	}
	return dst
}

func appendTimestamp(e *Env, dst []byte, l *manifest.Layout, b []byte, _ bool) []byte {
	ns := binary.NativeEndian.Uint64(b)
	if e.Strftime != nil {
		return append(dst, e.Strftime(l, ns)...)
	}
	if e.Clock == nil {
		return strconv.AppendUint(dst, ns, 10)
	}
	from := len(dst)
	if dst = Strftime(dst, l.Format, e.Clock(ns, l.Clock)); len(dst) == from {
		if e.Fail != nil {
			e.Fail("strftime returned 0")
		}
		return append(dst, "(?)"...) // as in bpftrace, where strftime fails
	}
	return dst
}

func appendProbe(e *Env, dst []byte, _ *manifest.Layout, b []byte, _ bool) []byte {
	return appendNamed(e, dst, e.Probe, b)
}

func appendUsername(e *Env, dst []byte, _ *manifest.Layout, b []byte, _ bool) []byte {
	return appendNamed(e, dst, e.User, b)
}

func appendCgroup(e *Env, dst []byte, l *manifest.Layout, b []byte, _ bool) []byte {
	if e.Cgroup == nil {
		return appendNamed(e, dst, nil, b)
	}
	return e.Clean(dst, []byte(e.Cgroup(binary.NativeEndian.Uint64(b), l.Format).String()))
}

// Cgroup describes the cgroup with an ID on this host.
type Cgroup struct {
	// Path is "hierarchy:path" for each requested hierarchy, separated by commas.
	Path string
	Container
}

// Container is the container or pod that a cgroup belongs to; the zero value is none.
type Container struct {
	// Label is its display name: "web", "shop/web-0/nginx", "kind-worker > shop/web-0/nginx".
	Label string
	// Namespace and Pod are those of Kubernetes. A pod's own cgroup has no Name.
	Namespace, Pod, Name string
}

// String returns the path, and the container's name after it: "unified:/x (web)".
func (c Cgroup) String() string {
	if c.Label == "" {
		return c.Path
	}
	return c.Path + " (" + c.Label + ")"
}

// ContainerNames are the names of the fields of a container in formats other than text, such as
// JSON keys and metric labels.
var ContainerNames = []string{"namespace", "pod", "container"}

// Values returns the values of ContainerNames, "" if there is none.
func (c *Container) Values() []string { return []string{c.Namespace, c.Pod, c.Name} }

// IsCgroup reports whether a value is a cgroup, by its ID: cgroup_path(), or the builtin cgroup in a key.
func IsCgroup(l *manifest.Layout) bool { return l.Kind == "cgroup_path" || l.IDOf != "" }

// CgroupOf returns the cgroup of a value for which IsCgroup is true.
func (e *Env) CgroupOf(v Value) Cgroup {
	if len(v.Bytes) < 8 {
		return Cgroup{Path: "<no data>"}
	}
	if e.Cgroup == nil {
		return Cgroup{Path: strconv.FormatUint(binary.NativeEndian.Uint64(v.Bytes), 10)}
	}
	return e.Cgroup(binary.NativeEndian.Uint64(v.Bytes), v.Layout.Format)
}

func appendNamed(e *Env, dst []byte, name func(uint64) string, b []byte) []byte {
	id := binary.NativeEndian.Uint64(b)
	if name == nil {
		return strconv.AppendUint(dst, id, 10)
	}
	return e.Clean(dst, []byte(name(id)))
}
