// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"path"
	"slices"
	"strings"

	"btc/internal/kernelfs"
	"btc/targets/targetfile"
)

// Struct finds the struct of a tag. If the kernel has several different ones of the name,
// it returns the one with the most references from other types; Structs has all. It also
// knows records of tracepoints that other kernels have under another name (history.go), and those
// that programs of system call tracepoints get.
func (t *Target) Struct(name string) (*Type, bool) {
	if typ, ok := t.first(targetfile.Struct, name); ok {
		return typ, true
	}
	if typ, ok := t.otherStruct(name); ok {
		return typ, true
	}
	if typ, ok := t.structOnOthers(name); ok {
		return typ, true
	}
	return t.syscallRecord(name)
}

// Union finds the union of a tag; see Struct.
func (t *Target) Union(name string) (*Type, bool) { return t.first(targetfile.Union, name) }

// Enum finds the enum of a tag; see Struct.
func (t *Target) Enum(name string) (*Type, bool) { return t.first(targetfile.Enum, name) }

// Typedef finds a typedef; see Struct.
func (t *Target) Typedef(name string) (*Type, bool) { return t.first(targetfile.Typedef, name) }

// Base finds an integer or floating-point type by its BTF name:
// "int", "unsigned int", "long unsigned int", "char", "_Bool".
func (t *Target) Base(name string) (*Type, bool) { return t.first(targetfile.Int, name) }

// Structs returns all structs of a tag.
func (t *Target) Structs(name string) []*Type { return t.named(targetfile.Struct, name) }

// Named returns all types of one kind (Struct, Union, Enum, Typedef, Int) and name.
func (t *Target) Named(k Kind, name string) []*Type {
	switch k {
	case Struct:
		return t.named(targetfile.Struct, name)
	case Union:
		return t.named(targetfile.Union, name)
	case Enum:
		return t.named(targetfile.Enum, name)
	case Typedef:
		return t.named(targetfile.Typedef, name)
	case Int:
		return t.named(targetfile.Int, name)
	}
	return nil
}

func (t *Target) first(k targetfile.Kind, name string) (*Type, bool) {
	all := t.named(k, name)
	if len(all) == 0 {
		return nil, false
	}
	return all[0], true
}

