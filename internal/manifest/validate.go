// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"btc/internal/probe"
)

// MaxPrograms is the largest number of programs of an object: of attach points of all clauses.
const MaxPrograms = 4096

// Limits on what a loader allocates or walks for a manifest. They are far above what scripts need.
const (
	maxPrograms  = MaxPrograms
	maxMaps      = 1024
	maxEvents    = 1 << 15
	maxParams    = 256
	maxArgs      = 64
	maxFields    = 512
	maxDepth     = 16       // nesting of layouts
	maxKey       = 64 << 10 // bytes
	maxValue     = 1 << 20  // bytes
	maxRecord    = 1 << 16  // bytes, the range of u16 offsets
	maxEntries   = 1 << 27
	maxStack     = 1024 // frames
	maxName      = 256
	maxArches    = 16
	maxText      = 64 << 10
	maxSource    = 8 << 20
	maxPerScript = 1 << 16 // fields, errors, losses
	maxInsn      = 1 << 20 // the kernel accepts a million
	maxColumn    = maxSource
	maxChain     = 64       // calls of macros
	maxTests     = 1 << 10  // comparisons of a predicate
	maxPrinted   = 32 << 20 // approximate bytes of one printed value of a map
	maxShown     = 8 << 20  // the same for an event, whose record has 64 KiB
	maxIntervals = 1000000  // intervals of a tseries; the language's own limit
)

// MaxLayouts bounds the total number of layouts of all values, including nested ones.
const MaxLayouts = 1 << 19

// checker collects the first error.
type checker struct {
	err     *FormatError
	layouts int // number of layouts walked
}

// place is a location in a manifest. Most are never printed, so their text is only made for an error.
type place struct {
	in    *place // nil: the whole file
	name  string
	index int // -1: none
}

var whole place

// key returns the member of an object.
func (p place) key(name string) place { return place{&p, name, -1} }

// item returns an element of the list that is a member, or of the list itself if name is "".
func (p place) item(name string, i int) place { return place{&p, name, i} }

func (p *place) String() string {
	if p == nil || p.in == nil {
		return ""
	}
	text := p.in.String()
	if p.name != "" && text != "" {
		text += "."
	}
	text += p.name
	if p.index >= 0 {
		text += "[" + strconv.Itoa(p.index) + "]"
	}
	return text
}

func (c *checker) fail(path place, format string, args ...any) {
	if c.err == nil {
		c.err = &FormatError{Path: path.String(), Text: fmt.Sprintf(format, args...)}
	}
}

// tooLarge is fail for a size error, see FormatError.Size.
func (c *checker) tooLarge(path place, format string, args ...any) {
	if c.err == nil {
		c.fail(path, format, args...)
		c.err.Size = true
	}
}

func (c *checker) within(path place, v, lo, hi int64) {
	if c.err == nil && (v < lo || v > hi) {
		c.tooLarge(path, "%d is not in the range %d to %d", v, lo, hi)
	}
}

func (c *checker) oneOf(path place, v string, set map[string]bool) {
	if c.err == nil && !set[v] {
		c.fail(path, "unknown value %q", clip(v))
	}
}

func (c *checker) text(path place, v string, limit int) {
	if c.err == nil && len(v) > limit {
		c.tooLarge(path, "string too long: %d bytes (max %d)", len(v), limit)
	}
}

// name checks a name that is printed among others, where a control character could forge a line.
func (c *checker) name(path place, v string) {
	c.text(path, v, maxName)
	for i := range len(v) {
		if c.err == nil && (v[i] < ' ' || v[i] == 0x7f) {
			c.fail(path, "a name has a control character")
		}
	}
}

// symbol checks an ELF or C name.
func (c *checker) symbol(path place, v string) {
	if v == "" || len(v) > maxName {
		c.fail(path, "a name must have 1 to %d bytes", maxName)
		return
	}
	for i := range len(v) {
		if ch := v[i]; ch != '_' && ch != '.' && ch != '$' && (ch < '0' || ch > '9') &&
			(ch|0x20 < 'a' || ch|0x20 > 'z') {
			c.fail(path, "%q is not a symbol name", clip(v))
			return
		}
	}
}

// pos checks a position in the script. 0 is an unknown line or column.
func (c *checker) pos(path place, p *Pos) {
	if p == nil {
		return
	}
	c.within(path.key("line"), int64(p.Line), 0, maxSource)
	c.within(path.key("col"), int64(p.Col), 0, maxColumn)
	c.within(path.key("end_col"), int64(p.EndCol), 0, maxColumn)
}

