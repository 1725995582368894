// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"fmt"
	"slices"
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
	maxPrinted   = 32 << 20 // approximate bytes of one printed value
	maxIntervals = 1000000  // intervals of a tseries; the language's own limit
)

// MaxLayouts bounds the total number of layouts of all values, including nested ones.
const MaxLayouts = 1 << 19

// checker collects the first error.
type checker struct {
	err     *FormatError
	layouts int // number of layouts walked
}

func (c *checker) fail(path, format string, args ...any) {
	if c.err == nil {
		c.err = &FormatError{Path: path, Text: fmt.Sprintf(format, args...)}
	}
}

// size marks the error at path as a size error, see FormatError.Size.
func (c *checker) size(path string) {
	if c.err.Path == path {
		c.err.Size = true
	}
}

func (c *checker) within(path string, v, lo, hi int64) {
	if v < lo || v > hi {
		c.fail(path, "%d is not in the range %d to %d", v, lo, hi)
		c.size(path)
	}
}

func (c *checker) oneOf(path, v string, set map[string]bool) {
	if !set[v] {
		c.fail(path, "unknown value %q", clip(v))
	}
}

func (c *checker) text(path, v string, limit int) {
	if len(v) > limit {
		c.fail(path, "string too long: %d bytes (max %d)", len(v), limit)
		c.size(path)
	}
}

