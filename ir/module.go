// SPDX-License-Identifier: Apache-2.0

package ir

import (
	"fmt"
	"slices"
	"strings"

	"btc/internal/arch"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/targets/kernel"
)

// Module is one script: programs, maps, globals, and what the manifest needs.
type Module struct {
	Name   string // script's base name, a C identifier
	File   string // base name of the script's file (directories do not appear in the object); "stdin" for -e
	Source string // source text
	Suffix string // ends the names of the object's own symbols, see Symbol; "" for none
	// MapPrefix begins the symbols of the script's maps, see MapSymbol; "" for none.
	MapPrefix string
	Target    *kernel.Target
	// Arches are the architectures that the object supports, the target's first. If empty,
	// only the target's.
	Arches []*arch.Arch

	Funcs   []*Func
	Maps    []*Map
	Globals []*Global
	Events  []*Event
	Stmts   []Stmt
	Meta    Meta
}

// Served returns the architectures that the object supports; see Arches. None without a target.
func (m *Module) Served() []*arch.Arch {
	switch {
	case len(m.Arches) > 0:
		return m.Arches
	case m.Target != nil:
		return []*arch.Arch{m.Target.Arch()}
	}
	return nil
}

// Symbol returns the ELF symbol of something that is not the script's own map: a program, a variable, a map
// of the compiler. Objects that are linked into one may not have the same global symbols.
func (m *Module) Symbol(name string) string { return name + m.Suffix }

// MapSymbol returns the ELF symbol of a map. Maps of the script keep their names, or have the prefix that the
// user chose: @bytes is "bytes" or "PREFIX_bytes", and @ is "AT_" or "PREFIX".
func (m *Module) MapSymbol(x *Map) string {
	switch {
	case x.Shape == ShapeIntern || x.Shape == ShapeStack:
		return m.Symbol(x.BPF.Name)
	case m.MapPrefix == "":
		return x.BPF.Name
	case x.Name == "@":
		return m.MapPrefix
	}
	return m.MapPrefix + "_" + x.BPF.Name
}

// Stmt is a statement of the script, for line info.
type Stmt struct {
	Line, Col int
	Text      string // one line, at most 120 bytes
}

// Meta is needed only by the manifest and the loader.
type Meta struct {
	// For is the program whose map format the object has: ebpf_exporter or gadget; "": btrun's own.
	For      string
	Config   map[string]string // config keys that act at load or run time, with their values as strings
	Unsafe   []UnsafeUse       // actions that need --unsafe
	Warnings []string
	Errors   []RuntimeError // messages that OpDivZero, OpError and similar ops refer to
	Needs    []Need         // required kernel features that 5.10 lacks
	// Sites are the expressions that Pos.Site counts. Empty: failing helpers are not
	// reported.
	Sites []RuntimeError
	// Clauses describe the clauses of the script to a loader that explains why one prints nothing.
	Clauses []Clause
}

// Clause describes a clause in terms of its source: which part is its predicate, what that compares, and which elements
// of maps it reads. The positions are those that the instructions have in line info.
type Clause struct {
	Number int
	// Predicate and Last span the predicate and the last statement of the body; NoPos: there is none, or its code has
	// other positions because it comes from a macro or a function.
	Predicate, Last Span
	// Returns is set if the body has a return statement.
	Returns bool
	Tests   []Test
	Reads   []MapRead
	Stores  []string // maps of which some clause reads elements, and this one stores them
	// Branches are the if statements and while loops whose bodies store to maps or print. Effects are the effects of any
	// Branch that the clause also has outside of their bodies.
	Branches []Branch
	Effects  []string
}

// EffectPrint is the effect of a statement that prints.
const EffectPrint = manifest.EffectPrint

// Branch is an if statement or while loop in the body of a clause.
type Branch struct {
	Cond, Body Span // Body is what runs if Cond is true
	Loop       bool // while
	Tests      []Test
	// Effects are the maps that the body stores to, and EffectPrint if it prints, other than in a Branch inside.
	Effects []string
}

// Span is a part of the script.
type Span struct {
	Pos     Pos
	EndLine int
	EndCol  int // column after the last byte
}

// Test is an operand of && or || in a predicate or a condition: a comparison, or a value that must not be 0.
type Test struct {
	Span Span
	// Left, Op and Right are the comparison as written, cut to MaxTestText bytes; Op and Right are empty for a value.
	Left, Op, Right string
	// Builtin is the builtin that Left is (comm, pid, tid, uid, gid, cpu), if it is one.
	Builtin string
	// Kind is int or string if Left is one and Right is a literal, whose value is Number or Literal. Size is the size in
	// bytes of an integer, or how many bytes of a string are compared.
	Kind    string
	Size    int
	Signed  bool
	Number  int64
	Literal string
}