// chain checks the positions of a message about a macro.
func (c *checker) chain(path place, chain []Location) {
	c.within(path, int64(len(chain)), 0, maxChain)
	for i := range chain {
		p := &chain[i]
		at := path.item("", i)
		c.pos(at, &Pos{Line: p.Line, Col: p.Col, EndCol: p.EndCol})
		c.within(at.key("end_line"), int64(p.EndLine), 0, maxSource)
		c.text(at.key("file"), p.File, maxText)
		c.text(at.key("text"), p.Text, maxSource)
	}
}

func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "..."
	}
	return s
}

func set(words string) map[string]bool {
	s := make(map[string]bool)
	for w := range strings.FieldsSeq(words) {
		s[w] = true
	}
	return s
}

var (
	shapes     = set("plain count sum avg min max stats hist lhist tseries stack intern")
	mapTypes   = set("array percpu_array hash percpu_hash lru_hash lru_percpu_hash ringbuf perf_event_array array_of_maps")
	layouts    = set("int bool ptr enum string buffer tuple record array kstack ustack ksym usym inet mac timestamp probe username cgroup_path none")
	eventKinds = set("printf print print_map clear zero exit time join cat system error helper_error proc unwind unwatch skboutput errorf warnf")
	seriesAggs = set("avg max min sum")
	paramTypes = set("int string bool ipv4 sign")
	lossKinds  = set("events map scratch stack unused")
)

// Validate checks everything that a loader relies on: bounds of sizes, offsets and counts, and that names refer to
// something. Its error is a *FormatError.
func (m *Manifest) Validate() error {
	c := new(checker)
	m.checkHead(c)
	m.checkCounts(c)
	if c.err != nil {
		return c.err
	}
	for i := range m.Programs {
		m.Programs[i].check(c, whole.item("programs", i))
	}
	for i := range m.Globals {
		c.symbol(whole.item("globals", i).key("name"), m.Globals[i].Name)
		if s := m.Globals[i].Symbol; s != "" {
			c.symbol(whole.item("globals", i).key("symbol"), s)
		}
		c.within(whole.item("globals", i).key("size"), int64(m.Globals[i].Size), 1, maxValue)
		m.Globals[i].checkHost(c, m, whole.item("globals", i))
		c.pos(whole.item("globals", i).key("pos"), m.Globals[i].Pos)
	}
	for i := range m.Maps {
		m.Maps[i].check(c, m, whole.item("maps", i))
	}
	for i := range m.Events {
		m.Events[i].check(c, m, i)
	}
	for i := range m.Params {
		m.Params[i].check(c, whole.item("params", i))
	}
	m.Given.check(c)
	m.checkLosses(c)
	m.checkUses(c)
	m.checkClauses(c)
	m.checkUnique(c)
	if c.err != nil {
		return c.err
	}
	return nil
}

func (g *Global) checkHost(c *checker, m *Manifest, path place) {
	c.textParam(m, path.key("text_from"), g.TextFrom)
	if g.Host == "" {
		return
	}
	if i := g.Host.index(); i < 0 || i >= numOfText {
		c.fail(path.key("host"), "unknown value %q", clip(string(g.Host)))
	}
	c.text(path.key("text"), g.Text, maxText)
	c.within(path.key("size"), int64(g.Size), 8, 8)
}

func (m *Manifest) checkHead(c *checker) {
	major, _, _ := strings.Cut(m.Schema, ".")
	switch {
	case m.Schema == "":
		c.fail(whole.key("schema"), "missing: not a btc manifest")
	case major != Schema:
		c.fail(whole.key("schema"), "unsupported version %q (expected %q): use another version of the loader", clip(m.Schema), Schema)
	}
	for i, r := range m.Requires {
		if !Knows(r) {
			c.fail(whole.item("requires", i), "unknown feature %q: use a newer version of the loader", clip(r))
		}
	}
	if len(m.Object.SHA256) != 64 || strings.Trim(m.Object.SHA256, "0123456789abcdef") != "" {
		c.fail(whole.key("object.sha256"), "expected 64 lower-case hexadecimal digits")
	}
	c.within(whole.key("object.size"), m.Object.Size, 0, 1<<30)
	c.text(whole.key("script.file"), m.Script.File, maxText)
	c.text(whole.key("script.source"), m.Script.Source, maxSource)
	c.within(whole.key("arches"), int64(len(m.Arches)), 1, maxArches)
	for i, a := range m.Arches {
		c.text(whole.item("arches", i), a, maxName)
	}
	c.text(whole.key("target"), m.Target, maxName)
	c.text(whole.key("compiler"), m.Compiler, maxName)
	c.text(whole.key("language"), m.Language, maxName)
	c.text(whole.key("config.str_trunc_trailer"), m.Config.StrTruncTrailer, maxName)
	c.within(whole.key("config.max_strlen"), int64(m.Config.MaxStrlen), 0, maxValue)
	c.within(whole.key("config.max_stacks"), int64(m.Config.MaxStacks), 0, maxEntries)
	c.within(whole.key("config.ringbuf_pages"), int64(m.Config.RingbufPages), 0, 1<<18)
}

