// SPDX-License-Identifier: Apache-2.0

package format

import (
	"encoding/base64"
	"encoding/binary"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf8"

	"btc/internal/manifest"
)

// JSON writes values as JSON. Without Full it writes bpftrace's form, which is lossy (docs/json.md); with Full it
// writes all information.
type JSON struct {
	*Env
	Full bool
	// Frames returns the addresses of a stack, for Full without Table.
	Frames func(l *manifest.Layout, id uint64) []uint64
	// Table, if not nil, receives the frames of stacks: version 2 of the form with all information.
	Table *FrameTable
	// AllNames writes the names of all cgroups, not only those that are printed.
	AllNames bool
	// Written receives text that need not be in memory any longer, and returns the buffer to continue with; may be nil.
	Written func(dst []byte) []byte
}

// Pass hands over the text so far, if it need not be in memory at once.
func (j *JSON) Pass(dst []byte) []byte {
	if j.Written == nil {
		return dst
	}
	return j.Written(dst)
}

// Append appends a value.
func (j *JSON) Append(dst []byte, v Value) []byte {
	l, b := v.Layout, v.Bytes
	if formatters[l.Kind] == nil || !v.Var && len(b) < l.Size {
		return append(dst, "null"...) // cannot happen in a validated manifest
	}
	switch l.Kind {
	case "int", "ptr":
		if j.Full && (j.named(l) || j.AllNames && l.IDOf != "" && j.Cgroup != nil && j.CgroupOf(v).Label != "") {
			return j.full(dst, v)
		}
		return j.Int(dst, Uint(l, b), l.Signed)
	case "bool":
		return strconv.AppendBool(dst, Uint(l, b) != 0)
	case "none":
		return append(dst, "null"...)
	case "string":
		return j.text(dst, v)
	case "tuple":
		return j.list(dst, len(l.Fields),
			func(dst []byte, i int) []byte { return j.Append(dst, field(&l.Fields[i], b)) })
	case "array":
		return j.list(dst, l.Count, func(dst []byte, i int) []byte {
			return j.Append(dst, Value{Layout: l.Elem, Bytes: b[i*l.Elem.Size : (i+1)*l.Elem.Size]})
		})
	case "record":
		return j.record(dst, l, b)
	case "buffer":
		return j.buffer(dst, bufferBytes(b, v.Var))
	case "enum":
		if !j.Full {
			return j.Int(dst, Uint(l, b), l.Signed)
		}
	}
	if j.Full {
		return j.full(dst, v)
	}
	return AppendQuoted(dst, j.Env.Append(nil, v))
}

// Int appends an integer. Like bpftrace, it writes those that a 64-bit float cannot
// represent as strings.
func (j *JSON) Int(dst []byte, v uint64, signed bool) []byte {
	size := v
	if signed && int64(v) < 0 {
		size = -v
	}
	if j.Full || bits.Len64(size)-bits.TrailingZeros64(size|1<<63) <= 53 {
		return AppendInt(dst, v, signed)
	}
	return append(AppendInt(append(dst, '"'), v, signed), '"')
}

// text appends a string; Full distinguishes invalid UTF-8 and truncated strings.
func (j *JSON) text(dst []byte, v Value) []byte {
	if !j.Full {
		return AppendQuoted(dst, j.Env.Append(nil, v))
	}
	plain := &Env{}
	text := plain.Append(nil, v)
	plain.Trailer = "."
	cut := len(plain.Append(nil, v)) != len(text)
	switch {
	case cut && utf8.Valid(text):
		return append(AppendQuoted(append(dst, `{"text": `...), text), `, "truncated": true}`...)
	case cut:
		return append(appendBase64(append(dst, `{"base64": `...), text), `, "truncated": true}`...)
	case !utf8.Valid(text):
		return append(appendBase64(append(dst, `{"base64": `...), text), '}')
	}
	return AppendQuoted(dst, text)
}

func appendBase64(dst, b []byte) []byte {
	return append(base64.StdEncoding.AppendEncode(append(dst, '"'), b), '"')
}

func (j *JSON) list(dst []byte, n int, item func(dst []byte, i int) []byte) []byte {
	dst = append(dst, '[')
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = item(dst, i)
	}
	return append(dst, ']')
}

func (j *JSON) record(dst []byte, l *manifest.Layout, b []byte) []byte {
	dst = append(dst, '{')
	for i := range l.Fields {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = append(AppendQuoted(dst, []byte(l.Fields[i].Name)), ": "...)
		dst = j.Append(dst, field(&l.Fields[i], b))
	}
	return append(dst, '}')
}

