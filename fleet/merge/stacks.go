// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"btc/loader/format"
)

// stacks has the frames of the stacks in a line. In version 2 a stack is a list of indices in a table of frames, in
// version 1 it is text. Both are identified by the text, which is the same on all hosts.
type stacks struct {
	table []format.Frame // nil: version 1
	found map[string]*stack
	room  int // number of bytes that the texts may still take
}

// stack is a stack whose text is known.
type stack struct {
	frames []format.Frame
	mode   string // of printing; "": the default
}

// Limits of stacks: an object's have at most 1024 frames.
const (
	maxFrames    = 1024
	maxFrameText = 64 << 10 // bytes
)

// maxStackText is how many bytes the texts of the stacks of a line may take; tests lower it.
var maxStackText = maxLine

// newStacks reads the table of a line.
func newStacks(table gjson.Result) (*stacks, error) {
	s := &stacks{found: map[string]*stack{}, room: maxStackText}
	if !table.Exists() {
		return s, nil
	}
	if !table.IsArray() {
		return nil, errors.New("its frames are not a list")
	}
	s.table = []format.Frame{}
	var err error
	table.ForEach(func(_, x gjson.Result) bool {
		var f format.Frame
		if f, err = ParseFrame(x); err == nil && len(f.Sym)+len(f.File)+len(f.BuildID)+len(f.Source) > maxFrameText {
			err = errors.New("a frame whose names are too long")
		}
		s.table = append(s.table, f)
		return err == nil
	})
	return s, err
}

// ParseFrame reads a frame of the table of a line of version 2.
func ParseFrame(x gjson.Result) (f format.Frame, err error) {
	if !x.IsObject() {
		return f, errors.New("a frame is not an object")
	}
	get := func(v gjson.Result) (n uint64) {
		if n, err = number(v, false); err != nil {
			err = fmt.Errorf("a frame: %w", err)
		}
		return n
	}
	x.ForEach(func(key, v gjson.Result) bool {
		switch key.Str {
		case "sym":
			f.Sym = Text(v)
		case "file":
			f.File = Text(v)
		case "build_id":
			f.BuildID = Text(v)
		case "source":
			f.Source = Text(v)
		case "offset":
			f.Offset = get(v)
		case "file_offset":
			f.FileOffset = get(v)
		case "address":
			f.Address = get(v)
		case "line":
			f.Line = int(min(get(v), math.MaxInt32))
		case "inlined":
			f.Inlined = v.Bool()
		}
		return err == nil
	})
	return f, err
}

// Text returns a copy of a string that is in base64 if it is not UTF-8.
func Text(v gjson.Result) string {
	if b64 := v.Get("base64"); v.IsObject() && b64.Type == gjson.String {
		b, _ := base64.StdEncoding.DecodeString(b64.Str)
		return string(b)
	}
	return strings.Clone(v.Str)
}

// IsStack reports whether a value is a stack, of version 1 or 2.
func IsStack(v gjson.Result) bool {
	return v.IsObject() && v.Get("frames").IsArray() && (v.Get("id").Exists() || v.Get("addresses").Exists() || strings.HasPrefix(v.Raw, `{"frames"`) || strings.HasPrefix(v.Raw, `{"mode"`))
}

// Frames returns the frames of a stack, whose indices are in a table of n frames.
func Frames(v gjson.Result, n int) ([]uint32, error) {
	list := v.Get("frames")
	if !list.IsArray() {
		return nil, nil
	}
	raw := list.Raw // valid JSON, of which there may be megabytes
	frames := make([]uint32, 0, min(strings.Count(raw, ",")+1, maxFrames))
	for at := 1; ; {
		for at < len(raw) && strings.IndexByte(" \t\r\n,", raw[at]) >= 0 {
			at++
		}
		if at >= len(raw)-1 {
			return frames, nil
		}
		i, from := 0, at
		for ; raw[at] >= '0' && raw[at] <= '9' && i < n; at++ {
			i = 10*i + int(raw[at]-'0')
		}
		switch {
		case at == from || i >= n || strings.IndexByte(" \t\r\n,]", raw[at]) < 0:
			return nil, errors.New("a stack with a frame that is not in the table")
		case len(frames) == maxFrames:
			return nil, fmt.Errorf("a stack of more than %d frames", maxFrames)
		}
		frames = append(frames, uint32(i))
	}
}