func (m *Manifest) checkCounts(c *checker) {
	c.within(whole.key("programs"), int64(len(m.Programs)), 0, maxPrograms)
	c.within(whole.key("maps"), int64(len(m.Maps)), 0, maxMaps)
	c.within(whole.key("events"), int64(len(m.Events)), 0, maxEvents)
	c.within(whole.key("params"), int64(len(m.Params)), 0, maxParams)
	c.within(whole.key("globals"), int64(len(m.Globals)), 0, maxParams+64)
	c.within(whole.key("errors"), int64(len(m.Errors)), 0, maxPerScript)
	c.within(whole.key("unsafe"), int64(len(m.Unsafe)), 0, maxPerScript)
	c.within(whole.key("needs"), int64(len(m.Needs)), 0, maxPerScript)
	c.within(whole.key("losses"), int64(len(m.Losses)), 0, maxPerScript)
	c.within(whole.key("fields"), int64(len(m.Fields)), 0, maxPerScript)
	c.within(whole.key("clauses"), int64(len(m.Clauses)), 0, maxPrograms)
}

// checkClauses checks the descriptions of clauses, which only messages use.
func (m *Manifest) checkClauses(c *checker) {
	for i := range m.Clauses {
		x, path := &m.Clauses[i], whole.item("clauses", i)
		c.within(path.key("number"), int64(x.Number), 0, maxPrograms)
		c.span(path.key("predicate"), x.Predicate)
		c.span(path.key("last"), x.Last)
		c.within(path.key("reads"), int64(len(x.Reads)), 0, maxPerScript)
		c.tests(path, x.Tests)
		c.within(path.key("branches"), int64(len(x.Branches)), 0, maxPerScript)
		for j := range x.Branches {
			n, path := &x.Branches[j], path.item("branches", j)
			c.span(path.key("cond"), &n.Cond)
			c.span(path.key("body"), &n.Body)
			c.tests(path, n.Tests)
			c.names(path.key("effects"), n.Effects)
		}
		c.names(path.key("effects"), x.Effects)
		c.names(path.key("stores"), x.Stores)
		for j := range x.Reads {
			c.span(path.item("reads", j).key("span"), &x.Reads[j].Span)
			c.text(path.item("reads", j).key("map"), x.Reads[j].Map, maxName)
		}
	}
}

func (c *checker) tests(of place, all []Test) {
	c.within(of.key("tests"), int64(len(all)), 0, maxTests)
	for j := range all {
		t, path := &all[j], of.item("tests", j)
		c.span(path.key("span"), &t.Span)
		c.text(path.key("left"), t.Left, maxName)
		c.text(path.key("op"), t.Op, maxName)
		c.text(path.key("right"), t.Right, maxName)
		c.text(path.key("builtin"), t.Builtin, maxName)
		c.text(path.key("kind"), t.Kind, maxName)
		c.text(path.key("literal"), t.Literal, maxName)
		c.within(path.key("size"), int64(t.Size), 0, maxValue)
	}
}

func (c *checker) names(path place, all []string) {
	c.within(path, int64(len(all)), 0, maxMaps+1)
	for _, name := range all {
		c.text(path, name, maxName)
	}
}

func (c *checker) span(path place, s *Span) {
	if s == nil {
		return
	}
	c.pos(path, &Pos{Line: s.Line, Col: s.Col, EndCol: s.EndCol})
	c.within(path.key("end_line"), int64(s.EndLine), 0, maxSource)
}