// symbol checks an ELF or C name.
func (c *checker) symbol(path, v string) {
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
func (c *checker) pos(path string, p *Pos) {
	if p == nil {
		return
	}
	c.within(path+".line", int64(p.Line), 0, maxSource)
	c.within(path+".col", int64(p.Col), 0, maxColumn)
	c.within(path+".end_col", int64(p.EndCol), 0, maxColumn)
}

// chain checks the positions of a message about a macro.
func (c *checker) chain(path string, chain []Location) {
	c.within(path, int64(len(chain)), 0, maxChain)
	for i := range chain {
		p := &chain[i]
		at := fmt.Sprintf("%s[%d]", path, i)
		c.pos(at, &Pos{Line: p.Line, Col: p.Col, EndCol: p.EndCol})
		c.within(at+".end_line", int64(p.EndLine), 0, maxSource)
		c.text(at+".file", p.File, maxText)
		c.text(at+".text", p.Text, maxSource)
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
	shapes   = set("plain count sum avg min max stats hist lhist tseries stack intern")
	mapTypes = set("array percpu_array hash percpu_hash lru_hash lru_percpu_hash ringbuf perf_event_array")
	layouts  = set(
		"int bool ptr enum string buffer tuple record array kstack ustack ksym usym inet mac timestamp probe username cgroup_path none",
	)
	eventKinds = set(
		"printf print print_map clear zero exit time join cat system error helper_error proc unwatch skboutput errorf warnf",
	)
	seriesAggs = set("avg max min sum")
	paramTypes = set("int string bool ipv4")
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
		m.Programs[i].check(c, fmt.Sprintf("programs[%d]", i))
	}
	for i := range m.Globals {
		c.symbol(fmt.Sprintf("globals[%d].name", i), m.Globals[i].Name)
		if s := m.Globals[i].Symbol; s != "" {
			c.symbol(fmt.Sprintf("globals[%d].symbol", i), s)
		}
		c.within(fmt.Sprintf("globals[%d].size", i), int64(m.Globals[i].Size), 1, maxValue)
		m.Globals[i].checkHost(c, m, fmt.Sprintf("globals[%d]", i))
		c.pos(fmt.Sprintf("globals[%d].pos", i), m.Globals[i].Pos)
	}
	for i := range m.Maps {
		m.Maps[i].check(c, m, fmt.Sprintf("maps[%d]", i))
	}
	for i := range m.Events {
		m.Events[i].check(c, m, i)
	}
	for i := range m.Params {
		m.Params[i].check(c, fmt.Sprintf("params[%d]", i))
	}
	m.Given.check(c)
	m.checkLosses(c)
	m.checkUses(c)
	m.checkUnique(c)
	if c.err != nil {
		return c.err
	}
	return nil
}

// hostValues are the host values that a global may have.
var hostValues = set("kaddr kaddr_or_0 kfunc_exist kfunc_allowed uaddr uaddr_code cgroupid")

func (g *Global) checkHost(c *checker, m *Manifest, path string) {
	if g.Host == "" {
		return
	}
	c.oneOf(path+".host", g.Host, hostValues)
	c.text(path+".text", g.Text, maxText)
	c.within(path+".size", int64(g.Size), 8, 8)
	c.textParam(m, path+".text_from", g.TextFrom)
}

func (m *Manifest) checkHead(c *checker) {
	major, _, _ := strings.Cut(m.Schema, ".")
	switch {
	case m.Schema == "":
		c.fail("schema", "missing: not a btc manifest")
	case major != Schema:
		c.fail("schema", "unsupported version %q (expected %q): use another version of the loader", clip(m.Schema), Schema)
	}
	for i, r := range m.Requires {
		if !Knows(r) {
			c.fail(fmt.Sprintf("requires[%d]", i), "unknown feature %q: use a newer version of the loader", clip(r))
		}
	}
	if len(m.Object.SHA256) != 64 || strings.Trim(m.Object.SHA256, "0123456789abcdef") != "" {
		c.fail("object.sha256", "expected 64 lower-case hexadecimal digits")
	}
	c.within("object.size", m.Object.Size, 0, 1<<30)
	c.text("script.file", m.Script.File, maxText)
	c.text("script.source", m.Script.Source, maxSource)
	c.within("arches", int64(len(m.Arches)), 1, maxArches)
	for i, a := range m.Arches {
		c.text(fmt.Sprintf("arches[%d]", i), a, maxName)
	}
	c.text("target", m.Target, maxName)
	c.text("compiler", m.Compiler, maxName)
	c.text("language", m.Language, maxName)
	c.text("config.str_trunc_trailer", m.Config.StrTruncTrailer, maxName)
	c.within("config.max_strlen", int64(m.Config.MaxStrlen), 0, maxValue)
	c.within("config.max_stacks", int64(m.Config.MaxStacks), 0, maxEntries)
	c.within("config.ringbuf_pages", int64(m.Config.RingbufPages), 0, 1<<18)
}

func (m *Manifest) checkCounts(c *checker) {
	c.within("programs", int64(len(m.Programs)), 0, maxPrograms)
	c.within("maps", int64(len(m.Maps)), 0, maxMaps)
	c.within("events", int64(len(m.Events)), 0, maxEvents)
	c.within("params", int64(len(m.Params)), 0, maxParams)
	c.within("globals", int64(len(m.Globals)), 0, maxParams+64)
	c.within("errors", int64(len(m.Errors)), 0, maxPerScript)
	c.within("unsafe", int64(len(m.Unsafe)), 0, maxPerScript)
	c.within("needs", int64(len(m.Needs)), 0, maxPerScript)
	c.within("losses", int64(len(m.Losses)), 0, maxPerScript)
	c.within("fields", int64(len(m.Fields)), 0, maxPerScript)
}

// checkUses checks the keys that only messages use.
func (m *Manifest) checkUses(c *checker) {
	for i := range m.Needs {
		c.symbol(fmt.Sprintf("needs[%d].feature", i), m.Needs[i].Feature)
		c.text(fmt.Sprintf("needs[%d].construct", i), m.Needs[i].Construct, maxName)
		c.pos(fmt.Sprintf("needs[%d].pos", i), &m.Needs[i].Pos)
	}
	for i := range m.Fields {
		c.within(fmt.Sprintf("fields[%d].insn", i), int64(m.Fields[i].Insn), 0, maxInsn)
		c.pos(fmt.Sprintf("fields[%d].pos", i), &m.Fields[i].Pos)
	}
	for i := range m.Unsafe {
		c.text(fmt.Sprintf("unsafe[%d].name", i), m.Unsafe[i].Name, maxName)
		c.pos(fmt.Sprintf("unsafe[%d].pos", i), &m.Unsafe[i].Pos)
	}
	for i := range m.Errors {
		c.text(fmt.Sprintf("errors[%d].text", i), m.Errors[i].Text, maxText)
		c.text(fmt.Sprintf("errors[%d].helper", i), m.Errors[i].Helper, maxName)
		c.pos(fmt.Sprintf("errors[%d].pos", i), &m.Errors[i].Pos)
		c.chain(fmt.Sprintf("errors[%d].chain", i), m.Errors[i].Chain)
	}
}

func (p *Program) check(c *checker, path string) {
	c.symbol(path+".name", p.Name)
	c.text(path+".section", p.Section, maxText)
	if probe.Lookup(p.Kind) == nil {
		c.fail(path+".kind", "unknown value %q", clip(p.Kind))
	}
	c.within(path+".first_id", int64(p.FirstID), 0, 1<<31-1)
	c.within(path+".id_insns", int64(len(p.IDInsns)), 0, maxPerScript)
	for i, n := range p.IDInsns {
		c.within(fmt.Sprintf("%s.id_insns[%d]", path, i), int64(n), 0, maxInsn)
	}
	c.within(path+".args", int64(len(p.Args)), 0, maxArgs)
	for i, a := range p.Args {
		c.text(fmt.Sprintf("%s.args[%d].name", path, i), a.Name, maxName)
		c.text(fmt.Sprintf("%s.args[%d].type", path, i), a.Type, maxText)
		c.within(fmt.Sprintf("%s.args[%d].slot", path, i), int64(a.Slot), 0, maxArgs)
	}
	c.within(path+".record", int64(len(p.Record)), 0, maxArgs)
	for i, u := range p.Record {
		c.text(fmt.Sprintf("%s.record[%d].name", path, i), u.Name, maxName)
		c.within(fmt.Sprintf("%s.record[%d].offset", path, i), int64(u.Offset), 0, 1<<20)
		c.within(fmt.Sprintf("%s.record[%d].size", path, i), int64(u.Size), 0, 1<<20)
		c.oneOf(fmt.Sprintf("%s.record[%d].sign", path, i), u.Sign, signs)
		c.pos(fmt.Sprintf("%s.record[%d].pos", path, i), &p.Record[i].Pos)
	}
	p.Code.check(c, path+".code")
	c.pos(path+".pos", &p.Pos)
	p.Attach.check(c, path+".attach", p.Kind)
}

// contexts are the values of Code.Context.
var contexts = set("none record regs args")

// MaxFrame is the stack of a BPF program (MAX_BPF_STACK), in bytes.
const MaxFrame = 512

// MaxCallArgs is the maximum number of arguments of a system call.
const MaxCallArgs = 6

func (p *Code) check(c *checker, path string) {
	if p == nil {
		return
	}
	c.oneOf(path+".context", p.Context, contexts)
	c.within(path+".frame", int64(p.Frame), 0, MaxFrame)
	c.within(path+".record_args", int64(len(p.RecordArgs)), 0, MaxCallArgs)
	for i, n := range p.RecordArgs {
		c.within(fmt.Sprintf("%s.record_args[%d]", path, i), int64(n), 0, MaxCallArgs-1)
	}
	c.within(path+".forms", int64(len(p.Forms)), 0, maxPerScript)
	for i, f := range p.Forms {
		if f.Function != "" {
			c.symbol(fmt.Sprintf("%s.forms[%d].function", path, i), f.Function)
		}
		c.within(fmt.Sprintf("%s.forms[%d].insn", path, i), int64(f.Insn), 0, maxInsn)
		c.text(fmt.Sprintf("%s.forms[%d].arch", path, i), f.Arch, maxName)
		c.text(fmt.Sprintf("%s.forms[%d].helper", path, i), f.Helper, maxName)
	}
}

// signs are the values of RecordUse.Sign.
var signs = map[string]bool{"": true, "signed": true, "unsigned": true}

func (a *Attach) check(c *checker, path, kind string) {
	for _, x := range []struct{ key, v string }{{"text", a.Text}, {"target", a.Target}, {"name", a.Name}} {
		c.text(path+"."+x.key, x.v, maxText)
		if strings.ContainsRune(x.v, 0) {
			c.fail(path+"."+x.key, "contains a NUL byte")
		}
	}
	c.within(path+".fill", int64(len(a.Fill)), 0, maxParts)
	for i, part := range a.Fill {
		c.text(fmt.Sprintf("%s.fill[%d]", path, i), part, maxText)
	}
	if len(a.Fill) > 0 { // the loader checks the rest after substituting the parameters
		return
	}
	c.within(path+".len", int64(a.Len), 0, 8)
	c.text(path+".mode", a.Mode, 8)
	switch a.Missing {
	case "", "error", "warn", "ignore":
	default:
		c.fail(path+".missing", "unknown value %q", clip(a.Missing))
	}
	switch kind {
	case probe.Profile, probe.Interval:
		if !slices.Contains(probe.Units(), a.Unit) {
			c.fail(path+".unit", "unknown value %q", clip(a.Unit))
		}
		if a.Count == 0 || a.Count > probe.MaxCount {
			c.fail(path+".count", "%d is not a valid rate or period", a.Count)
		}
	case probe.Uprobe, probe.Uretprobe: // without a name, address 0 is valid, too
		if a.Binary != "" && !strings.HasPrefix(a.Binary, "build-id:") && !strings.HasPrefix(a.Binary, "text:") {
			c.fail(path+".binary", "%q is not a build identity", clip(a.Binary))
		}
	case probe.Tracepoint, probe.USDT, probe.RawTracepoint, probe.Fentry, probe.Fexit, probe.Kretprobe:
		if a.Name == "" && a.Addr == 0 {
			c.fail(path+".name", "missing")
		}
	}
}

// maxParts bounds the parts of an attach point.
const maxParts = 8

func (g *Given) check(c *checker) {
	if g == nil {
		return
	}
	c.within("given.values", int64(len(g.Values)), 0, maxParams)
	for i, v := range g.Values {
		c.text(fmt.Sprintf("given.values[%d]", i), v, maxText)
	}
	c.within("given.fixed", int64(len(g.Fixed)), 0, maxParams)
	for i, n := range g.Fixed {
		c.within(fmt.Sprintf("given.fixed[%d]", i), int64(n), 1, int64(len(g.Values)))
	}
	c.within("given.options", int64(len(g.Options)), 0, maxParams)
	for name, v := range g.Options {
		c.text("given.options", name, maxName)
		c.text("given.options", v, maxText)
	}
	c.within("given.fixed_options", int64(len(g.FixedOptions)), 0, maxParams)
}

func (p *Param) check(c *checker, path string) {
	c.text(path+".name", p.Name, maxName)
	if p.Name == "" {
		c.fail(path+".name", "missing")
	}
	c.symbol(path+".global", p.Global)
	c.oneOf(path+".type", p.Type, paramTypes)
	c.pos(path+".pos", &p.Pos)
	c.text(path+".default", p.Default, maxText)
	c.text(path+".help", p.Help, maxText)
	if p.Type == "string" {
		c.within(path+".size", int64(p.Size), 1, maxText)
	} else if p.Size != 4 && p.Size != 8 {
		c.fail(path+".size", "%d is not 4 or 8", p.Size)
	}
}

func (m *Manifest) checkLosses(c *checker) {
	for i, l := range m.Losses {
		path := fmt.Sprintf("losses[%d]", i)
		c.oneOf(path+".kind", l.Kind, lossKinds)
		c.pos(path+".pos", l.Pos)
		c.chain(path+".chain", l.Chain)
		if l.Kind == "map" && m.Map(l.Map) == nil {
			c.fail(path+".map", "unknown map %q", clip(l.Map))
		}
	}
}

func (m *Manifest) checkUnique(c *checker) {
	names, symbols := make(map[string]bool), make(map[string]bool)
	for i := range m.Maps {
		path, x := fmt.Sprintf("maps[%d]", i), &m.Maps[i]
		if names[x.Name] || symbols[x.Symbol] {
			c.fail(path, "duplicate map %q", clip(x.Name))
		}
		names[x.Name], symbols[x.Symbol] = true, true
	}
	progs := make(map[string]bool)
	for i := range m.Programs {
		if progs[m.Programs[i].Name] {
			c.fail(fmt.Sprintf("programs[%d].name", i), "duplicate program %q", clip(m.Programs[i].Name))
		}
		progs[m.Programs[i].Name] = true
	}
}
