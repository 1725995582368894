// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"btc/cmd/btc/forecast"
	"btc/frontend/ast"
	"btc/frontend/check"
	"btc/frontend/debuginfo"
	"btc/frontend/diag"
	"btc/frontend/expand"
	"btc/frontend/parse"
	"btc/internal/option"
	"btc/internal/probe"
	"btc/internal/spell"
	"btc/loader/resolve"
	"btc/targets/kernel"
)

func listCommand() *command {
	var l lister
	var target string
	return &command{
		name: "list", operands: "[PATTERN[,PATTERN...] | 'struct NAME' | FILE.bt]", summary: "list the probes and structs of a target", files: []string{"bt"},
		options: append(option.Table{
			{Name: "verbose", Short: "v", To: &l.verbose, Help: "show arguments with their types, and the members of structs"},
			{Name: "target", Value: "FILE", To: &target, Help: `target file to list, or "host"; default: the embedded target`},
		}, fileOptions(&l.files)...),
		examples: []example{
			{"btc list 'kprobe:tcp_*'", "list the functions of the target's kernel whose names begin with tcp_"},
			{"btc list -v tracepoint:sched:sched_switch", "show the arguments of a tracepoint"},
			{"btc list 'struct sock'", "show a struct of the kernel"},
			{"btc list --target host 'iter:*'", "list the iterators of this host's kernel (root)"},
		},
		run: func(line *option.Line) int { return l.listAll(target, line.All()) },
	}
}

// listAll prints the names of a target that match the operands.
func (l *lister) listAll(target string, operands []string) int {
	if len(operands) == 0 {
		operands = []string{"*:*"}
	}
	return l.print(target, func() error {
		for _, o := range operands {
			if err := l.list(o); err != nil {
				return err
			}
		}
		return nil
	})
}

// print calls a printer of a target, and returns the exit status.
func (l *lister) print(target string, list func() error) int {
	t, err := openTarget(target)
	if err != nil {
		return fail("%v", err)
	}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	l.t, l.out = t, out
	if err := list(); err != nil {
		return fail("%v", err)
	}
	if err := t.Err(); err != nil {
		return fail("%v", err)
	}
	return 0
}

// lister prints names of a target.
type lister struct {
	t       *kernel.Target
	points  resolve.Kernel // t's; nil: not asked yet
	out     io.Writer
	verbose bool
	host    bool // prefer the running kernel's own types; a target has only some of them
	files   debuginfo.Finder
}