// MaxTestText bounds the parts of a Test in bytes.
const MaxTestText = 128

// MapRead is a position where the script reads an element of a map.
type MapRead struct {
	Map  string
	Span Span
}

// Need is a kernel feature without which a construct of the script cannot run.
type Need struct {
	Feature   string // helper without "bpf_": "for_each_map_elem"
	Construct string // as in a message: "'for' over a map"
	Pos       Pos
}

// AddNeed adds a need; only the first construct of a feature is kept.
func (m *Meta) AddNeed(n Need) {
	known := func(o Need) bool { return o.Feature == n.Feature && o.Pos == n.Pos }
	if !slices.ContainsFunc(m.Needs, known) {
		m.Needs = append(m.Needs, n)
	}
}

// UpdatePos is a position where the script adds to a map.
type UpdatePos struct {
	Pos  Pos
	End  int // column after its end, as Event.End
	Loss int // number of its loss counter, from 1; 0: none
	// Chain is as Event.Chain; nil if several calls of a macro share the position.
	Chain []Location
}

// UnsafeUse is a dangerous action and where the script does it.
type UnsafeUse struct {
	Name string // "system", "signal", "override", "write_user", "kprobe-address"
	Pos  Pos
}

// RuntimeError is a message with a position that the loader prints when a program reports
// it.
type RuntimeError struct {
	Text  string
	Pos   Pos
	End   int        // column after the last byte; 0 if that is on another line
	Chain []Location // as Event.Chain
	// Helper is the kernel function that failed, without "bpf_"; Text is then empty: the
	// helper's error number, known to the loader, is the reason.
	Helper string
}

// Prog is what makes a Func a BPF program: one attach point of one clause.
type Prog struct {
	Kind    string // a kind of package probe
	Section string // ELF section with libbpf's name, e.g. "kprobe/vfs_read"
	Attach  Attach
	Clause  int // 0-based number of the clause in the script; several programs may share one
	FirstID int // first number of the program's attach points (OpAttachID)
	// UsesID is set when the body reads OpAttachID (probe builtin): then each match of a
	// wildcard has a number of its own.
	UsesID bool
	// UsesFunc is set when the body reads the probed function's address.
	UsesFunc bool
	// Args are the typed arguments and the return value (Name "") of the probed function
	// that the script reads, as in the target.
	Args []ArgUse
	// Record are the fields of a tracepoint's record that the script reads at the target's
	// offsets, because no type describes the record.
	Record []RecordUse
	// MayShare and MayRunRaw are set by the pass sharing: a loader may run the program for many
	// system calls from one raw tracepoint, or from the raw tracepoint of its tracepoint.
	// SharesScratch is set by the pass slots: the program's scratch record is safe only while the
	// kernel counts it among running programs (bpf_prog_active), which it does not for raw
	// tracepoints.
	MayShare, MayRunRaw, SharesScratch bool
	Pos                                Pos
}

// AtFunctionEntry reports whether the program runs at the entry of a user-space function: at a uprobe on
// a function by name, not at an offset or an address. With parameters in the attach point ($1) the last
// part says so, unless it is one.
func (p *Prog) AtFunctionEntry() bool {
	if p == nil || p.Kind != probe.Uprobe || p.Attach.Offset != 0 || p.Attach.Addr != 0 {
		return false
	}
	name := p.Attach.Name
	if n := len(p.Attach.Substitute); n > 0 {
		name = p.Attach.Substitute[n-1]
	}
	return name != "" && !strings.ContainsAny(name, "$+") && (name[0] < '0' || name[0] > '9')
}

// RecordUse is a field of a tracepoint's record without a relocation.
type RecordUse struct {
	Name         string
	Offset, Size int    // bytes
	Sign         string // signed, unsigned; "" for what is not an integer
	Pos          Pos
}

// The manifest's types for attach points, arguments, macro positions and caches are used directly;
// nothing changes them on the way.
type (
	ArgUse      = manifest.ArgUse
	Attach      = manifest.Attach
	PerCPUCache = manifest.PerCPUCache
	Location    = manifest.Location
)

// LayoutKind says how bytes are printed and compared.
type LayoutKind string