// buffer: bpftrace lists signed bytes.
func (j *JSON) buffer(dst, b []byte) []byte {
	if j.Full {
		return append(appendBase64(append(dst, `{"base64": `...), b), '}')
	}
	return j.list(dst, len(b), func(dst []byte, i int) []byte { return strconv.AppendInt(dst, int64(int8(b[i])), 10) })
}

// numberNames are the members in which Full writes the number next to a text.
var numberNames = map[string]string{
	"enum": "value", "timestamp": "ns", "username": "uid", "cgroup_path": "id", "ksym": "address", "usym": "address",
}

// full appends a value with a number and a text as an object of both.
func (j *JSON) full(dst []byte, v Value) []byte {
	if j.Table != nil && (v.Layout.Kind == "kstack" || v.Layout.Kind == "ustack") {
		return j.framed(dst, v)
	}
	text := j.Env.Append(nil, v)
	if v.Layout.Kind == "kstack" || v.Layout.Kind == "ustack" {
		return j.stack(dst, v, text)
	}
	name, ok := numberNames[v.Layout.Kind]
	if v.Layout.IDOf != "" || j.Table != nil && v.Layout.Kind == "probe" {
		name, ok = "id", true
	}
	if !ok {
		return AppendQuoted(dst, text)
	}
	n, signed := binary.NativeEndian.Uint64, false
	word := uint64(0)
	if v.Layout.Kind == "enum" {
		word, signed = Uint(v.Layout, v.Bytes), v.Layout.Signed
	} else {
		word = n(v.Bytes)
	}
	dst = append(AppendQuoted(append(dst, '{'), []byte(name)), ": "...)
	dst = AppendInt(dst, word, signed)
	if v.Layout.Kind == "usym" {
		dst = strconv.AppendUint(append(dst, `, "pid": `...), uint64(binary.NativeEndian.Uint32(v.Bytes[8:])), 10)
	}
	dst = j.name(append(dst, `, "text": `...), text)
	if IsCgroup(v.Layout) {
		c := j.Env.CgroupOf(v)
		if j.Table != nil && c.Label != "" {
			dst = AppendQuoted(append(dst, `, "label": `...), []byte(c.Label))
		}
		for i, value := range c.Values() {
			if value != "" {
				dst = append(AppendQuoted(append(dst, ", "...), []byte(ContainerNames[i])), ": "...)
				dst = AppendQuoted(dst, []byte(value))
			}
		}
	}
	return append(dst, '}')
}

// name appends a name of the host. In version 2 it is exact even if it is not UTF-8.
func (j *JSON) name(dst, text []byte) []byte {
	if j.Table != nil && !utf8.Valid(text) {
		return append(appendBase64(append(dst, `{"base64": `...), text), '}')
	}
	return AppendQuoted(dst, text)
}

// FrameTable is the frames of the stacks of a line of version 2, each of them once.
type FrameTable struct {
	index map[Frame]int
	text  []byte
}

// framed appends a stack as the indices of its frames in the table.
func (j *JSON) framed(dst []byte, v Value) []byte {
	dst = strconv.AppendUint(append(dst, `{"id": `...), binary.NativeEndian.Uint64(v.Bytes), 10)
	if v.Layout.Kind == "ustack" {
		dst = strconv.AppendUint(append(dst, `, "pid": `...), uint64(binary.NativeEndian.Uint32(v.Bytes[8:])), 10)
	}
	return j.indices(append(dst, `, `...), j.StackOf(v), v.Layout.Mode)
}

// AppendStack appends a stack of which only the frames are known.
func (j *JSON) AppendStack(dst []byte, frames []Frame, mode string) []byte {
	return j.indices(append(dst, '{'), frames, mode)
}

func (j *JSON) indices(dst []byte, frames []Frame, mode string) []byte {
	if mode != "" && mode != ModeBpftrace {
		dst = append(AppendQuoted(append(dst, `"mode": `...), []byte(mode)), ", "...)
	}
	return append(j.AppendIndices(append(dst, `"frames": `...), frames), '}')
}

// AppendIndices appends the list of the indices of frames in the table.
func (j *JSON) AppendIndices(dst []byte, frames []Frame) []byte {
	return j.list(dst, len(frames), func(dst []byte, i int) []byte {
		return strconv.AppendInt(dst, int64(j.frame(&frames[i])), 10)
	})
}

