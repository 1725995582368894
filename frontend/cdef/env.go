// SPDX-License-Identifier: Apache-2.0

// Package cdef parses the C definitions of a script: struct, union, enum and typedef, from
// the tokens that cpp made from its C text.
//
// It takes these tokens and a target and returns an Env, which resolves tags, type names and
// constants: the script's own definition first, then the target's (BTF), then a table of
// constants of the user-space headers.
package cdef

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"btc/frontend/cpp"
	"btc/frontend/diag"
	"btc/frontend/types"
	"btc/targets/kernel"
)

// Env is what the C text and the target define.
type Env struct {
	target *kernel.Target
	diags  *diag.List

	kernel   map[*kernel.Type]*types.Type
	lookups  map[string]*types.Type // results of target lookups; nil for absent tags
	unit     *cpp.Unit
	busy     map[string]bool        // macros whose values are being computed
	values   map[string]macroValue  // values of macros
	aliases  map[string]*types.Type // types that macros expand to; nil for other macros
	read     bool                   // all definitions are known
	tags     map[string]*types.Type // "struct x", "union x", "enum x"
	typedefs map[string]*types.Type
	enums    map[string]Const // enumerators of the script

	pack  int   // #pragma pack in force, 0 for none
	packs []int // enclosing values, for #pragma pack(pop)
}

// Const is an integer or string constant.
type Const struct {
	Type *types.Type // the Enum type of an enumerator, else the literal's type
	Int  int64
	Str  string
	// IsStr: the value is Str.
	IsStr bool
	// Enumerator is set for an enumerator of a named kernel enum, whose value may
	// differ on the host.
	Enumerator bool
}

// macroValue is the cached result of Constant for a macro.
type macroValue struct {
	c   Const
	err error
}

// Read parses the definitions. Errors are added to l; the Env contains what could be parsed
// in any case.
func Read(u *cpp.Unit, t *kernel.Target, l *diag.List) *Env {
	e := &Env{
		target: t, diags: l, unit: u, busy: map[string]bool{}, values: map[string]macroValue{},
		aliases: map[string]*types.Type{},
		kernel:  map[*kernel.Type]*types.Type{}, lookups: map[string]*types.Type{},
		tags: map[string]*types.Type{}, typedefs: map[string]*types.Type{}, enums: map[string]Const{},
	}
	e.definitions(u.Tokens)
	e.read = true
	return e
}

// pragma implements only #pragma pack.
func (e *Env) pragma(toks []cpp.Token) {
	if len(toks) < 3 || toks[0].Text != "pack" {
		return
	}
	for _, t := range toks[1:] {
		switch {
		case t.Text == "push":
			e.packs = append(e.packs, e.pack)
		case t.Text == "pop" && len(e.packs) > 0:
			e.pack = e.packs[len(e.packs)-1]
			e.packs = e.packs[:len(e.packs)-1]
		case t.Kind == cpp.Number:
			if v, err := cpp.ParseInt(t.Text); err == nil && v <= 16 {
				e.pack = int(v)
			}
		}
	}
	if len(toks) == 3 {
		e.pack = 0
	}
}

// Tagged finds "struct name", "union name" or "enum name"; word is the keyword.
func (e *Env) Tagged(word, name string) (*types.Type, bool) {
	if t, ok := e.tags[word+" "+name]; ok {
		return t, true
	}
	return e.kernelTag(word, name)
}

