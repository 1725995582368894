// SPDX-License-Identifier: Apache-2.0

// Package profile is the model of a profile: stacks with values. It writes profiles in the forms that other tools read:
// folded stacks, one line each, and pprof.
//
// btrun makes a profile from a map with a stack in its key, and btc from a recording or from a pprof file. The package
// knows nothing about maps and symbols, and it reads and writes no files.
package profile

import (
	"sort"
	"strconv"
	"strings"
)

// Profile is a set of stacks with values.
type Profile struct {
	// Types describe the values of a sample. The last one is what a picture shows.
	Types    []Type
	Labels   []string // names of the labels of a sample
	Frames   []Frame  // each occurs once; samples refer to them by index
	Mappings []Mapping
	Samples  []Sample
	// Start is the beginning of the profile, in nanoseconds since 1970, and Duration its length in nanoseconds;
	// 0: unknown.
	Start, Duration uint64
	// Period is the time between two samples of a CPU, in nanoseconds; 0: samples are not taken at an interval.
	Period  uint64
	Comment string // where the profile comes from, for readers
}

// Type is a kind of value: samples in count, time in nanoseconds.
type Type struct{ Name, Unit string }

// Frame is a frame of a stack.
type Frame struct {
	Name string // the function; "": unknown
	// Address is the offset in the file of the mapping, which is the same in every process, or, if the mapping has no
	// build ID, the address in memory.
	Address uint64
	Mapping int    // index in Profile.Mappings plus 1; 0: unknown
	File    string // of the source; "": unknown
	Line    int
	Kernel  bool
	// Inlined means that the compiler inlined the function into the next outer frame.
	Inlined bool
}

// Mapping is a file with code, or the kernel ("[kernel.kallsyms]") or one of its modules ("[ext4]").
type Mapping struct {
	File, BuildID string
}

// Sample is a stack with its values.
type Sample struct {
	Frames []uint32 // outermost first: the user's, then the kernel's
	Labels []string // for each of Profile.Labels; "": none
	Values []int64  // for each of Profile.Types
}

// Builder makes a profile in which each frame and each mapping occurs once.
type Builder struct {
	Profile
	frames   map[Frame]int // indices plus 1
	mappings map[Mapping]int
}

// Frame returns the index of a frame of a file with a build ID; "": unknown.
func (b *Builder) Frame(f *Frame, file, buildID string) uint32 {
	if b.frames == nil {
		b.frames, b.mappings = map[Frame]int{}, map[Mapping]int{}
	}
	if file != "" {
		m := Mapping{file, buildID}
		if f.Mapping = b.mappings[m]; f.Mapping == 0 {
			b.Mappings = append(b.Mappings, m)
			f.Mapping = len(b.Mappings)
			b.mappings[m] = f.Mapping
		}
	}
	i := b.frames[*f]
	if i == 0 {
		b.Frames = append(b.Frames, *f)
		i = len(b.Frames)
		b.frames[*f] = i
	}
	return uint32(i - 1)
}

// NoStack is the name of a frame in place of a stack that is empty or was lost.
const NoStack = "[unknown]"

// Show returns the name of a frame in pictures and folded stacks: the function, or the file that an unknown function
// is in. A name does not depend on the address, so that one function is one box.
func (p *Profile) Show(f *Frame) string {
	if f.Name != "" {
		return f.Name
	}
	if f.Mapping > 0 {
		file := p.Mappings[f.Mapping-1].File
		if file = file[strings.LastIndexByte(file, '/')+1:]; strings.HasPrefix(file, "[") {
			return file
		} else if file != "" {
			return "[" + file + "]"
		}
	}
	return NoStack
}

// Total returns the sum of the values of type i.
func (p *Profile) Total(i int) (sum int64) {
	for j := range p.Samples {
		sum += p.Samples[j].Values[i]
	}
	return sum
}

// The suffixes of functions of the kernel and of inlined functions in folded stacks, from which flamegraph.pl
// (--color=java) and other tools choose the colors.
const (
	KernelSuffix  = "_[k]"
	InlinedSuffix = "_[i]"
)

// Folded passes the lines of the profile to write: the labels and frames of a stack from the outermost on, separated
// by ";", a space, and the value of the last type. Stacks that look alike are one line; lines are in order of their
// stacks. It returns the number of samples that are left out because the value is negative, which the form cannot
// express. Samples with the value 0 have no line.
func (p *Profile) Folded(write func(line []byte)) (negative int) {
	names := make([]string, len(p.Frames))
	for i := range p.Frames {
		f := &p.Frames[i]
		name := appendName([]byte{';'}, p.Show(f))
		switch {
		case f.Inlined:
			name = append(name, InlinedSuffix...)
		case f.Kernel:
			name = append(name, KernelSuffix...)
		}
		names[i] = string(name)
	}
	type folded struct {
		stack string
		sum   int64
	}
	index := map[string]int{} // in stacks
	var stacks []folded
	var line []byte
	for i := range p.Samples {
		s := &p.Samples[i]
		value := s.Values[len(s.Values)-1]
		if value < 0 {
			negative++
		}
		if value <= 0 {
			continue
		}
		line = line[:0]
		for _, label := range s.Labels {
			if label != "" {
				line = appendName(append(line, ';'), label)
			}
		}
		for _, f := range s.Frames {
			line = append(line, names[f]...)
		}
		if len(line) == 0 {
			line = append(line, ";"+NoStack...)
		}
		j, ok := index[string(line)]
		if !ok {
			j = len(stacks)
			stacks = append(stacks, folded{string(line), 0})
			index[stacks[j].stack] = j
		}
		stacks[j].sum += value
	}
	sort.Slice(stacks, func(i, j int) bool { return stacks[i].stack < stacks[j].stack })
	for i := range stacks {
		line = append(append(line[:0], stacks[i].stack[1:]...), ' ')
		write(append(strconv.AppendInt(line, stacks[i].sum, 10), '\n'))
	}
	return negative
}

// appendName appends a name so that readers of folded stacks find the same frames and the same value whatever it
// contains: as in stackcollapse-perf.pl, ";" becomes ":" and a space "_". Characters that cannot be printed are
// escaped as in Go (\x1b, \u202e), and so are quotes and backslashes.
func appendName(dst []byte, name string) []byte {
	from := len(dst)
	dst = strconv.AppendQuote(dst, name)
	copy(dst[from:], dst[from+1:])
	dst = dst[:len(dst)-2]
	for i := from; i < len(dst); i++ {
		switch dst[i] {
		case ';':
			dst[i] = ':'
		case ' ':
			dst[i] = '_'
		}
	}
	return dst
}