// list prints one operand: a script's probes, structs, or the matches of patterns.
func (l *lister) list(operand string) error {
	if filepath.Ext(operand) == ".bt" {
		text, err := readScript(operand)
		if err == nil {
			return l.script(operand, text)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		fmt.Fprintf(os.Stderr,
			"WARNING: It appears that '%s' is a filename but the file does not exist. Treating '%s' as a search pattern.\n",
			operand, operand)
	}
	for _, pattern := range strings.Split(operand, ",") {
		if err := l.pattern(strings.TrimSpace(pattern)); err != nil {
			return err
		}
	}
	return nil
}

func (l *lister) pattern(pattern string) error {
	for _, word := range []string{"struct ", "union ", "enum "} {
		if name, ok := strings.CutPrefix(pattern, word); ok {
			l.types(strings.TrimSpace(word), strings.TrimSpace(name))
			return nil
		}
	}
	kind, rest, ok := strings.Cut(pattern, ":")
	if !ok {
		kind, rest = "*", pattern
	}
	kinds, found := kindsOf(kind), false
	for _, k := range kinds {
		switch {
		case resolve.Lists(k):
			points, err := resolve.List(l.kernel(), k, rest)
			if err != nil && len(kinds) == 1 {
				return fmt.Errorf("%s: %w", k, err)
			}
			found = found || len(points) > 0
			for _, p := range points {
				fmt.Fprintln(l.out, p)
				if l.verbose {
					l.arguments(p)
				}
			}
		case l.verbose:
			return l.userFunctions(k, rest)
		default:
			return fmt.Errorf("%s probes are found by the host: btrun --list '%s'", k, pattern)
		}
	}
	if len(kinds) == 0 && probe.Find(kind) == nil { // some kinds have nothing to list
		text := "unknown kind of probe " + kind
		var names []string
		for _, t := range probe.Types() {
			names = append(names, t.Kind)
		}
		if near := spell.Nearest(kind, names); near != "" {
			text += "; did you mean " + near + "?"
		}
		return errors.New(text)
	}
	if !found && len(kinds) > 0 {
		near := ""
		if len(kinds) == 1 {
			near = resolve.Nearest(l.kernel(), kinds[0], rest)
		}
		l.nothing(pattern, near)
	}
	return nil
}

// nothing says that nothing matches a pattern. With -l it is silent, as bpftrace is.
func (l *lister) nothing(pattern, near string) {
	if l.host {
		return
	}
	text := "btc: nothing matches " + pattern
	if near != "" {
		text += "; did you mean " + near + "?"
	}
	fmt.Fprintln(os.Stderr, text)
}

// kernel returns the target as the kernel whose attach points are listed.
func (l *lister) kernel() resolve.Kernel {
	if l.points == nil {
		l.points = forecast.Kernel(l.t)
	}
	return l.points
}

// kindsOf returns the kinds that a word or pattern of a search names, sorted.
func kindsOf(word string) []string {
	var kinds []string
	for _, t := range probe.Types() {
		pattern := strings.Contains(word, "*") && t.Searched && t.Space != probe.UserSpace && probe.Glob(word, t.Kind)
		if exact := probe.Find(word); t.Listed && (pattern || exact != nil && exact.Kind == t.Kind) {
			kinds = append(kinds, t.Kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}

// arguments prints the arguments of an attach point with their types.
func (l *lister) arguments(point string) {
	parts := strings.Split(point, ":")
	name := parts[len(parts)-1]
	switch kind := parts[0]; kind {
	case probe.Kprobe, probe.Kretprobe, probe.Fentry, probe.Fexit:
		if f, ok := l.t.Func(name); ok && f.Proto != nil {
			l.function(kind, f.Proto)
		}
	case probe.Tracepoint:
		if ev, ok := l.t.Tracepoint(parts[1], name); ok {
			for i := range ev.Fields {
				l.declare(4, ev.Fields[i].CType, ev.Fields[i].Name)
			}
		}
	case probe.RawTracepoint:
		if proto := check.RawPrototype(l.t, name); proto != nil {
			l.params(proto)
		}
	case probe.Iter:
		if proto, ok := l.t.Iter(name); ok {
			l.params(proto)
		}
	}
}

// function prints what probes of a kind can read of a function.
func (l *lister) function(kind string, proto *kernel.Type) {
	switch kind {
	case probe.Fentry, probe.Fexit:
		l.params(proto)
	case probe.Kprobe: // in registers, without names
		for i, p := range proto.Params[:min(len(proto.Params), len(l.t.Arch().Args))] {
			l.declare(4, p.Type().String(), fmt.Sprintf("arg%d", i))
		}
	}
	r := proto.Elem()
	switch void := r.Resolve().Kind == kernel.Void; {
	case void && kind == probe.Kretprobe:
		fmt.Fprintln(l.out, "    void")
	case !void && (kind == probe.Fexit || kind == probe.Kretprobe):
		l.declare(4, r.String(), "retval")
	}
}

func (l *lister) params(proto *kernel.Type) {
	for _, p := range proto.Params {
		l.declare(4, p.Type().String(), p.Name)
	}
}

// declare prints a type and a name; the dimensions of an array follow the
// name, as in C, except those that the kernel writes itself (__data_loc char[]).
func (l *lister) declare(indent int, typ, name string) {
	if i := strings.IndexByte(typ, '['); i > 0 && !strings.HasPrefix(typ, "__data_loc ") &&
		!strings.HasPrefix(typ, "__rel_loc ") {
		typ, name = strings.TrimSpace(typ[:i]), name+typ[i:]
	}
	fmt.Fprintf(l.out, "%*s%s %s\n", indent, "", typ, name)
}

// types lists structs that match a pattern, with their members if requested.
func (l *lister) types(word, pattern string) {
	if l.verbose && l.host && listKernelTypes(l.out, word, pattern) {
		return
	}
	names, find := l.t.StructNames, l.t.Struct
	switch word {
	case "enum":
		names, find = l.t.EnumNames, l.t.Enum
	case "union":
		names, find = l.t.UnionNames, l.t.Union
	}
	found := names(pattern)
	for _, name := range found {
		if t, ok := find(name); ok {
			l.body(t)
		}
	}
	if len(found) == 0 {
		near := spell.Nearest(pattern, names("*"))
		if near != "" {
			near = word + " " + near
		}
		l.nothing(word+" "+pattern, near)
	}
}

// body prints a type, on one line or with its members.
func (l *lister) body(t *kernel.Type) {
	if !l.verbose {
		fmt.Fprintln(l.out, t)
		return
	}
	fmt.Fprintf(l.out, "vmlinux: %s {\n", t)
	l.members(t, 1)
	for _, e := range t.Enumerators {
		fmt.Fprintf(l.out, "\t%s = %d,\n", e.Name, e.Value)
	}
	fmt.Fprint(l.out, "};\n\n")
}

// members prints the members of a struct or union; anonymous ones with theirs.
func (l *lister) members(t *kernel.Type, depth int) {
	indent := strings.Repeat("\t", depth)
	for i := range t.Members {
		m := &t.Members[i]
		typ := m.Type()
		if (typ.Kind == kernel.Struct || typ.Kind == kernel.Union) && typ.Name == "" {
			fmt.Fprintf(l.out, "%s%s {\n", indent, strings.TrimSuffix(typ.String(), " {...}"))
			l.members(typ, depth+1)
			fmt.Fprintf(l.out, "%s}%s;\n", indent, strings.TrimSuffix(" "+m.Name, " "))
			continue
		}
		if typ.Kind == kernel.Enum && typ.Name == "" {
			fmt.Fprintf(l.out, "%senum {\n", indent)
			for _, e := range typ.Enumerators {
				fmt.Fprintf(l.out, "%s\t%s = %d,\n", indent, e.Name, e.Value)
			}
			fmt.Fprintf(l.out, "%s} %s;\n", indent, m.Name)
			continue
		}
		bits := ""
		if m.BitSize > 0 {
			bits = fmt.Sprintf(": %d", m.BitSize)
		}
		fmt.Fprintf(l.out, "%s%s%s;\n", indent, declaration(typ, m.Name), bits)
	}
}

// declaration writes a type and a name as C does for arrays and functions.
func declaration(t *kernel.Type, name string) string {
	switch {
	case t.Kind == kernel.Array:
		return declaration(t.Elem(), fmt.Sprintf("%s[%d]", name, t.Len))
	case t.Kind == kernel.Pointer && t.Elem().Kind == kernel.Func:
		f := t.Elem()
		_, params, _ := strings.Cut(f.String(), " (")
		return fmt.Sprintf("%s (*%s)(%s", f.Elem(), name, params)
	}
	text := t.String()
	if strings.HasSuffix(text, "*") {
		return text + name
	}
	return text + " " + name
}

// script lists the probes of a script: its attach points, and for patterns their matches in the
// target.
func (l *lister) script(path, text string) error {
	diags := &diag.List{}
	script := parse.Script(diag.NewSource(path, text), diags, expand.Values(check.IsValue))
	if err := diags.Err(); err != nil {
		return err
	}
	for _, item := range script.Items {
		probe, ok := item.(*ast.Probe)
		if !ok {
			continue
		}
		for _, ap := range probe.Points {
			l.point(ap)
		}
	}
	return nil
}

// point lists the matches of an attach point of a script: those in the target, in list
// form; parts that only the host knows, as written.
func (l *lister) point(ap *ast.AttachPoint) {
	if len(ap.Parts) < 2 {
		return // begin and end
	}
	kind := ap.Provider
	if kind == "" {
		kind = ap.Parts[0].Text // a pattern
	}
	text := kind
	for _, part := range ap.Parts[1:] {
		text += ":" + part.Text
	}
	switch kind {
	case probe.Interval, probe.Profile:
		unit := "us" // unit of a duration such as interval:1s
		if len(ap.Parts) > 2 {
			unit = ap.Parts[1].Text
		}
		fmt.Fprintf(l.out, "%s:%s:\n", kind, unit)
		return
	case probe.Iter, probe.Fentry, probe.Fexit, probe.Kprobe, probe.Kretprobe:
		if offset := strings.LastIndexByte(text, '+'); offset > 0 {
			text = text[:offset]
		}
	}
	var found strings.Builder
	sub := *l
	sub.out = &found
	if err := sub.pattern(text); err != nil || found.Len() == 0 {
		fmt.Fprintln(l.out, text)
		return
	}
	fmt.Fprint(l.out, found.String())
}