// text returns the text of a stack, and keeps its frames.
func (s *stacks) text(v gjson.Result) (string, error) {
	if text := v.Get("text"); text.Type == gjson.String { // version 1
		if s.found[text.Str] == nil {
			s.found[strings.Clone(text.Str)] = &stack{framesOfText(v.Get("frames")), modeOfText(text.Str)}
		}
		return text.Str, nil
	}
	indices, err := Frames(v, len(s.table))
	if err != nil {
		return "", err
	}
	frames := make([]format.Frame, len(indices))
	for i, frame := range indices {
		frames[i] = s.table[frame]
	}
	mode := strings.Clone(v.Get("mode").Str)
	text := string(format.AppendStack(nil, frames, mode))
	if s.room -= len(text); s.room < 0 {
		return "", fmt.Errorf("its stacks take more than %d MiB", maxStackText>>20)
	}
	if s.found[text] == nil {
		for i := range frames {
			if frames[i].Sym != "" && mode != format.ModePerf { // differs between hosts
				frames[i].Address = 0
			}
		}
		s.found[text] = &stack{frames, mode}
	}
	return text, nil
}

// StackOfText returns the frames of a stack of version 1, and the mode in which they were printed.
func StackOfText(v gjson.Result) ([]format.Frame, string) {
	return framesOfText(v.Get("frames")), modeOfText(v.Get("text").Str)
}

// FramesOfText returns the frames of a printed stack.
func FramesOfText(text string) (frames []format.Frame) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && len(frames) < maxFrames {
			frames = append(frames, frameOfText(line))
		}
	}
	return frames
}

// framesOfText reads the lines of a stack of version 1, as format.AppendStack prints them.
func framesOfText(lines gjson.Result) []format.Frame {
	frames := []format.Frame{}
	lines.ForEach(func(_, line gjson.Result) bool {
		frames = append(frames, frameOfText(strings.Clone(line.Str)))
		return len(frames) < maxFrames
	})
	return frames
}

// modeOfText returns the mode in which a stack was printed.
func modeOfText(text string) string {
	switch {
	case strings.HasPrefix(text, "\n\t"):
		return format.ModePerf
	case strings.HasPrefix(text, "\n ") || text == "\n":
		return ""
	case strings.Contains(text, " 0x"):
		return format.ModeBuildID
	}
	return format.ModeRaw
}

func frameOfText(text string) (f format.Frame) {
	hex := func(s string) (n uint64, ok bool) {
		n, err := strconv.ParseUint(strings.TrimPrefix(s, "0x"), 16, 64)
		return n, err == nil
	}
	if text == "<unwind failure>" {
		f.Address = format.UnwindFailure
		return f
	}
	if n, ok := hex(text); ok {
		f.Address = n
		return f
	}
	first, rest, two := strings.Cut(text, " ")
	if at, ok := hex(rest); two && ok && strings.HasPrefix(rest, "0x") { // build ID and offset
		f.BuildID, f.FileOffset = first, at
		return f
	}
	if at, ok := hex(first); two && ok { // perf: address function+offset (file)
		f.Address, text = at, rest
		if i := strings.LastIndex(rest, " ("); i >= 0 && strings.HasSuffix(rest, ")") {
			f.File, text = rest[i+2:len(rest)-1], rest[:i]
		}
		if f.File == "[unknown]" {
			f.File, text = "", ""
		}
	}
	i := strings.LastIndexByte(text, '+')
	if off, err := strconv.ParseUint(text[i+1:], 10, 64); i > 0 && err == nil {
		f.Offset, text = off, text[:i]
	}
	f.Sym = text
	return f
}

// PrintedValue returns the text of the value in a line of print().
func PrintedValue(line []byte) string {
	x := gjson.GetBytes(line, "data")
	if s, err := newStacks(gjson.GetBytes(line, "frames")); err == nil && s.table != nil {
		if b, err := s.resolve(nil, x); err == nil {
			x = gjson.ParseBytes(b)
		}
	}
	if x.IsObject() && x.Get("text").Exists() {
		return Text(x.Get("text"))
	}
	return x.String()
}

// resolve appends a value, with the text of each stack of version 2 in its place.
func (s *stacks) resolve(dst []byte, v gjson.Result) ([]byte, error) {
	if s.table == nil || !strings.Contains(v.Raw, `"frames"`) {
		return append(dst, v.Raw...), nil
	}
	if IsStack(v) {
		text, err := s.text(v)
		return format.AppendQuoted(dst, []byte(text)), err
	}
	if !v.IsObject() && !v.IsArray() {
		return append(dst, v.Raw...), nil
	}
	first := true
	var err error
	dst = append(dst, v.Raw[0])
	v.ForEach(func(key, x gjson.Result) bool {
		if !first {
			dst = append(dst, ", "...)
		}
		if first = false; v.IsObject() {
			dst = append(append(dst, key.Raw...), ": "...)
		}
		dst, err = s.resolve(dst, x)
		return err == nil
	})
	return append(dst, v.Raw[len(v.Raw)-1]), err
}