// frame returns the index of a frame in the table.
func (j *JSON) frame(f *Frame) int {
	t := j.Table
	i, ok := t.index[*f]
	if ok {
		return i
	}
	if t.index == nil {
		t.index = map[Frame]int{}
	}
	i = len(t.index)
	t.index[*f] = i
	if i > 0 {
		t.text = append(t.text, ", "...)
	}
	dst := append(t.text, '{')
	for _, m := range []struct{ name, text string }{{"sym", f.Sym}, {"file", f.File}, {"build_id", f.BuildID}, {"source", f.Source}} {
		if m.text != "" {
			dst = append(j.name(append(append(append(dst, '"'), m.name...), `": `...), []byte(m.text)), ", "...)
		}
	}
	for _, m := range []struct {
		name string
		n    uint64
		have bool
	}{{"offset", f.Offset, f.Sym != ""}, {"file_offset", f.FileOffset, f.BuildID != ""}, {"line", uint64(f.Line), f.Line > 0}} {
		if m.have {
			dst = append(strconv.AppendUint(append(append(append(dst, '"'), m.name...), `": `...), m.n, 10), ", "...)
		}
	}
	if f.Inlined {
		dst = append(dst, `"inlined": true, `...)
	}
	t.text = append(strconv.AppendUint(append(dst, `"address": `...), f.Address, 10), '}')
	return i
}

// AppendFrames appends the table as a member of a line, if there are stacks in the line, and empties it.
func (j *JSON) AppendFrames(dst []byte) []byte {
	if j.Table == nil || len(j.Table.index) == 0 {
		return dst
	}
	dst = append(append(append(dst, `, "frames": [`...), j.Table.text...), ']')
	*j.Table = FrameTable{}
	return dst
}

// stack appends a stack's addresses and the lines of its text.
func (j *JSON) stack(dst []byte, v Value, text []byte) []byte {
	dst = append(dst, `{"addresses": `...)
	var frames []uint64
	if j.Frames != nil {
		frames = j.Frames(v.Layout, binary.NativeEndian.Uint64(v.Bytes))
	}
	dst = j.list(dst, len(frames), func(dst []byte, i int) []byte { return strconv.AppendUint(dst, frames[i], 10) })
	if v.Layout.Kind == "ustack" {
		dst = strconv.AppendUint(append(dst, `, "pid": `...), uint64(binary.NativeEndian.Uint32(v.Bytes[8:])), 10)
	}
	dst = append(dst, `, "frames": `...)
	lines := strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
	dst = j.list(dst, len(lines),
		func(dst []byte, i int) []byte { return AppendQuoted(dst, []byte(strings.TrimSpace(lines[i]))) })
	return append(AppendQuoted(append(dst, `, "text": `...), text), '}')
}

// AppendQuoted appends text as a JSON string. Invalid UTF-8 becomes the replacement
// character.
func AppendQuoted(dst, text []byte) []byte {
	dst = append(dst, '"')
	for len(text) > 0 {
		c := text[0]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRune(text)
			dst = utf8.AppendRune(dst, r)
			text = text[n:]
			continue
		}
		switch short := "\"\\\n\r\t"; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == short[2]:
			dst = append(dst, `\n`...)
		case c == short[3]:
			dst = append(dst, `\r`...)
		case c == short[4]:
			dst = append(dst, `\t`...)
		case c < ' ':
			dst = appendUnicode(dst, c)
		default:
			dst = append(dst, c)
		}
		text = text[1:]
	}
	return append(dst, '"')
}

// KeyText returns a map's key in bpftrace's JSON: the text of the parts without spaces between them.
func (j *JSON) KeyText(dst []byte, l *manifest.Layout, b []byte, outer bool) []byte {
	switch l.Kind {
	case "tuple":
		if !outer {
			dst = append(dst, '(')
		}
		for i := range l.Fields {
			if i > 0 {
				dst = append(dst, ',')
			}
			f := &l.Fields[i]
			dst = j.KeyText(dst, &f.Layout, b[f.Off:f.Off+f.Layout.Size], false)
		}
		if !outer {
			dst = append(dst, ')')
		}
		return dst
	case "string", "buffer":
		return j.Env.Append(dst, Value{Layout: l, Bytes: b})
	}
	for _, c := range j.Env.Append(nil, Value{Layout: l, Bytes: b}) {
		if c != ' ' {
			dst = append(dst, c)
		}
	}
	return dst
}