// Layout kinds.
const (
	LInt       LayoutKind = "int"  // Size 1, 2, 4, 8; Signed
	LBool      LayoutKind = "bool" // 1 byte
	LPtr       LayoutKind = "ptr"  // 8 bytes
	LEnum      LayoutKind = "enum" // Size; Signed; Enum names the table
	LString    LayoutKind = "string"
	LBuffer    LayoutKind = "buffer" // u32 length, then Size-4 bytes
	LTuple     LayoutKind = "tuple"  // Fields, unnamed
	LRecord    LayoutKind = "record" // Fields, named: records and structs
	LArray     LayoutKind = "array"  // Count times Elem
	LKstack    LayoutKind = "kstack" // u64 id; Stack names the stack map
	LUstack    LayoutKind = "ustack" // u64 id, u32 tgid, u32 0; Stack names the stack map
	LKsym      LayoutKind = "ksym"   // u64 address
	LUsym      LayoutKind = "usym"   // u64 address, u32 tgid, u32 0
	LInet      LayoutKind = "inet"   // u32 address family (2 or 10), then 16 bytes of address
	LMac       LayoutKind = "mac"    // 6 bytes (and 2 of padding)
	LTimestamp LayoutKind = "timestamp"
	LProbe     LayoutKind = "probe"    // u64 attach point number
	LUsername  LayoutKind = "username" // u64 uid
	LCgroup    LayoutKind = "cgroup_path"
	LNone      LayoutKind = "none"
)

// Layout describes an object's bytes for printing.
type Layout struct {
	Kind   LayoutKind
	Size   int // bytes, padding included
	Align  int
	Signed bool
	Name   string // type's name for messages: "int64", "struct foo", "string[64]"
	// CORE is the kernel's name of a struct or union whose layout is the target's; "" for
	// types of the script and of programs.
	CORE   string
	Enum   map[int64]string
	Elem   *Layout
	Count  int // array: elements; string: its size if a string that fills it is whole, else 0
	Fields []Field
	Stack  string // stack kinds: map's name; Depth and Mode say how to print
	Depth  int
	Mode   string // bpftrace, perf, raw, build_id
	Format string // timestamp: strftime format; cgroup_path: filter
	// FormatFrom is as Event.FormatFrom.
	FormatFrom string
	Clock      int // timestamp: as OpNsecs's Imm
	// IDOf is "cgroup" for an int that is the ID of a cgroup, in keys of maps.
	IDOf string
}

// Field is a part of a tuple, record or event.
type Field struct {
	Name string
	Off  int  // bytes from the start of the object
	Var  bool // events only: {u16 offset, u16 length} into the tail instead of the object
	// BitOff and BitSize place a bitfield in the integer, from its least significant
	// bit; BitSize is 0 for other fields.
	BitOff, BitSize int
	*Layout
}

// MapShape is the kind of a map in the language; the lowering chooses the BPF map from it.
type MapShape string

// Map shapes.
const (
	ShapePlain MapShape = "plain"
	ShapeCount MapShape = "count"
	ShapeSum   MapShape = "sum"
	ShapeAvg   MapShape = "avg"
	ShapeMin   MapShape = "min"
	ShapeMax   MapShape = "max"
	ShapeStats MapShape = "stats"
	ShapeHist  MapShape = "hist"
	ShapeLhist MapShape = "lhist"
	// ShapeTseries has an element for each key and each interval that is kept: {8 bytes
	// value, u64 meta, u64 interval}; meta is the number of values (avg), the time of the
	// value (no aggregation), or 1 if there is a value (min, max).
	ShapeTseries MapShape = "tseries"
	ShapeStack   MapShape = "stack"  // frames by stack id, made by frontend/irgen for each mode and depth (Depth, User)
	ShapeIntern  MapShape = "intern" // made by lowerings: events, scratch, zero, lost, seen; not the script's
)

// Map is a map of the script, or an internal one.
type Map struct {
	Name  string // "@x", "@" ; internal: "scratch"
	Shape MapShape
	Pos   Pos

	// Set by frontend/irgen: properties of the map in the language.
	Key *Layout // nil for a scalar
	manifest.MapNames
	Value *Layout // plain: the value; aggregations: LInt with the argument's signedness
	MapSpec
	Depth int  // stack: most frames, 1..1024
	User  bool // stack: user stacks
	Grows bool // plain: all that programs do is add constants above 0; set with Meta.For
	Adds  bool // plain, with stacks in the keys: programs change values only by adding to them

	// Set by lowering (passes/lower-maps): the BPF map.
	BPF BPFMap
	// Record is the layout of the records of a ring buffer that Inspektor Gadget reads.
	Record *Layout
	// Updates are the positions where the script adds to a keyed map, for messages that it
	// is full.
	Updates []UpdatePos
}

