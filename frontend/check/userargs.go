// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"btc/frontend/ast"
	"btc/frontend/debuginfo"
	"btc/frontend/diag"
	"btc/frontend/types"
	"btc/internal/probe"
	"btc/internal/spell"
)

// Probes of user space use argument names, types and source lines from the debug information of the program that they
// name, on the machine that compiles. This binds the compiled object to one build of the file.

// debugHint says how to compile if the file or its debug information is not at the expected path.
const debugHint = "compile on a host that has the program; --debuginfo DIR searches DIR for separate debug files, --binary NAME=FILE uses FILE instead"

// debug opens the file that an attach point names.
func (c *checker) debug(p *Point) (*debuginfo.Binary, error) {
	switch {
	case c.files == nil:
		return nil, errors.New("files may not be read here")
	case p.Target == "":
		return nil, errors.New("the attach point names no file")
	case strings.Contains(p.Target, "*"):
		return nil, fmt.Errorf("%s may be several files", p.Target)
	}
	return c.files.Open(p.Target)
}

// bind records that the body depends on the build of the file.
func (b *body) bind(bin *debuginfo.Binary) { b.out.Binary = bin.ID }

// uprobes resolves uprobe and uretprobe. A source line may have several addresses; a pattern is expanded if the
// clause reads args, because each function has its own parameters.
func (c *checker) uprobes(p *Point, ap *ast.AttachPoint, readsArgs bool) []*Point {
	if !readsArgs || !strings.Contains(p.Name, "*") && p.Lang == "" {
		return []*Point{p}
	}
	bin, err := c.debug(p)
	if err != nil {
		return []*Point{p} // args reports why there is no debug information
	}
	names := bin.Functions(func(name string) bool {
		if p.Lang == "cpp" {
			return debuginfo.Matches(p.Name, name)
		}
		return probe.Glob(p.Name, name)
	})
	if len(names) == 0 {
		c.absent(p, ap, "the debug information of %s has no function that matches %s", bin.Path, p.Name)
		return []*Point{p}
	}
	if c.tooMany(ap, len(names)) {
		return nil
	}
	var points []*Point
	for _, name := range names {
		one := *p
		one.Name, one.Pattern = name, false
		one.name()
		points = append(points, &one)
	}
	return points
}

// sourceLine resolves "uprobe:BINARY@FILE:LINE[:COLUMN]".
func (c *checker) sourceLine(p *Point, ap *ast.AttachPoint, parts []ast.AttachPart) []*Point {
	at := parts[1]
	words := strings.Split(at.Text, ":")
	bad := func(text string) []*Point {
		c.fail(diag.BadAttachPoint, at, "%s", text).Hint("%s:BINARY@FILE:LINE", p.Kind)
		return nil
	}
	switch {
	case p.Kind == probe.Uretprobe:
		return bad("Source code location not allowed")
	case parts[0].Wildcard:
		return bad("Cannot use wildcards with source code location")
	case len(words) < 2 || len(words) > 3 || words[0] == "":
		return bad("Invalid uprobe arguments, expected format: uprobe:TARGET@FILE:LINE[:COL]")
	}
	line, err := strconv.ParseUint(words[1], 10, 31)
	if err != nil || line == 0 {
		return bad("Invalid line number: " + words[1])
	}
	column := uint64(0)
	if len(words) == 3 {
		if column, err = strconv.ParseUint(words[2], 10, 31); err != nil {
			return bad("Invalid column number: " + words[2])
		}
	}
	p.Target = parts[0].Text
	p.Text = p.Kind + ":" + p.Target + "@" + at.Text
	bin, err := c.debug(p)
	if err != nil {
		c.fail(diag.BadAttachPoint, at, "cannot find the line: %v", err).Hint(debugHint)
		return nil
	}
	addrs, err := bin.Line(words[0], int(line), int(column))
	if err != nil {
		c.fail(diag.BadAttachPoint, at, "%v", err)
		return nil
	}
	var points []*Point
	for _, addr := range addrs {
		one := *p
		one.Addr, one.Binary = addr, bin.ID
		points = append(points, &one)
	}
	return points
}