// checkUses checks the keys that only messages use.
func (m *Manifest) checkUses(c *checker) {
	for i := range m.Needs {
		c.symbol(whole.item("needs", i).key("feature"), m.Needs[i].Feature)
		c.text(whole.item("needs", i).key("construct"), m.Needs[i].Construct, maxName)
		c.pos(whole.item("needs", i).key("pos"), &m.Needs[i].Pos)
	}
	for i := range m.Fields {
		c.text(whole.item("fields", i).key("module"), m.Fields[i].Module, maxName)
		c.within(whole.item("fields", i).key("insn"), int64(m.Fields[i].Insn), 0, maxInsn)
		c.pos(whole.item("fields", i).key("pos"), &m.Fields[i].Pos)
	}
	for i := range m.Unsafe {
		c.text(whole.item("unsafe", i).key("name"), m.Unsafe[i].Name, maxName)
		c.pos(whole.item("unsafe", i).key("pos"), &m.Unsafe[i].Pos)
	}
	for i := range m.Errors {
		c.text(whole.item("errors", i).key("text"), m.Errors[i].Text, maxText)
		c.text(whole.item("errors", i).key("helper"), m.Errors[i].Helper, maxName)
		c.pos(whole.item("errors", i).key("pos"), &m.Errors[i].Pos)
		c.chain(whole.item("errors", i).key("chain"), m.Errors[i].Chain)
	}
}

func (p *Program) check(c *checker, path place) {
	c.symbol(path.key("name"), p.Name)
	c.text(path.key("section"), p.Section, maxText)
	if probe.Lookup(p.Kind) == nil {
		c.fail(path.key("kind"), "unknown value %q", clip(p.Kind))
	}
	c.within(path.key("first_id"), int64(p.FirstID), 0, 1<<31-1)
	c.within(path.key("id_insns"), int64(len(p.IDInsns)), 0, maxPerScript)
	for i, n := range p.IDInsns {
		c.within(path.item("id_insns", i), int64(n), 0, maxInsn)
	}
	c.within(path.key("args"), int64(len(p.Args)), 0, maxArgs)
	for i, a := range p.Args {
		c.text(path.item("args", i).key("name"), a.Name, maxName)
		c.text(path.item("args", i).key("type"), a.Type, maxText)
		c.within(path.item("args", i).key("slot"), int64(a.Slot), 0, maxArgs)
		c.within(path.item("args", i).key("bits"), int64(a.Bits), -64, 64)
	}
	c.within(path.key("record"), int64(len(p.Record)), 0, maxArgs)
	for i, u := range p.Record {
		c.text(path.item("record", i).key("name"), u.Name, maxName)
		c.within(path.item("record", i).key("offset"), int64(u.Offset), 0, 1<<20)
		c.within(path.item("record", i).key("size"), int64(u.Size), 0, 1<<20)
		c.oneOf(path.item("record", i).key("sign"), u.Sign, signs)
		c.pos(path.item("record", i).key("pos"), &p.Record[i].Pos)
	}
	p.Code.check(c, path.key("code"))
	c.pos(path.key("pos"), &p.Pos)
	p.Attach.check(c, path.key("attach"), p.Kind)
}

// contexts are the values of Code.Context.
var contexts = set("none record regs args")

// MaxFrame is the stack of a BPF program (MAX_BPF_STACK), in bytes.
const MaxFrame = 512

// MaxCallArgs is the maximum number of arguments of a system call.
const MaxCallArgs = 6

func (p *Code) check(c *checker, path place) {
	if p == nil {
		return
	}
	c.oneOf(path.key("context"), p.Context, contexts)
	c.within(path.key("frame"), int64(p.Frame), 0, MaxFrame)
	c.within(path.key("record_args"), int64(len(p.RecordArgs)), 0, MaxCallArgs)
	for i, n := range p.RecordArgs {
		c.within(path.item("record_args", i), int64(n), 0, MaxCallArgs-1)
	}
	c.within(path.key("result"), int64(len(p.Result)), 0, maxPerScript)
	c.within(path.key("forms"), int64(len(p.Forms)), 0, maxPerScript)
	for i, f := range p.Forms {
		if f.Function != "" {
			c.symbol(path.item("forms", i).key("function"), f.Function)
		}
		c.within(path.item("forms", i).key("insn"), int64(f.Insn), 0, maxInsn)
		c.text(path.item("forms", i).key("arch"), f.Arch, maxName)
		c.text(path.item("forms", i).key("helper"), f.Helper, maxName)
	}
}

// signs are the values of RecordUse.Sign.
var signs = map[string]bool{"": true, "signed": true, "unsigned": true}