// MapSpec is what a script says about a map, besides its types and names: the same in the front end and the IR.
type MapSpec struct {
	ValueNames []string // plain: names of a tuple's parts at its first assignment, as KeyNames
	MaxEntries int      // maximum number of elements of a keyed map
	Declared   string   // BPF kind named by the script: hash, lruhash, percpuhash, percpulruhash; or ""
	manifest.MapParams
	Read    bool // aggregation that the script reads: kept in a shared map
	Cleared bool // the script clears or zeroes it
	Deleted bool // the script deletes from it
}

// BPFMap is the BPF map that implements a Map.
type BPFMap struct {
	Name       string // C identifier, at most 15 bytes
	Type       string // "array", "percpu_array", "hash", "percpu_hash", "lru_hash", "lru_percpu_hash", "ringbuf", "array_of_maps"
	KeySize    int
	ValueSize  int
	MaxEntries int
	Flags      uint32
	// Inner is the name of the map that describes the elements of an array_of_maps. Template means that a map is
	// such a description and not a map of the object.
	Inner    string
	Template bool
	// Present is the offset of the u64 in the value that is not 0 when a scalar is set; -1
	// if existence of the element says so (hashes).
	Present int
	// ValueOff is the offset of the value proper.
	ValueOff int
	// Gens is 2 for a scalar of two slots; then global "gen" + GenOff (u32) is the current
	// slot's number. Otherwise 1.
	Gens   int
	GenOff int
	// Loss is this map's index among the loss counters; -1 when it cannot fill.
	Loss int
	// Len is not 0 for a map whose elements are counted (len): the map "len" has the number of
	// elements that the loader deleted at key Len, and the count of the programs at key Len-1.
	Len int
	// Parts means that each word of the script's value is an element of its own, 8 bytes long; its
	// key is the script's key, padded to 8 bytes, followed by the index of the word (u64). The
	// words of min and max are the values of the CPUs, by the CPU's number. Hashed means that a
	// scalar is the element of a hash with key 0 (u32). For both ScriptKey and
	// ScriptValue are the sizes in bytes of the script's key and value. See manifest.Stored.
	Parts, Hashed          bool
	ScriptKey, ScriptValue int
	// Low means that a hist counts numbers below 1 in the bucket of 1, and those of the last
	// bucket in the one before it. See manifest.Stored.
	Low bool
	// Taken means that Inspektor Gadget reads and deletes the elements of the map while the object
	// runs.
	Taken bool
	// Cache is the per-CPU cache of a keyed aggregation; zero if there is none.
	Cache PerCPUCache
}

// GlobalKind says who sets a global.
type GlobalKind string

// Global kinds, one ELF section each.
const (
	GlobalConst GlobalKind = "const" // .rodata: set by the loader from host facts; the default is right on 5.10
	GlobalParam GlobalKind = "param" // .rodata.params: $1, $#, getopt
	GlobalData  GlobalKind = "data"  // .bss: written at run time
	GlobalInit  GlobalKind = "init"  // .data: written at run time, with an initial value
)

// Constant reports whether a global of this kind keeps its value from load on.
func (k GlobalKind) Constant() bool { return k == GlobalConst || k == GlobalParam }

// Global is a named constant of the loaded object or a word of data.
type Global struct {
	Name  string // C identifier: "param_1", "pidns_dev", "start_ns", "gen"
	Kind  GlobalKind
	Size  int // 4 or 8 for integers; capacity for strings
	Init  []byte
	Param *Param // GlobalParam only
	// Host is what the loader sets a GlobalConst to, if that depends on Text.
	Host manifest.HostValue
	Text string
	// TextFrom is the global of the string parameter whose value is put into Text; "": none.
	TextFrom string
	Pos      *Pos // position of the first use, with Host
	End      int  // column after its end, as Event.End
	// Mark means that only the name matters: the type is a pointer to void.
	Mark bool
}

// HostValue finds or makes the constant that the loader sets to what (Global.Host)
// says of text, and of the value of the parameter whose global is from. pos and end are the
// position in the script that a message about it names.
func (m *Module) HostValue(what manifest.HostValue, text, from string, pos Pos, end int) *Global {
	n := 0
	for _, g := range m.Globals {
		if g.Host == what && g.Text == text && g.TextFrom == from {
			return g
		}
		if g.Host == what {
			n++
		}
	}
	g := &Global{
		Name:     fmt.Sprintf("%s_%d", what, n),
		Kind:     GlobalConst,
		Size:     8,
		Host:     what,
		Text:     text,
		TextFrom: from,
		Pos:      &pos,
		End:      end,
	}
	m.Globals = append(m.Globals, g)
	return g
}

