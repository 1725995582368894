// Package cdef reads the C text at the top of a script: #include, #define, the
// conditional directives, and definitions of struct, union, enum and typedef.
//
// It takes that text and a target and gives an Env, which answers what a tag, a
// type name or a constant means: the script's own definition first, then the
// target's (BTF), then a table of constants of the user-space headers.
//
// Headers are not read. What scripts include kernel headers for is types, which
// the target has, and constants, which the table has.
package cdef

import (
	"btc/frontend/diag"
	"btc/frontend/types"
	"btc/ir/target"
	"errors"
)

// Chunk is one piece of C text: a preprocessor line or a definition.
type Chunk struct {
	At        diag.Span
	Text      string
	Directive bool
}

// Env is what C text and target define.
type Env struct {
	target *target.Target
	diags  *diag.List

	kernel   map[*target.Type]*types.Type
	asked    map[string]*types.Type // tags looked for in the target; nil for absent ones
	macros   map[string]*macro
	tags     map[string]*types.Type // "struct x", "union x", "enum x"
	typedefs map[string]*types.Type
	enums    map[string]Const // enumerators of the script

	pack    int   // #pragma pack in force, 0 for none
	packs   []int // those outside of it
	nesting []condition
}

// Const is an integer or string constant.
type Const struct {
	Type *types.Type // of an enumerator its Enum type, else the literal's
	Int  int64
	Str  string
	// IsStr: the value is Str.
	IsStr bool
	// Enumerator is set for an enumerator of a named kernel enum, whose value may
	// differ on the host.
	Enumerator bool
}

// Read reads the chunks of a script in order. Errors go to l; what could be
// read is in the Env in any case.
func Read(chunks []Chunk, t *target.Target, l *diag.List) *Env {
	e := &Env{
		target: t, diags: l,
		kernel: map[*target.Type]*types.Type{}, asked: map[string]*types.Type{}, macros: map[string]*macro{},
		tags: map[string]*types.Type{}, typedefs: map[string]*types.Type{}, enums: map[string]Const{},
	}
	for _, name := range predefined(t.Arch().GOARCH) {
		e.macros[name] = &macro{name: name, body: []token{{kind: number, text: "1"}}}
	}
	for _, c := range chunks {
		switch {
		case c.Directive:
			e.directive(c)
		case e.active():
			e.definition(c)
		}
	}
	if n := len(e.nesting); n > 0 {
		l.Add(diag.CSyntax, e.nesting[n-1].at, "#if without #endif")
	}
	return e
}

// predefined are the macros that every script sees as 1.
func predefined(goarch string) []string {
	all := []string{"BPFTRACE_HAVE_BTF", "__LP64__", "__linux__", "__BTC__"}
	switch goarch {
	case "amd64":
		return append(all, "__x86_64__")
	case "arm64":
		return append(all, "__aarch64__")
	}
	return all
}

// Tagged finds "struct name", "union name" or "enum name"; word is the keyword.
func (e *Env) Tagged(word, name string) (*types.Type, bool) {
	if t, ok := e.tags[word+" "+name]; ok {
		return t, true
	}
	return e.kernelTag(word, name)
}

// Own reports whether the script itself defines the tag.
func (e *Env) Own(word, name string) bool { _, ok := e.tags[word+" "+name]; return ok }

// kernelTag finds a tag in the target. The checker asks for the same ones in
// each of its rounds, so answers are kept.
func (e *Env) kernelTag(word, name string) (*types.Type, bool) {
	key := word + " " + name
	t, asked := e.asked[key]
	if !asked {
		t, _ = e.findKernelTag(word, name)
		e.asked[key] = t
	}
	return t, t != nil
}

func (e *Env) findKernelTag(word, name string) (*types.Type, bool) {
	look := map[string]func(string) (*target.Type, bool){
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

// baseTypes are names that a target need not have: those of C with one word,
// and the fixed-size names of the kernel and of <stdint.h>.
var baseTypes = map[string]*types.Type{
	"char": types.TInt8, "short": types.TInt16, "int": types.TInt32, "long": types.TInt64,
	"unsigned": types.TUint32, "signed": types.TInt32, "_Bool": types.TBool, "bool": types.TBool, "void": types.TNone,
	"int8_t": types.TInt8, "int16_t": types.TInt16, "int32_t": types.TInt32, "int64_t": types.TInt64,
	"uint8_t": types.TUint8, "uint16_t": types.TUint16, "uint32_t": types.TUint32, "uint64_t": types.TUint64,
	"s8": types.TInt8, "s16": types.TInt16, "s32": types.TInt32, "s64": types.TInt64,
	"u8": types.TUint8, "u16": types.TUint16, "u32": types.TUint32, "u64": types.TUint64,
	"__s8": types.TInt8, "__s16": types.TInt16, "__s32": types.TInt32, "__s64": types.TInt64,
	"__u8": types.TUint8, "__u16": types.TUint16, "__u32": types.TUint32, "__u64": types.TUint64,
	"size_t": types.TUint64, "ssize_t": types.TInt64, "uintptr_t": types.TUint64, "intptr_t": types.TInt64,
	"int8": types.TInt8, "int16": types.TInt16, "int32": types.TInt32, "int64": types.TInt64,
	"uint8": types.TUint8, "uint16": types.TUint16, "uint32": types.TUint32, "uint64": types.TUint64,
	"uint": types.TUint32, "ulong": types.TUint64, "ushort": types.TUint16, "uchar": types.TUint8,
}

// Constant finds the constant that a name means. ok is false for a name that is
// none; a macro that is no constant expression gives ok and an error.
func (e *Env) Constant(name string) (c Const, ok bool, err error) {
	m, found := e.macros[name]
	if found && !m.busy { // a macro's own name in its body is not the macro
		c, err = e.macroValue(m)
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

// ErrItself is of a macro whose value would be computed from itself.
var ErrItself = errors.New("it refers to itself")

// Macro reports whether the script or the compiler defines a macro of this name.
func (e *Env) Macro(name string) bool { _, ok := e.macros[name]; return ok }

func literal(v int64) *types.Type {
	if v < 0 {
		return types.NegativeLiteral(v)
	}
	return types.Literal(uint64(v))
}