// Tags returns the tags that the script defines, sorted; word is the keyword.
func (e *Env) Tags(word string) []string {
	var all []string
	for key := range e.tags {
		if name, ok := strings.CutPrefix(key, word+" "); ok {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// ConstantNames returns the constants of the script, sorted, and those of the
// headers with prefix head.
func (e *Env) ConstantNames(head string) []string {
	all := slices.Concat(slices.Collect(maps.Keys(e.enums)), e.unit.Macros())
	slices.Sort(all)
	if head == "" {
		return all
	}
	return append(append(all, e.target.EnumConsts(head)...), tableNames(e.target.Arch().GOARCH, head)...)
}

// Own reports whether the script itself defines the tag.
func (e *Env) Own(word, name string) bool { _, ok := e.tags[word+" "+name]; return ok }

// kernelTag finds a tag in the target. Results are cached, because the checker looks up the same tags in each of its
// rounds.
func (e *Env) kernelTag(word, name string) (*types.Type, bool) {
	key := word + " " + name
	t, found := e.lookups[key]
	if !found {
		t, _ = e.findKernelTag(word, name)
		e.lookups[key] = t
	}
	return t, t != nil
}

func (e *Env) findKernelTag(word, name string) (*types.Type, bool) {
	look := map[string]func(string) (*kernel.Type, bool){
		"struct": e.target.Struct, "union": e.target.Union, "enum": e.target.Enum,
	}[word]
	if t, ok := look(name); ok {
		return e.Kernel(t), true
	}
	return nil, false
}

// Named finds the type that a plain name means: a typedef, a C base type, or
// the tag of a struct, union or enum written without its keyword.
func (e *Env) Named(name string) (*types.Type, bool) {
	if t := e.macroType(name); t != nil {
		return t, true
	}
	if t, ok := e.typedefs[name]; ok {
		return t, true
	}
	if t, ok := baseTypes[name]; ok {
		return t, true
	}
	for _, word := range []string{"struct", "union", "enum"} {
		if t, ok := e.tags[word+" "+name]; ok {
			return t, true
		}
	}
	if t, ok := e.target.TypeName(name); ok {
		return e.Kernel(t), true
	}
	return nil, false
}

// baseTypes are types that a target need not define: the one-word types of C, and the fixed-size types of the kernel
// and of <stdint.h>.
var baseTypes = map[string]*types.Type{
	"char": types.TUint8, "short": types.TInt16, "int": types.TInt32, "long": types.TInt64,
	"unsigned": types.TUint32, "signed": types.TInt32, "_Bool": types.TUint8, "bool": types.TUint8, "void": types.TNone,
	"int8_t": types.TInt8, "int16_t": types.TInt16, "int32_t": types.TInt32, "int64_t": types.TInt64,
	"uint8_t": types.TUint8, "uint16_t": types.TUint16, "uint32_t": types.TUint32, "uint64_t": types.TUint64,
	"s8": types.TInt8, "s16": types.TInt16, "s32": types.TInt32, "s64": types.TInt64,
	"u8": types.TUint8, "u16": types.TUint16, "u32": types.TUint32, "u64": types.TUint64,
	"__s8": types.TInt8, "__s16": types.TInt16, "__s32": types.TInt32, "__s64": types.TInt64,
	"__u8": types.TUint8, "__u16": types.TUint16, "__u32": types.TUint32, "__u64": types.TUint64,
	"size_t": types.TUint64, "ssize_t": types.TInt64, "uintptr_t": types.TUint64, "intptr_t": types.TInt64,
	"intmax_t": types.TInt64, "uintmax_t": types.TUint64, "ptrdiff_t": types.TInt64, "wchar_t": types.TInt32,
	"int_least8_t": types.TInt8, "int_least16_t": types.TInt16, "int_least32_t": types.TInt32, "int_least64_t": types.TInt64,
	"uint_least8_t": types.TUint8, "uint_least16_t": types.TUint16, "uint_least32_t": types.TUint32, "uint_least64_t": types.TUint64,
	"time_t": types.TInt64, "off_t": types.TInt64, "suseconds_t": types.TInt64, "useconds_t": types.TUint32, "socklen_t": types.TUint32,
	"in_addr_t": types.TUint32, "in_port_t": types.TUint16, "sa_family_t": types.TUint16, "pthread_t": types.TUint64,
	"FILE": types.MakeStruct(&types.Composite{Tag: "_IO_FILE", Align: 1, Forward: true}),
	"int8": types.TInt8, "int16": types.TInt16, "int32": types.TInt32, "int64": types.TInt64,
	"uint8": types.TUint8, "uint16": types.TUint16, "uint32": types.TUint32, "uint64": types.TUint64,
	"uint": types.TUint32, "ulong": types.TUint64, "ushort": types.TUint16, "uchar": types.TUint8,
}

// Constant returns the constant with a name. ok is false for a name that is not a constant;
// a macro that is not a constant expression returns ok and an error.
func (e *Env) Constant(name string) (c Const, ok bool, err error) {
	m, found := e.unit.Macro(name)
	if found && !e.busy[name] { // in a macro's body its own name is not a macro
		if have, ok := e.values[name]; ok {
			return have.c, true, have.err
		}
		c, err = e.macroValue(m)
		if len(e.busy) == 0 {
			e.values[name] = macroValue{c, err}
		}
		return c, true, err
	}
	if c, found := e.enums[name]; found {
		return c, true, nil
	}
	if enum, v, found := e.target.EnumConst(name); found {
		return Const{Type: e.Kernel(enum), Int: v, Enumerator: enum.Name != ""}, true, nil
	}
	if v, found := tableConstant(e.target.Arch().GOARCH, name); found {
		return Const{Type: literal(v), Int: v}, true, nil
	}
	if found {
		return Const{}, true, ErrItself
	}
	return Const{}, false, nil
}

// ErrItself is the error for a macro whose value depends on itself.
var ErrItself = errors.New("it refers to itself")

// Macro reports whether the script or the compiler defines a macro of this name.
func (e *Env) Macro(name string) bool { _, ok := e.unit.Macro(name); return ok }

// MacroText returns the body of a macro, as written.
func (e *Env) MacroText(name string) string {
	m, ok := e.unit.Macro(name)
	if !ok {
		return ""
	}
	if m.At.Private() {
		return "..."
	}
	return cpp.Join(m.Body)
}

// TakesArguments reports whether a name is a macro with parameters.
func (e *Env) TakesArguments(name string) bool {
	m, ok := e.unit.Macro(name)
	return ok && m.Function
}

// macroValue evaluates a macro's body as a constant expression.
func (e *Env) macroValue(m *cpp.Macro) (Const, error) {
	switch {
	case m.Function:
		return Const{}, errors.New("it has parameters")
	case len(m.Body) == 0:
		return Const{}, errors.New("it is empty")
	}
	e.busy[m.Name] = true
	defer delete(e.busy, m.Name)
	p := &parser{env: e, toks: e.unit.Expand(m.Body, nil)}
	v, err := p.constant()
	if err == nil && p.peek().Kind != cpp.End {
		err = fmt.Errorf("unexpected '%s'", p.peek().Text)
	}
	return v, err
}

// macroType returns the type that a macro expands to, or nil if there is none.
func (e *Env) macroType(name string) *types.Type {
	m, ok := e.unit.Macro(name)
	if !ok || m.Function || e.busy[name] || len(m.Body) == 0 {
		return nil
	}
	if t, known := e.aliases[name]; known {
		return t
	}
	e.busy[name] = true
	p := &parser{env: e, toks: e.unit.Expand(m.Body, nil)}
	var t *types.Type
	if p.startsType() {
		made, err := p.typeName()
		if err == nil && p.peek().Kind == cpp.End {
			t = made
		}
	}
	if delete(e.busy, name); e.read && len(e.busy) == 0 {
		e.aliases[name] = t
	}
	return t
}

func literal(v int64) *types.Type {
	if v < 0 {
		return types.NegativeLiteral(v)
	}
	return types.Literal(uint64(v))
}