func (a *Attach) check(c *checker, path place, kind string) {
	for _, x := range []struct{ key, v string }{{"text", a.Text}, {"target", a.Target}, {"name", a.Name}} {
		c.text(path.key(x.key), x.v, maxText)
		if strings.ContainsRune(x.v, 0) {
			c.fail(path.key(x.key), "contains a NUL byte")
		}
	}
	c.within(path.key("fill"), int64(len(a.Substitute)), 0, maxParts)
	for i, part := range a.Substitute {
		c.text(path.item("fill", i), part, maxText)
	}
	if len(a.Substitute) > 0 { // the loader checks the rest after substituting the parameters
		return
	}
	if x := a.Calls; x != nil {
		key := path.key("calls")
		c.text(key.key("binary"), x.Binary, maxText)
		c.within(key.key("sites"), int64(x.Sites), 0, 1<<31-1)
		c.within(key.key("inlined"), int64(x.Inlined), 0, int64(x.Sites))
		c.within(key.key("in"), int64(len(x.In)), 0, maxParts)
		for i, name := range x.In {
			c.text(key.item("in", i), name, maxText)
		}
	}
	c.within(path.key("len"), int64(a.Len), 0, 8)
	c.text(path.key("mode"), a.Mode, 8)
	switch a.Missing {
	case "", "error", "warn", "ignore":
	default:
		c.fail(path.key("missing"), "unknown value %q", clip(a.Missing))
	}
	switch kind {
	case probe.Profile, probe.Interval:
		if !slices.Contains(probe.Units(), a.Unit) {
			c.fail(path.key("unit"), "unknown value %q", clip(a.Unit))
		}
		if a.Count == 0 || a.Count > probe.MaxCount {
			c.fail(path.key("count"), "%d is not a valid rate or period", a.Count)
		}
	case probe.Uprobe, probe.Uretprobe: // without a name, address 0 is valid, too
		if a.Binary != "" && !strings.HasPrefix(a.Binary, "build-id:") && !strings.HasPrefix(a.Binary, "text:") {
			c.fail(path.key("binary"), "%q is not a build identity", clip(a.Binary))
		}
	case probe.Tracepoint, probe.USDT, probe.RawTracepoint, probe.Fentry, probe.Fexit, probe.Kretprobe:
		if a.Name == "" && a.Addr == 0 {
			c.fail(path.key("name"), "missing")
		}
	}
}

// maxParts bounds the parts of an attach point.
const maxParts = 8

func (g *Given) check(c *checker) {
	if g == nil {
		return
	}
	c.within(whole.key("given.values"), int64(len(g.Values)), 0, maxParams)
	for i, v := range g.Values {
		c.text(whole.item("given.values", i), v, maxText)
	}
	c.within(whole.key("given.fixed"), int64(len(g.Fixed)), 0, maxParams)
	for i, n := range g.Fixed {
		c.within(whole.item("given.fixed", i), int64(n), 1, int64(len(g.Values)))
	}
	c.within(whole.key("given.options"), int64(len(g.Options)), 0, maxParams)
	for name, v := range g.Options {
		c.text(whole.key("given.options"), name, maxName)
		c.text(whole.key("given.options"), v, maxText)
	}
	c.within(whole.key("given.fixed_options"), int64(len(g.FixedOptions)), 0, maxParams)
}

func (p *Param) check(c *checker, path place) {
	c.text(path.key("name"), p.Name, maxName)
	if p.Name == "" {
		c.fail(path.key("name"), "missing")
	}
	c.symbol(path.key("global"), p.Global)
	c.oneOf(path.key("type"), p.Type, paramTypes)
	c.pos(path.key("pos"), &p.Pos)
	c.text(path.key("default"), p.Default, maxText)
	c.text(path.key("help"), p.Help, maxText)
	if p.Type == "string" {
		c.within(path.key("size"), int64(p.Size), 1, maxText)
	} else if p.Size != 4 && p.Size != 8 {
		c.fail(path.key("size"), "%d is not 4 or 8", p.Size)
	}
}

func (m *Manifest) checkLosses(c *checker) {
	for i, l := range m.Losses {
		path := whole.item("losses", i)
		c.oneOf(path.key("kind"), l.Kind, lossKinds)
		c.pos(path.key("pos"), l.Pos)
		c.chain(path.key("chain"), l.Chain)
		if l.Kind == "map" && m.Map(l.Map) == nil {
			c.fail(path.key("map"), "unknown map %q", clip(l.Map))
		}
	}
}

func (m *Manifest) checkUnique(c *checker) {
	names, symbols := make(map[string]bool), make(map[string]bool)
	for i := range m.Maps {
		path, x := whole.item("maps", i), &m.Maps[i]
		if names[x.Name] || symbols[x.Symbol] {
			c.fail(path, "duplicate map %q", clip(x.Name))
		}
		names[x.Name], symbols[x.Symbol] = true, true
	}
	progs := make(map[string]bool)
	for i := range m.Programs {
		if progs[m.Programs[i].Name] {
			c.fail(whole.item("programs", i).key("name"), "duplicate program %q", clip(m.Programs[i].Name))
		}
		progs[m.Programs[i].Name] = true
	}
}