// Param is a load-time parameter.
type Param struct {
	Name    string // "$1", "$#", or getopt's name
	Type    string // "int", "string", "bool", "ipv4", "sign" (1 for a negative number)
	Default string
	Help    string
	Pos     Pos
}

// EventKind says what the loader does with an event.
type EventKind string

// Event kinds.
const (
	EvPrintf   EventKind = "printf"
	EvPrint    EventKind = "print"     // print(value): one field
	EvPrintMap EventKind = "print_map" // Map; fields top and div when given
	EvClear    EventKind = "clear"     // Map
	EvZero     EventKind = "zero"      // Map
	EvExit     EventKind = "exit"      // one field: exit code
	EvTime     EventKind = "time"      // Format
	EvJoin     EventKind = "join"      // one field: a buffer of strings, each with its NUL
	EvCat      EventKind = "cat"
	EvSystem   EventKind = "system"
	EvErrorf   EventKind = "errorf"
	EvWarnf    EventKind = "warnf"
	// EvSkbOutput is the record of a packet in the map "packets": fields time (boot
	// clock, ns), length and offset (bytes); Format is the file's name.
	EvSkbOutput EventKind = "skboutput"
	EvUnwatch   EventKind = "unwatch" // one field: the address of a watchpoint that ends
	EvError     EventKind = "error"   // one field: index in Meta.Errors
	// EvHelperError: fields index in Meta.Errors and the helper's result.
	EvHelperError EventKind = "helper_error"
	EvProc        EventKind = "proc" // one field: tgid seen for the first time
	// EvUnwind asks for what unwinding needs: fields tgid, number of the file whose table is missing (0: the mappings
	// of the process), and an address.
	EvUnwind EventKind = "unwind"
)

// JoinBytes is the size to which join cuts each string, in bytes with the NUL.
const JoinBytes = 1024

// Event is a kind of record in the ring buffer. The record starts with the header {u32 id,
// u32 length of the whole record}; fixed fields follow at their natural alignment from
// offset 8; a variable string or buffer (Field.Var) is {u16 offset from the record's start,
// u16 length without NUL} into a tail. frontend/irgen sets kind, format and the fields'
// layouts in order; lowering (passes/lower-output) sets Var, Off, Size and Tail.
type Event struct {
	ID     int    // index in Module.Events
	Name   string // "printf0"; operand of OpEmit
	Kind   EventKind
	Format string
	// FormatFrom is the global of the string parameter whose value is the format; "": none.
	FormatFrom string
	Map        string // EvPrintMap, EvClear, EvZero: the map's name
	Fields     []Field
	Size       int  // bytes of header and fixed part, a multiple of 8
	Tail       bool // has variable strings; Size is then the minimum length
	Pos        Pos
	End        int // column after the last byte of the call; 0 if that is on another line
	// Columns are the script's names of the fields, with Meta.For.
	Columns []string
	// Chain is the position and, in a macro, the calls that led to it, innermost first. It
	// is empty if Pos and End are enough.
	Chain []Location
}

// Map finds a map by its name in the language, or nil if there is none.
func (m *Module) Map(name string) *Map {
	for _, x := range m.Maps {
		if x.Name == name {
			return x
		}
	}
	return nil
}

// Global finds a global by name, or nil if there is none.
func (m *Module) Global(name string) *Global {
	for _, g := range m.Globals {
		if g.Name == name {
			return g
		}
	}
	return nil
}

// Event finds an event by name, or nil if there is none.
func (m *Module) Event(name string) *Event {
	for _, e := range m.Events {
		if e.Name == name {
			return e
		}
	}
	return nil
}

// Func finds a function by name, or nil if there is none.
func (m *Module) Func(name string) *Func {
	for _, f := range m.Funcs {
		if f.Name == name {
			return f
		}
	}
	return nil
}

// MemSize returns the number of bytes of an object of the layout as a key, a map value or a
// slot: 8 for numbers, regardless of their type (docs/layouts.md).
func (l *Layout) MemSize() int {
	switch l.Kind {
	case LInt, LBool, LPtr, LEnum:
		return 8
	}
	return l.Size
}
