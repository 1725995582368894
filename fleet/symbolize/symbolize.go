// SPDX-License-Identifier: Apache-2.0

// Package symbolize adds names, inlined functions and lines to the frames of a recorded run, by the debug information of
// the files whose build ids the recording has. It works on any system: nothing of this machine is used but the directories
// that it is given.
//
// A recording comes in and goes out line by line. Both it and the files are hostile input.
package symbolize

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"btc/fleet/merge"
	"btc/internal/manifest"
	"btc/loader/format"
	"btc/loader/output"
)

// Counts are the user and kernel frames of a recording, each line's frames counted once.
type Counts struct {
	Frames  int // that have a build id, or had no name
	Named   int // of these, those that have a name now
	Unknown int // of these, those without a build id
}

// maxHead bounds the first line, as in a replay.
const maxHead = 128 << 20

// Run writes a recording with what the files say about its frames. name is the recording's name in errors; cut reports that it
// ends within a line, which is left out.
func Run(name string, in io.Reader, out io.Writer, files *Files) (counts Counts, cut bool, err error) {
	w := &rewriter{out: out, files: files, max: maxHead}
	n := 0
	cut, err = merge.Lines(in, func() int { return w.max }, func(line []byte) error {
		n++
		return w.line(line)
	})
	switch {
	case w.failed != nil:
		return w.Counts, cut, w.failed
	case err == nil && !w.head:
		err = merge.ErrNotJSON2
	}
	if err != nil {
		err = fmt.Errorf("%s:%d: %w", name, max(n, 1), err)
	}
	return w.Counts, cut, err
}

// rewriter rewrites the lines of a recording.
type rewriter struct {
	Counts
	out    io.Writer
	files  *Files
	max    int // bytes of a line
	head   bool
	failed error // of writing

	table  []format.Frame // of the line
	values *format.JSON   // has the new table
	known  map[query][]format.Frame
}

// query is a frame and how its address is meant.
type query struct {
	frame   int
	returns bool // to it a function returns: the call is before it
}

func (w *rewriter) line(text []byte) error {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return nil
	}
	if !gjson.ValidBytes(text) {
		return errors.New("not a line of JSON")
	}
	line := gjson.ParseBytes(text)
	kind := line.Get("type").Str
	if kind == "" || !line.IsObject() {
		return merge.ErrNotJSON2
	}
	if kind == "head" {
		if v := line.Get("version"); v.Raw != strconv.Itoa(output.Version) {
			return fmt.Errorf("json2 of version %.20s: this btc symbolizes version %d", v.Raw, output.Version)
		}
		m, err := manifest.Parse([]byte(line.Get("manifest").Raw))
		if err != nil {
			return fmt.Errorf("its manifest: %w", err)
		}
		w.head, w.max = true, max(merge.Expect(m).MaxLine(), maxHead)
		return w.write(text)
	}
	if !w.head && kind != "host" && kind != "alive" {
		return fmt.Errorf("%w of version %d: the first line does not describe the run", merge.ErrNotJSON2, output.Version)
	}
	frames := line.Get("frames")
	if !frames.IsArray() {
		return w.write(text)
	}
	w.table, w.values, w.known = w.table[:0], &format.JSON{Table: &format.FrameTable{}}, map[query][]format.Frame{}
	var err error
	frames.ForEach(func(_, x gjson.Result) bool {
		var f format.Frame
		f, err = merge.ParseFrame(x)
		w.table = append(w.table, f)
		return err == nil
	})
	if err != nil {
		return err
	}
	dst, err := w.object(make([]byte, 0, len(text)+len(text)/2), line, true)
	if err != nil {
		return err
	}
	return w.write(dst)
}

func (w *rewriter) write(line []byte) error {
	if _, w.failed = w.out.Write(append(line, '\n')); w.failed != nil {
		return w.failed
	}
	return nil
}

// object appends an object or a list, in which stacks are rewritten. The table of the frames of a line is at its end.
func (w *rewriter) object(dst []byte, v gjson.Result, line bool) ([]byte, error) {
	if !strings.Contains(v.Raw, `"frames"`) || !v.IsObject() && !v.IsArray() {
		return append(dst, v.Raw...), nil
	}
	isStack := !line && merge.IsStack(v)
	mode := v.Get("mode").Str
	first := true
	var err error
	dst = append(dst, v.Raw[0])
	v.ForEach(func(key, x gjson.Result) bool {
		frames := v.IsObject() && key.Str == "frames"
		if frames && line {
			return true
		}
		if !first {
			dst = append(dst, ", "...)
		}
		if first = false; v.IsObject() {
			dst = append(append(dst, key.Raw...), ": "...)
		}
		if frames && isStack {
			var stack []format.Frame
			if stack, err = w.stack(v, mode); err == nil {
				dst = w.values.AppendIndices(dst, stack)
			}
			return err == nil
		}
		dst, err = w.object(dst, x, false)
		return err == nil
	})
	if line {
		dst = w.values.AppendFrames(dst)
	}
	return append(dst, v.Raw[len(v.Raw)-1]), err
}

// maxFrames bounds a stack with inlined functions: readers accept no more.
const maxFrames = 1024

// stack returns the frames of a stack, with those of inlined functions.
func (w *rewriter) stack(v gjson.Result, mode string) ([]format.Frame, error) {
	indices, err := merge.Frames(v, len(w.table))
	if err != nil {
		return nil, err
	}
	plain := mode == format.ModeRaw || mode == format.ModeBuildID // shown without names
	out := make([]format.Frame, 0, len(indices))
	at := 0
	for i, index := range indices {
		f := &w.table[index]
		if plain || f.Inlined || f.Line > 0 { // or from an earlier run of this program
			out = append(out, *f)
		} else {
			more := w.frame(query{int(index), at > 0})
			if len(more)+len(out)+len(indices)-1-i > maxFrames {
				more = more[len(more)-1:]
			}
			out = append(out, more...)
		}
		if !f.Inlined {
			at++
		}
	}
	return out, nil
}

// frame returns a frame, preceded by those of functions that were inlined into it.
func (w *rewriter) frame(q query) []format.Frame {
	if known, ok := w.known[q]; ok {
		return known
	}
	f := w.table[q.frame]
	frames := []format.Frame{f}
	if f.Address != format.UnwindFailure && (f.BuildID != "" || f.Sym == "") {
		w.Frames++
		if f.BuildID == "" {
			w.Unknown++
		} else {
			frames = w.files.frames(&f, q.returns)
		}
		if frames[len(frames)-1].Sym != "" {
			w.Named++
		}
	}
	w.known[q] = frames
	return frames
}
