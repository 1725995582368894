// SPDX-License-Identifier: Apache-2.0

// Package objload checks whether the running kernel accepts the programs of an object. It loads each
// program separately, so that one error does not hide another, attaches nothing, and closes everything.
//
// It takes an object and returns one Result per program. It could be any loader: from btc's manifest it
// uses only the forms of programs. Like our loader, it removes, on kernels before 5.13, the forms of a
// construct for which the kernel has no helper. Of a program with such forms it also loads, on every
// kernel, the variant for kernels without the helpers.
package objload

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/rlimit"

	"btc/internal/arch"
	"btc/internal/manifest"
	"btc/loader/adapt"
	"btc/loader/rewrite"
)

// Result is the result of loading one program.
type Result struct {
	Object  string `json:"object"`
	Program string `json:"program"`       // "" if the maps of the object could not be created
	Old     bool   `json:"old,omitempty"` // variant for kernels without newer helpers
	OK      bool   `json:"ok"`
	Insns   int    `json:"insns,omitempty"` // instructions processed by the verifier
	// If the program was rejected:
	Error  string   `json:"error,omitempty"`
	At     int      `json:"at,omitempty"`     // rejected instruction, counted in slots of 8 bytes
	Line   string   `json:"line,omitempty"`   // source line of that instruction
	Absent bool     `json:"absent,omitempty"` // uses a type or field that this kernel lacks
	Log    []string `json:"log,omitempty"`    // end of the verifier's log
}

// Prepare allows the process to create maps on kernels that count them as locked memory (before 5.11).
func Prepare() error { return rlimit.RemoveMemlock() }

// Loader loads objects. It caches the kernel's BTF.
type Loader struct {
	cache *btf.Cache
}

// New returns a Loader.
func New() *Loader { return &Loader{cache: btf.NewCache()} }

// Object loads all programs of an object, ordered by name.
func (l *Loader) Object(name string, object []byte, m *manifest.Manifest) []Result {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return []Result{{Object: name, Error: fmt.Sprintf("reading the object: %v", err)}}
	}
	maps, err := ebpf.NewCollection(&ebpf.CollectionSpec{
		Maps: spec.Maps, Variables: spec.Variables, Types: spec.Types, ByteOrder: spec.ByteOrder,
	})
	if err != nil {
		return []Result{{Object: name, Error: fmt.Sprintf("making the maps: %v", err)}}
	}
	defer maps.Close()
	var results []Result
	forms := map[string][]manifest.Form{}
	for i := range m.Programs {
		if c := m.Programs[i].Code; c != nil {
			forms[m.Programs[i].Name] = c.Forms
		}
	}
	for program, s := range spec.Programs {
		whole := s.Instructions
		r := l.program(name, spec, program, maps.Maps)
		insns, at, _ := rewrite.Decide(whole, forms[program], adapt.Forms(arch.HostLabel(), has))
		if !r.OK && at != nil {
			s.Instructions = insns
			r = l.program(name, spec, program, maps.Maps)
			r.moved(at)
		}
		results = append(results, r)
		old, at, _ := rewrite.Decide(whole, forms[program], adapt.Forms(arch.HostLabel(), func(asm.BuiltinFunc) bool { return false }))
		if at == nil || slices.EqualFunc(old, insns, func(a, b asm.Instruction) bool { return a.OpCode == b.OpCode && a.Constant == b.Constant }) {
			continue // no such forms, or already loaded
		}
		s.Instructions = old
		r = l.program(name, spec, program, maps.Maps)
		r.Old = true
		r.moved(at)
		results = append(results, r)
	}
	sort.Slice(results, func(i, j int) bool { return results[i].Program < results[j].Program })
	return results
}

// has reports whether the kernel has a helper.
func has(h asm.BuiltinFunc) bool { return features.HaveProgramHelper(ebpf.Kprobe, h) == nil }

// moved translates the rejected instruction to its index in the object.
func (r *Result) moved(at []int) { r.At = max(slices.Index(at, r.At), 0) }

func (l *Loader) program(object string, spec *ebpf.CollectionSpec, name string, maps map[string]*ebpf.Map) Result {
	r := Result{Object: object, Program: name}
	load := func(level ebpf.LogLevel) (*ebpf.Program, error) {
		c, err := ebpf.NewCollectionWithOptions(&ebpf.CollectionSpec{
			Maps: spec.Maps, Types: spec.Types, ByteOrder: spec.ByteOrder,
			Programs: map[string]*ebpf.ProgramSpec{name: spec.Programs[name].Copy()},
		}, ebpf.CollectionOptions{
			MapReplacements: maps, Cache: l.cache,
			Programs: ebpf.ProgramOptions{LogLevel: level},
		})
		if err != nil {
			return nil, err
		}
		defer c.Close()
		return c.DetachProgram(name), nil
	}
	// Statistics alone are cheap. A rejected program is worth loading again with the full log.
	prog, err := load(ebpf.LogLevelStats)
	if err == nil {
		defer prog.Close()
		r.OK, r.Insns = true, processed(prog.VerifierLog)
		return r
	}
	if refusal := (*ebpf.VerifierError)(nil); errors.As(err, &refusal) && strings.Contains(strings.Join(refusal.Log, " "), "too large") {
		r.refused(err) // the log of a million instructions would be a gigabyte
		return r
	}
	if prog, again := load(ebpf.LogLevelInstruction | ebpf.LogLevelStats); again != nil {
		err = again
	} else {
		prog.Close()
	}
	r.refused(err)
	return r
}

var (
	processedRE   = regexp.MustCompile(`processed (\d+) insns`)
	instructionRE = regexp.MustCompile(`^(\d+): (?:R\d.*; )?\([0-9a-f]{2}\)`)
)

func processed(log string) int {
	m := processedRE.FindStringSubmatch(log)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// isPoison reports whether a line of the verifier's log shows the code that cilium/ebpf writes in place
// of an access to a missing field: a call of the helper 0xbad2310, or a load of that number into r10.
func isPoison(line string) bool {
	return strings.Contains(line, "unknown#195896080") || strings.Contains(line, "r10 = 0xbad2310")
}

const tail = 30 // number of log lines to keep

func (r *Result) refused(err error) {
	r.Error = firstLine(err.Error())
	var refusal *ebpf.VerifierError
	if !errors.As(err, &refusal) {
		return
	}
	for _, line := range refusal.Log {
		if m := instructionRE.FindStringSubmatch(line); m != nil {
			r.At, _ = strconv.Atoi(m[1])
		}
		if text, ok := strings.CutPrefix(line, "; "); ok {
			r.Line = text
		}
		if isPoison(line) {
			r.Absent = true
		}
	}
	r.Log = refusal.Log[max(0, len(refusal.Log)-tail):]
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
