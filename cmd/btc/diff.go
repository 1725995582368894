// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"btc/internal/option"
	"btc/internal/probe"
	"btc/targets/kernel"
)

// targetDiffCommand prints the differences between the names in two targets: system calls, tracepoints with their
// fields, structs with their members, functions. Offsets are ignored, because they are relocated. The status is as
// diff's: 1 when something differs, 2 when the comparison was not possible.
func targetDiffCommand() *command {
	var summary bool
	return &command{
		name: "diff", operands: "A B [PATTERN]", summary: "compare the names in two targets", files: []string{"target"}, wrongUse: 2,
		about:    "A and B are target files, architectures with an embedded target, or host.",
		status:   "0 if nothing differs, 1 if something does, 2 if the comparison was not possible.",
		examples: []example{{"btc target diff debian12.target debian13.target 'sched_*'", "compare tracepoints, structs and functions by name"}},
		options:  option.Table{{Name: "summary", To: &summary, Help: "print only the numbers of differences"}},
		run: func(line *option.Line) int {
			if status, ok := compareTargets(line.All(), summary); ok {
				return status
			}
			return 2
		},
	}
}

// compareTargets compares two targets; ok is false after an error, which it has reported.
func compareTargets(operands []string, summary bool) (status int, ok bool) {
	fail := func(format string, args ...any) (int, bool) { return fail(format, args...), false }
	if len(operands) < 2 || len(operands) > 3 {
		return fail("usage: btc target diff A B [PATTERN]: two target files, architectures with an embedded target, or host")
	}
	pattern := "*"
	if len(operands) == 3 {
		pattern = operands[2]
		if _, err := path.Match(pattern, ""); err != nil {
			return fail("invalid pattern %q", pattern)
		}
	}
	var both [2]*kernel.Target
	var err error
	for i, name := range operands[:2] {
		if both[i], err = openTarget(name); err != nil {
			return fail("%v", err)
		}
	}
	different, err := diffTargets(os.Stdout, both[0], both[1], pattern, summary)
	switch {
	case err != nil:
		return fail("%v", err)
	case different:
		return 1, true
	}
	return 0, true
}

// facet is one kind of the names in targets. parts are the components of a name, each with
// its type.
type facet struct {
	name  string
	list  func(*kernel.Target) []string
	parts func(t *kernel.Target, name string) []string
}

func facets() []facet {
	return []facet{
		{"syscall", func(t *kernel.Target) []string { return t.Syscalls("*") }, nil},
		{probe.Tracepoint, func(t *kernel.Target) []string {
			return slices.DeleteFunc(t.Tracepoints("*", "*"),
				func(name string) bool { return strings.HasPrefix(name, "syscalls:") })
		}, eventParts},
		{"struct", func(t *kernel.Target) []string { return t.StructNames("*") }, structParts},
		{"function", func(t *kernel.Target) []string { return t.Funcs("*") }, nil},
	}
}

func eventParts(t *kernel.Target, name string) []string {
	category, event, _ := strings.Cut(name, ":")
	ev, ok := t.Tracepoint(category, event)
	if !ok {
		return nil
	}
	var out []string
	for _, f := range ev.Fields {
		out = append(out, f.CType+" "+f.Name)
	}
	return out
}

func structParts(t *kernel.Target, name string) []string {
	s, ok := t.Struct(name)
	if !ok {
		return nil
	}
	return memberDecls(s, 0)
}

// memberDecls returns the declarations of a struct's members, including those of anonymous
// ones.
func memberDecls(s *kernel.Type, depth int) []string {
	var out []string
	for _, m := range s.Members {
		typ := m.Type()
		if m.Name == "" && depth < 8 {
			out = append(out, memberDecls(typ.Resolve(), depth+1)...)
			continue
		}
		text := declaration(typ, m.Name)
		if m.BitSize > 0 {
			text += fmt.Sprintf(" : %d", m.BitSize)
		}
		out = append(out, text)
	}
	return out
}

// diffTargets writes the differences, "-" before names only in a and "+" before names only
// in b, and a line of totals for each kind.
func diffTargets(w io.Writer, a, b *kernel.Target, pattern string, summary bool) (different bool, err error) {
	fmt.Fprintf(w, "--- Linux %s, %s\n+++ Linux %s, %s\n", a.Release(), a.Arch().Label, b.Release(), b.Arch().Label)
	line := func(format string, args ...any) {
		if !summary {
			fmt.Fprintf(w, format+"\n", args...)
		}
	}
	var totals []string
	for _, f := range facets() {
		has := map[string]int{}
		for i, t := range []*kernel.Target{a, b} {
			for _, name := range f.list(t) {
				if ok, _ := path.Match(pattern, name); ok {
					has[name] |= 1 << i
				}
			}
		}
		only, changed := [3]int{}, 0
		for _, name := range slices.Sorted(maps.Keys(has)) {
			only[has[name]-1]++
			switch {
			case has[name] == 1:
				line("-%s %s", f.name, name)
			case has[name] == 2:
				line("+%s %s", f.name, name)
			case f.parts != nil:
				gone, come := changes(f.parts(a, name), f.parts(b, name))
				if len(gone)+len(come) == 0 {
					continue
				}
				changed++
				line(" %s %s", f.name, name)
				for _, p := range gone {
					line("-\t%s", p)
				}
				for _, p := range come {
					line("+\t%s", p)
				}
			}
		}
		text := fmt.Sprintf("%-11s %6d in both, %d only in the first, %d only in the second", f.name+"s", only[2],
			only[0], only[1])
		if f.parts != nil {
			text += fmt.Sprintf(", %d with other members", changed)
		}
		totals = append(totals, text)
		different = different || only[0]+only[1]+changed > 0
	}
	for _, text := range totals {
		fmt.Fprintln(w, text)
	}
	for _, t := range []*kernel.Target{a, b} {
		if err := t.Err(); err != nil {
			return different, fmt.Errorf("the target of Linux %s is damaged: %w", t.Release(), err)
		}
	}
	return different, nil
}

// changes returns the elements that only one of two lists has, in the lists' order.
func changes(a, b []string) (gone, come []string) {
	return without(a, b), without(b, a)
}

func without(list, other []string) []string {
	var out []string
	for _, x := range list {
		if !slices.Contains(other, x) {
			out = append(out, x)
		}
	}
	return out
}