func (t *Target) named(k targetfile.Kind, name string) []*Type {
	if name == "" {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	key := namedKey{k, name}
	all, ok := t.byName[key]
	if ok {
		return all
	}
	refs, err := t.file.Named(k, name)
	t.fail(err)
	for _, r := range refs {
		all = append(all, t.typ(r))
	}
	if t.byName == nil {
		t.byName = map[namedKey][]*Type{}
	}
	t.byName[key] = all
	return all
}

// namedKey is the key of a lookup by name; the file's index is searched once per key.
type namedKey struct {
	kind targetfile.Kind
	name string
}

// EnumConsts lists the enumerators with prefix head.
func (t *Target) EnumConsts(head string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []string
	t.fail(t.file.Consts(head, func(name string) bool {
		all = append(all, name)
		return true
	}))
	return all
}

// EnumConst finds an enumerator by name, in whichever enum defines it, and returns that
// enum and the value.
func (t *Target) EnumConst(name string) (enum *Type, value int64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	refs, err := t.file.EnumOf(name)
	t.fail(err)
	for _, r := range refs {
		enum := t.typ(r)
		for _, e := range enum.Enumerators {
			if e.Name == name {
				return enum, e.Value, true
			}
		}
	}
	return nil, 0, false
}

// HasFunc reports whether a function of this name can be traced with a kprobe.
func (t *Target) HasFunc(name string) bool {
	f, ok := t.Func(name)
	return ok && f.Traceable
}

// Func finds a function. Functions that are neither traceable nor callable by
// BPF programs are not in the target.
func (t *Target) Func(name string) (*Function, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rec, ok, err := t.file.Func(name)
	t.fail(err)
	if !ok {
		return nil, false
	}
	f := &Function{Name: rec.Name, Module: rec.Module, Traceable: rec.Traceable, Kfunc: rec.Kfunc}
	if rec.Proto != nil {
		f.Proto = t.build(rec.Proto)
	}
	return f, true
}

// Funcs lists the traceable functions whose name matches a pattern with * (any
// text), ? (any character) and [...] (character class), sorted.
func (t *Target) Funcs(pattern string) []string {
	if t.probes != nil {
		return t.probes.Funcs(pattern)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []string
	t.fail(t.file.Funcs(literal(pattern), func(f targetfile.Func) bool {
		if f.Traceable && matches(pattern, f.Name) {
			all = append(all, f.Name)
		}
		return true
	}))
	return all
}

// ModuleOf returns the module of a type that exists only in modules, by the functions that accept pointers to it,
// because targets do not record it. It returns "" if the kernel itself has the type, or if no function shows the module.
func (t *Target) ModuleOf(k Kind, name string) string {
	all := t.Named(k, name)
	if len(all) == 0 || slices.ContainsFunc(all, func(t *Type) bool { return !t.InModule }) {
		return ""
	}
	t.mu.Lock()
	module, known := t.modules[name]
	t.mu.Unlock()
	if known {
		return module
	}
	votes, best := map[string]int{}, ""
	for _, fn := range t.moduleFuncs() {
		for _, p := range fn.Proto.Params {
			if r := p.Type().Resolve(); r.Kind == Pointer {
				if to := r.Elem().Resolve(); to.Kind == k && to.Name == name {
					votes[fn.Module]++
				}
			}
		}
		if votes[fn.Module] > votes[best] {
			best = fn.Module
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.modules == nil {
		t.modules = map[string]string{}
	}
	t.modules[name] = best
	return best
}

// moduleFuncs returns the functions of modules that have a prototype.
func (t *Target) moduleFuncs() []Function {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []Function
	t.fail(t.file.ModuleFuncs(func(f targetfile.Func) {
		if f.Proto != nil {
			all = append(all, Function{Name: f.Name, Module: f.Module, Proto: t.build(f.Proto)})
		}
	}))
	return all
}

// Traceable lists the traceable functions with their modules, without prototypes.
func (t *Target) Traceable() []Function {
	if t.probes != nil {
		return t.probes.Traceable()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []Function
	t.fail(t.file.Funcs("", func(f targetfile.Func) bool {
		if f.Traceable {
			all = append(all, Function{Name: f.Name, Module: f.Module, Traceable: true, Kfunc: f.Kfunc})
		}
		return true
	}))
	return all
}

// RawTracepoint finds the arguments that a raw tracepoint's programs get. The
// prototype's first parameter, the kernel's own void *, is omitted.
func (t *Target) RawTracepoint(name string) (*Type, bool) {
	def, ok := t.Typedef("btf_trace_" + name)
	if !ok {
		return nil, false
	}
	ptr := def.Resolve()
	if ptr.Kind != Pointer {
		return nil, false
	}
	proto := ptr.Elem()
	if proto.Kind != Func || len(proto.Params) == 0 {
		return nil, false
	}
	own := *proto
	own.Params = own.Params[1:]
	return &own, true
}

// RawTracepoints lists the raw tracepoints that match a pattern; see Funcs.
func (t *Target) RawTracepoints(pattern string) []string {
	if t.probes != nil {
		return t.probes.RawTracepoints(pattern)
	}
	return t.typeNames(targetfile.Typedef, "btf_trace_", pattern)
}

// Iter finds the parameters of a kind of iterator (task, task_file, bpf_map,
// tcp ...): pointers to struct bpf_iter_meta and the iterated objects.
func (t *Target) Iter(kind string) (*Type, bool) {
	f, ok := t.Func(iterPrefix + kind)
	if !ok || f.Proto == nil {
		return nil, false
	}
	return f.Proto, true
}

// Iters lists the kinds of iterators that scripts can use, sorted: those with a
// context struct and a function that describes their parameters.
func (t *Target) Iters() []string {
	kinds := t.typeNames(targetfile.Struct, iterStruct, "*")
	return slices.DeleteFunc(kinds, func(kind string) bool {
		_, ok := t.Iter(kind)
		return !ok || IterOverMap(kind) != ""
	})
}

// IterOverMap returns what an iterator that needs a map of another program visits, "" for other
// kinds.
func IterOverMap(kind string) string { return kernelfs.IterOverMap[kind] }

const iterStruct = "bpf_iter__"
const iterPrefix = "bpf_iter_"

// StructNames lists the struct tags that match a pattern; see Funcs.
func (t *Target) StructNames(pattern string) []string {
	return t.typeNames(targetfile.Struct, "", pattern)
}

// UnionNames lists the tags of unions that match a pattern, sorted.
func (t *Target) UnionNames(pattern string) []string {
	return t.typeNames(targetfile.Union, "", pattern)
}

// EnumNames lists the tags of enums that match a pattern, sorted.
func (t *Target) EnumNames(pattern string) []string {
	return t.typeNames(targetfile.Enum, "", pattern)
}

// typeNames lists the names of a kind that are prefix followed by a match of pattern,
// without the prefix.
func (t *Target) typeNames(k targetfile.Kind, prefix, pattern string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []string
	t.fail(t.file.TypeNames(k, prefix+literal(pattern), func(name string) bool {
		if name = name[len(prefix):]; matches(pattern, name) {
			all = append(all, name)
		}
		return true
	}))
	return all
}

// literal returns the pattern up to its first special character.
func literal(pattern string) string {
	if i := strings.IndexAny(pattern, "*?[\\"); i >= 0 {
		return pattern[:i]
	}
	return pattern
}

// matches: names of kernel objects contain no '/', so path.Match's * is enough.
func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}