// function returns the probed function's debug information.
func (b *body) function(at ast.Node) *debuginfo.Func {
	bin, err := b.debug(b.point)
	if err != nil {
		b.fail(diag.NoArgs, at, "the arguments are not known: %v", err).
			Hint("%s; arg0, arg1, ... do not need it", debugHint)
		return nil
	}
	if b.point.Name == "" || b.point.Pattern || b.point.Offset != 0 {
		b.fail(diag.NoArgs, at, "only the entry of a function has named arguments").
			Hint("%s:%s:FUNCTION", b.point.Kind, b.point.Target)
		return nil
	}
	fn, err := bin.Func(b.point.Name)
	if err != nil {
		b.fail(diag.NoArgs, at, "the arguments are not known: %v", err).
			Hint("arg0, arg1, ... do not need debug information")
		return nil
	}
	b.bind(bin)
	return fn
}

// userArg checks "args.name" of a uprobe.
func (b *body) userArg(x *ast.Field, e *Expr) {
	fn := b.function(x)
	if fn == nil {
		return
	}
	i := slices.IndexFunc(fn.Params, func(p debuginfo.Param) bool { return p.Name == x.Name.Text })
	if i < 0 {
		var names []string
		for _, p := range fn.Params {
			names = append(names, p.Name)
		}
		d := b.fail(diag.UnknownField, x.Name, "Can't find function parameter %s", x.Name.Text)
		if near := spell.Nearest(x.Name.Text, names); near != "" {
			d.Hint("did you mean %s?", near)
		}
		return
	}
	p := fn.Params[i]
	if p.Arg < 0 {
		b.fail(diag.NotSupported, x, "%s of type %s is not passed in one integer register: it cannot be read", p.Name,
			p.Type)
		return
	}
	e.Location = &Location{Root: RootArg, Space: types.User, Arg: p.Arg}
	b.setLvalue(x, e, p.Type)
}

// severalPrograms reports whether the attach points of the clause are in more than one file.
func (b *body) severalPrograms() bool {
	return slices.ContainsFunc(b.sharing, func(p *Point) bool { return p.Target != b.point.Target })
}

// userType looks up a type of the probed program in its debug information. find searches one file.
func (b *body) userType(at ast.Node, find func(*debuginfo.Binary) (*types.Type, bool)) (*types.Type, bool) {
	if b.point == nil || b.point.Space() != types.User || b.files == nil {
		return nil, false
	}
	bin, err := b.debug(b.point)
	if err != nil {
		return nil, false
	}
	t, ok := find(bin)
	if !ok {
		return nil, false
	}
	if b.severalPrograms() {
		b.fail(diag.UnknownType, at, "the type is from %s; the other attach points of the clause may not have it", b.point.Target).
			Hint("write a clause for each file")
	}
	b.bind(bin)
	return t, true
}

// allArgs checks args without a field: a record of all arguments.
func (b *body) allArgs(at ast.Node, e *Expr) {
	e.Call = nil
	e.Type = types.TInvalid
	var names []string
	switch b.point.Kind {
	case probe.Tracepoint:
		b.fail(diag.BadAccess, at, "the record of a tracepoint is not a value: use a field, args.field")
		return
	case probe.Uprobe:
		fn := b.function(at)
		if fn == nil {
			return
		}
		for _, p := range fn.Params {
			names = append(names, p.Name)
		}
	default:
		proto := b.proto()
		if proto == nil {
			b.fail(diag.NoArgs, at, "the target has no prototype of %s, so its arguments are not known", b.point.Name)
			return
		}
		for _, p := range proto.Params {
			names = append(names, p.Name)
		}
	}
	if len(names) == 0 {
		b.fail(diag.NoArgs, at, "%s has no arguments", b.point.Name)
		return
	}
	ext := ast.Ext(at.Span())
	record := &ast.Record{Extent: ext}
	for _, name := range names {
		record.Fields = append(record.Fields, &ast.RecordField{Extent: ext, Name: &ast.Name{Extent: ext, Text: name},
			Value: &ast.Field{Extent: ext, X: &ast.Ident{Extent: ext, Name: "args"}, Name: &ast.Name{Extent: ext, Text: name}}})
	}
	r := b.expr(record)
	e.Type, e.ShortFor = r.Type, record
}
