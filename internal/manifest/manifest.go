// SPDX-License-Identifier: Apache-2.0

// Package manifest is the contract between compiler and loader: the JSON in a
// compiled object, or in a file next to it, that says how to attach it, what its maps and
// events mean, and which parameters it takes.
//
// It takes the bytes of a manifest and returns a validated Manifest, or builds one and
// writes it. docs/manifest.md describes each key; docs/manifest.schema.json is the
// published JSON Schema. Types are described by layout, never as BTF ids. Unknown keys are
// ignored; an unknown entry of Requires is refused. Package btc/manifest has a copy of the types for other modules:
// after a change of them, run make docs.
package manifest

import "strings"

// Schema is the version this package writes: "btc/1". A reader accepts every minor revision of its major version.
const Schema = "btc/1"

// Language is the release of bpftrace whose language and command line btc follows.
const Language = "0.27.1"

// Manifest is the content of a manifest file.
type Manifest struct {
	Schema   string    `json:"schema"`
	Compiler string    `json:"compiler"` // name and version of the program that wrote it
	Language string    `json:"language"` // release of bpftrace whose language the script is in, "0.27.1"
	Object   Object    `json:"object"`
	Requires []string  `json:"requires,omitempty"` // manifest features a loader must know
	Script   Script    `json:"script"`
	Programs []Program `json:"programs"`
	Maps     []Map     `json:"maps"`
	Events   []Event   `json:"events"`
	Params   []Param   `json:"params,omitempty"`
	Given    *Given    `json:"given,omitempty"`
	Globals  []Global  `json:"globals,omitempty"`
	Errors   []Error   `json:"errors,omitempty"`
	Config   Config    `json:"config"`
	Unsafe   []Unsafe  `json:"unsafe,omitempty"`
	// Needs lists what the host's kernel must have beyond Linux 5.10, each with the
	// construct of the script that uses it.
	Needs  []Need `json:"needs,omitempty"`
	Target string `json:"target"` // release of the kernel that the types came from
	// For is the program whose map format the object uses: ebpf_exporter, gadget; absent for btrun's own.
	For string `json:"for,omitempty"`
	// Arches are the architectures that the object supports: x86_64, arm64, riscv64.
	Arches []string `json:"arches"`
	// Losses names the loss counters (u64 each, in the global "lost"), by index.
	Losses []Loss `json:"losses,omitempty"`
	// Fields lists the CO-RE accesses, so that the error for a failed relocation can quote the script.
	Fields []FieldUse `json:"fields,omitempty"`
	// Clauses describe clauses of the script for btrun --why; those of which it says nothing are absent.
	Clauses []Clause `json:"clauses,omitempty"`
}

// Clause describes a clause in terms of its source. Instructions of its programs have these positions in line info,
// except for code of macros and functions.
type Clause struct {
	Number int `json:"number"` // as in Program.Clause
	// Predicate is absent without a predicate, and for one whose code has other positions.
	Predicate *Span `json:"predicate,omitempty"`
	// Last is the last statement of the body.
	Last    *Span     `json:"last,omitempty"`
	Returns bool      `json:"returns,omitempty"` // the body has a return statement
	Tests   []Test    `json:"tests,omitempty"`   // the operands of && and || in the predicate
	Reads   []MapRead `json:"reads,omitempty"`   // elements of maps that the clause reads
	// Stores are the maps that the clause stores to, of those that some clause reads elements of.
	Stores []string `json:"stores,omitempty"`
	// Branches are the if statements and while loops whose bodies store to maps or print.
	Branches []Branch `json:"branches,omitempty"`
	// Effects are those of branches of the script that the clause also has outside of their bodies.
	Effects []string `json:"effects,omitempty"`
}

// EffectPrint is the effect of code that prints.
const EffectPrint = "print"

// Branch is an if statement or a while loop of a clause.
type Branch struct {
	Cond Span `json:"cond"`
	// Body is what runs if the condition is true.
	Body  Span   `json:"body"`
	Loop  bool   `json:"loop,omitempty"`  // a while loop
	Tests []Test `json:"tests,omitempty"` // the operands of && and || in the condition
	// Effects are the maps that the body stores to, and EffectPrint if it prints, other than in a branch inside it.
	Effects []string `json:"effects,omitempty"`
}

// Span is a part of the script, 1-based. EndCol is the column after its last byte.
type Span struct {
	Line    int `json:"line"`
	Col     int `json:"col"`
	EndLine int `json:"end_line"`
	EndCol  int `json:"end_col"`
}

// Within reports whether a span begins inside another one.
func (s *Span) Within(of *Span) bool {
	after := s.Line > of.Line || s.Line == of.Line && s.Col >= of.Col
	return after && (s.Line < of.EndLine || s.Line == of.EndLine && s.Col < of.EndCol)
}

// Test is a comparison in a predicate or a condition, or a value that must not be 0.
type Test struct {
	Span Span `json:"span"`
	// Left, Op and Right are the comparison as written, long parts cut; a value has only Left.
	Left  string `json:"left"`
	Op    string `json:"op,omitempty"`
	Right string `json:"right,omitempty"`
	// Builtin is comm, pid, tid, uid, gid or cpu, if Left is that.
	Builtin string `json:"builtin,omitempty"`
	// Kind is int or string if Left is one and Right is a literal: Number or Literal. Size is that of the integer in
	// bytes, or the number of bytes of the string that are compared at most.
	Kind    string `json:"kind,omitempty"`
	Size    int    `json:"size,omitempty"`
	Signed  bool   `json:"signed,omitempty"`
	Number  int64  `json:"value,omitempty"`
	Literal string `json:"literal,omitempty"`
}

// MapRead is an element of a map that the script reads.
type MapRead struct {
	Map  string `json:"map"`
	Span Span   `json:"span"`
}

// Object binds the ELF file.
type Object struct {
	SHA256 string `json:"sha256"` // lower-case hex
	Size   int64  `json:"size"`   // bytes
}

// Script is the script that the object was compiled from; messages show lines of it.
type Script struct {
	File   string `json:"file"`
	Source string `json:"source"`
}

// Pos is a position in the script, 1-based.
type Pos struct {
	Line int `json:"line"`
	Col  int `json:"col"`
	// EndCol is the column after the last byte, if it is known and on the same line.
	EndCol int `json:"end_col,omitempty"`
}

// Location is a position in a source file that a message about a macro refers to.
type Location struct {
	File string `json:"file,omitempty"` // path as imported; empty for the script
	Line int    `json:"line"`
	Col  int    `json:"col"`
	// EndLine is the last line, if it is not Line.
	EndLine int    `json:"end_line,omitempty"`
	EndCol  int    `json:"end_col"`
	Text    string `json:"text,omitempty"` // the line in File
}

// Program is one BPF program of the object.
type Program struct {
	Name    string `json:"name"`    // the ELF symbol
	Section string `json:"section"` // the ELF section
	// kprobe, kretprobe, uprobe, uretprobe, usdt, tracepoint, rawtracepoint, fentry, fexit, profile, interval,
	// software, hardware, watchpoint, iter, begin, end, self, test, bench
	Kind   string `json:"kind"`
	Attach Attach `json:"attach"`
	Clause int    `json:"clause"` // number of the clause in the script, from 0
	// FirstID is the result of OpAttachID for the first match; a program
	// with UsesID is cloned for each match, with IDs from FirstID for the first
	// and fresh ones (from NextID up) for the others.
	FirstID int   `json:"first_id"`
	UsesID  bool  `json:"uses_id,omitempty"`
	IDInsns []int `json:"id_insns,omitempty"` // instruction indices of the marked immediates (32-bit mov)
	UsesIP  bool  `json:"uses_ip,omitempty"`  // reads the probed function's address
	// Args are the typed arguments and the result (no name) of the probed function
	// that the program reads; the host's prototype must have them at the same positions.
	Args []ArgUse `json:"args,omitempty"`
	// Record are the fields of a tracepoint's record that the program reads at the target's offsets: BTF does not
	// describe the record, so they cannot be relocated. A loader refuses a host whose format file has other offsets.
	Record []RecordUse `json:"record,omitempty"`
	// Code is absent in objects from before November 2026: their programs are loaded unchanged.
	Code *Code `json:"code,omitempty"`
	Pos  Pos   `json:"pos"`
}

// Code describes a program's instructions. A loader that modifies programs relies on it instead of analyzing
// instructions.
type Code struct {
	// Context is what the program reads through its context: none, record (of a tracepoint),
	// regs (struct pt_regs, or that of a perf event), args (words).
	Context string `json:"context"`
	// Frame is the number of bytes of its stack frame that the main function uses, from the top.
	Frame int `json:"frame"`
	// Share means that the program may run from the raw tracepoint of all system calls, with a record that the loader
	// builds in the frame as its context; RecordArgs are the arguments of the call that it reads there.
	Share      bool  `json:"share,omitempty"`
	RecordArgs []int `json:"record_args,omitempty"`
	// RecordNr means that the program of a system call's tracepoint reads the call's number in the
	// record.
	RecordNr bool `json:"record_nr,omitempty"`
	// Raw means that the program may run from the raw tracepoint instead of its tracepoint.
	Raw   bool   `json:"raw,omitempty"`
	Forms []Form `json:"forms,omitempty"`
	// Result are the indices of the instructions that load an integer result of 64 bits: on a kernel where the result
	// has 32 bits, the upper half of the word that they load is undefined.
	Result []int `json:"result,omitempty"`
}

// Form is a test by which a program selects one of two forms: an instruction moves the result of a CO-RE relocation,
// 0 or 1, into a register, and the next one may branch on it. Every loader resolves the relocation. A loader that
// knows the result may remove the test and the dead side; before Linux 5.13 it must do so if the dead side takes the
// address of a function.
type Form struct {
	// Function is the subprogram that the test is in; absent: the program's main function.
	Function string `json:"function,omitempty"`
	Insn     int    `json:"insn"`             // instruction index in the function
	Arch     string `json:"arch,omitempty"`   // 1 on this architecture
	Helper   string `json:"helper,omitempty"` // 1 where the kernel has this helper
}

// RecordUse is a field of a tracepoint's record that is read at a fixed offset.
type RecordUse struct {
	Name   string `json:"name"`           // in the format file
	Offset int    `json:"offset"`         // bytes from the start of the record
	Size   int    `json:"size"`           // bytes
	Sign   string `json:"sign,omitempty"` // signed, unsigned; absent if not an integer
	Pos    Pos    `json:"pos"`
}

// ArgUse is an argument or result of a fentry, fexit or raw tracepoint.
type ArgUse struct {
	Name string `json:"name,omitempty"`
	Type string `json:"type"`           // C type in the target
	Slot int    `json:"slot"`           // number of 8-byte words before it in the context
	Bits int    `json:"bits,omitempty"` // of a result that is an integer: its width; negative if it is signed
}

// Attach is an attach point, split into parts. Patterns are expanded on the host.
//
// Text is its canonical full name, "kprobe:vfs_read". Target is a module, the path or name of a binary, the category
// of a tracepoint or the name of a software or hardware event; Name a function, symbol or event. Offset is in bytes
// after Name (kprobe, uprobe), Addr an address instead of a name (kprobe, uprobe, watchpoint), Len the length of a
// watchpoint in bytes and Mode its access modes (letters of rwx). Unit is hz, us, ms or s, and Count the number of
// units, or the period (software, hardware). Lang is "cpp" or "" (uprobe).
type Attach struct {
	Text   string `json:"text"`
	Target string `json:"target,omitempty"`
	Name   string `json:"name,omitempty"`
	Offset uint64 `json:"offset,omitempty"`
	Addr   uint64 `json:"addr,omitempty"`
	Len    int    `json:"len,omitempty"`
	Mode   string `json:"mode,omitempty"`
	Unit   string `json:"unit,omitempty"`
	Count  uint64 `json:"count,omitempty"`
	Lang   string `json:"lang,omitempty"`
	// Binary is the identity of the build of Target whose debug information the
	// program relies on: "build-id:HEX", or "text:" and the SHA-256 of its code.
	Binary string `json:"binary,omitempty"`
	// Calls are the call sites of the function in the debug information of a build of Target, for messages.
	Calls   *Calls `json:"calls,omitempty"`
	Missing string `json:"missing,omitempty"` // error (default), warn, ignore
	// Substitute are the parts after the kind of a probe with parameters ($1) in its attach point: the loader substitutes
	// their values and sets the other keys from the parts before it resolves the attach point. Such files require the
	// feature attach-params.
	Substitute []string `json:"fill,omitempty"`
}

// Calls are the call sites of a function.
type Calls struct {
	Binary  string   `json:"binary"` // the build: "build-id:HEX"
	Sites   int      `json:"sites"`
	Inlined int      `json:"inlined,omitempty"` // those at which the compiler has inlined the function
	In      []string `json:"in,omitempty"`      // functions that have such
}

// Layout describes the meaning of bytes and how they print. Kinds are those of
// ir.LayoutKind.
type Layout struct {
	Kind   string `json:"kind"`
	Size   int    `json:"size"` // bytes, padding included
	Signed bool   `json:"signed,omitempty"`
	Name   string `json:"name,omitempty"`
	// CORE is the name of a kernel type ("struct ns_common") whose members have the
	// target's offsets; a loader compares them with the host's types.
	CORE string            `json:"core,omitempty"`
	Enum map[string]string `json:"enum,omitempty"` // decimal value -> symbol
	Elem *Layout           `json:"elem,omitempty"`
	// Count is the number of elements of an array. For a string it is Size if a string that fills it is complete, and
	// 0 if such a string counts as truncated.
	Count  int     `json:"count,omitempty"`
	Fields []Field `json:"fields,omitempty"`
	Stack  string  `json:"stack,omitempty"` // kstack, ustack: Name of the stack map
	Depth  int     `json:"depth,omitempty"`
	Mode   string  `json:"mode,omitempty"`
	Format string  `json:"format,omitempty"`
	// FormatFrom is the Global of a string parameter whose value is Format: timestamp, cgroup_path.
	FormatFrom string `json:"format_from,omitempty"`
	Clock      int    `json:"clock,omitempty"` // timestamp: 0 boot, 1 monotonic, 2 tai, 3 sw_tai
	IDOf       string `json:"id_of,omitempty"` // int: what the number is the ID of: cgroup
}

// Field is a part of a tuple, record or event.
type Field struct {
	Name string `json:"name,omitempty"`
	Off  int    `json:"off"`
	Var  bool   `json:"var,omitempty"` // {u16 offset, u16 length} of data in the record's tail
	// BitOff and BitSize locate a bit field in the integer, from its least significant
	// bit; BitSize is 0 for other fields.
	BitOff  int    `json:"bit_off,omitempty"`
	BitSize int    `json:"bit_size,omitempty"`
	Layout  Layout `json:"layout"`
}

// Map is a map of the script (Shape plain, count, ...), a stack map (Shape
// stack), or an internal one (Shape intern).
type Map struct {
	Name       string  `json:"name"`   // "@x"; internal: "events", "scratch", ...
	Symbol     string  `json:"symbol"` // the ELF symbol
	Shape      string  `json:"shape"`
	Type       string  `json:"type"` // BPF map type: array, percpu_array, hash, ...
	KeySize    int     `json:"key_size"`
	ValueSize  int     `json:"value_size"`
	MaxEntries int     `json:"max_entries"`
	Key        *Layout `json:"key,omitempty"` // absent for a scalar
	MapNames
	// Grows means that programs only add positive constants to a plain map. It is set only in objects in the format
	// of another program (For).
	Grows bool `json:"grows,omitempty"`
	// Adds means that programs change values of a plain map only by adding to them: elements whose keys turn out to be the
	// same stack are added. It is set only for maps with stacks in their keys.
	Adds     bool    `json:"adds,omitempty"`
	Value    *Layout `json:"value,omitempty"` // plain: the value; aggregations: signedness of the argument
	ValueOff int     `json:"value_off"`
	Present  int     `json:"present"` // offset of the u64 that is not 0 if the value is set; -1: it is set if the element exists
	Gens     int     `json:"gens"`    // 2: two slots; the number of the current one is the u32 at GenOff in global "gen"
	GenOff   int     `json:"gen_off,omitempty"`
	// LenKey is not 0 if the programs count the elements: it is the key in the map "len" of the counter (u64) to
	// which the loader adds the number of elements that it deletes.
	LenKey int `json:"len_key,omitempty"`
	// Cache is the per-CPU cache of a hash. If the programs use it without Cache.Enable, the file requires the
	// feature front-tables.
	Cache *PerCPUCache `json:"front,omitempty"`
	// Stored is the form of the kernel's map if it differs from the script's. KeySize and ValueSize are then those of
	// the script's map, with KeySize 0 for a scalar. Files that have it require the feature stored-maps.
	Stored *Stored `json:"stored,omitempty"`
	MapParams
	Depth  int  `json:"depth,omitempty"`
	User   bool `json:"user,omitempty"`
	Update *Pos `json:"update,omitempty"` // position at which the script first adds elements
	Pos    Pos  `json:"pos"`
}

// MapNames are what people call a map and its parts: the same in the compiler's front end, the IR and a manifest.
type MapNames struct {
	// KeyNames are the script's names for the parts of the key ("pid", "ret"), "" for a part without a name. Help, Unit and
	// Range are from the script's comment on the map, for metrics; Range is as in btrun --buckets.
	KeyNames []string `json:"key_names,omitempty"`
	Help     string   `json:"help,omitempty"`
	Unit     string   `json:"unit,omitempty"`
	Range    string   `json:"range,omitempty"`
}

// MapParams are the arguments of the aggregation of a map: the same in the compiler's front end, the IR and a manifest.
type MapParams struct {
	Bits int   `json:"bits,omitempty"` // hist
	Min  int64 `json:"min,omitempty"`  // lhist
	Max  int64 `json:"max,omitempty"`
	Step int64 `json:"step,omitempty"`
	// A tseries has an element {value, meta, interval} (8 bytes each) for each key and interval; the last field of
	// Key is the interval's number modulo Intervals. The first is the script's key; a scalar has none.
	Interval  int64  `json:"interval,omitempty"`  // ns
	Intervals int64  `json:"intervals,omitempty"` // number of intervals kept
	Agg       string `json:"agg,omitempty"`       // avg, max, min, sum; "" for the last value
}

// Event is a kind of ring-buffer record. A record starts with {u32 id, u32 length}.
type Event struct {
	ID int `json:"id"`
	// printf, print, print_map, clear, zero, exit, time, join, cat, system, error, proc, unwatch, skboutput
	Kind   string `json:"kind"`
	Format string `json:"format,omitempty"`
	// FormatBytes is the format if it is not valid UTF-8, which JSON cannot represent; Format is then empty in the
	// file. Parse copies it to Format.
	FormatBytes []byte `json:"format_bytes,omitempty"`
	// FormatFrom is the Global of a string parameter whose value is Format: time, join, skboutput.
	FormatFrom string  `json:"format_from,omitempty"`
	Map        string  `json:"map,omitempty"`
	Fields     []Field `json:"fields,omitempty"`
	Size       int     `json:"size"` // minimum length of the record in bytes
	Tail       bool    `json:"tail,omitempty"`
	Pos        Pos     `json:"pos"`
	// Chain is the position of errorf() or warnf() and, in a macro, the calls that led to
	// it, innermost first. It is omitted if Pos is enough.
	Chain []Location `json:"chain,omitempty"`
}

// Param is a load-time parameter ($1, $#, getopt). Global names its symbol in .rodata.params.
type Param struct {
	Name    string `json:"name"`
	Type    string `json:"type"` // int, string, bool, ipv4 (4 bytes in network order), sign (1 for a negative number)
	Global  string `json:"global"`
	Size    int    `json:"size"` // bytes: 8, or the capacity of a string
	Default string `json:"default,omitempty"`
	Help    string `json:"help,omitempty"`
	Pos     Pos    `json:"pos"`
}

// Given are the parameters given at compile time. A loader uses them as defaults. Files that have them require the
// feature given-params.
type Given struct {
	Values []string `json:"values,omitempty"` // values of $1, $2, ...
	// Fixed are the numbers of the parameters compiled into the code: other values would have no effect.
	Fixed []int `json:"fixed,omitempty"`
	// Options are the values of named parameters.
	Options map[string]string `json:"options,omitempty"`
	// FixedOptions are the options compiled into the code.
	FixedOptions []string `json:"fixed_options,omitempty"`
}

// Stored describes a hash that holds a map of the script in the form that another program reads.
type Stored struct {
	// KeySize is that of the hash, in bytes. A scalar has the key 0.
	KeySize int `json:"key_size"`
	// Low means that a hist() counts numbers below 1 in the bucket of 1, and those of the last bucket in the one
	// before it: Inspektor Gadget reads only these buckets.
	Low bool `json:"low,omitempty"`
	// Parts means that each word (u64) of a value is a separate element: its key is the script's key, padded to 8
	// bytes, followed by the number of the word (u64). Elements with larger numbers do not belong to the script's
	// value. The words of min and max are the values of the CPUs that have one, by the CPU's number.
	Parts bool `json:"parts,omitempty"`
}

// Raw returns the sizes in bytes of the keys and values of the kernel's map.
func (x *Map) Raw() (key, value int) {
	switch {
	case x.Stored == nil:
		return x.KeySize, x.ValueSize
	case x.Stored.Parts:
		return x.Stored.KeySize, 8
	}
	return x.Stored.KeySize, x.ValueSize
}

// PerCPUCache is the per-CPU cache of a keyed aggregation: one table for each of the first CPUs, in the global (.bss)
// named Global. A slot is in use if its first u64 is not 0. An element's values are those in the hash and those in
// the slots with its key, as if from further CPUs. A slot of a hist has the count (u64) of one bucket, whose number
// (u64) follows the key.
type PerCPUCache struct {
	// Enable is the constant (.rodata, u64) that a loader sets to 1 to make programs use the tables; if it is 0, they
	// use only the hash. It is absent in older objects, whose programs always use the tables.
	Enable   string `json:"enable,omitempty"`
	Global   string `json:"global"`
	CPUs     int    `json:"cpus"`
	Slots    int    `json:"slots"`     // per CPU
	SlotSize int    `json:"slot_size"` // bytes
	ValueOff int    `json:"value_off"` // offset in a slot of the value, laid out as in the hash
	KeyOff   int    `json:"key_off"`   // offset of the key in a slot
}

// Global is a constant that the loader sets from the host before loading (Section .rodata; see HostValue), or run-time
// data (.bss, .data): gen (slot numbers, .bss), lost (loss counters, .bss), asleep (BPF_RB_NO_WAKEUP: programs wake the
// reader of the ring buffer; 0: it polls; .data).
type Global struct {
	Name    string `json:"name"`             // name in the manifest
	Symbol  string `json:"symbol,omitempty"` // the ELF symbol, where it is not Name
	Section string `json:"section"`
	Size    int    `json:"size"`
	// Host is what to look up before loading, if that depends on Text.
	Host HostValue `json:"host,omitempty"`
	Text string    `json:"text,omitempty"`
	// TextFrom is the Global of a string parameter whose value the loader adds to Text: before Text if that begins
	// with a space, else after it. Files with it or FormatFrom require the feature text-params.
	TextFrom string `json:"text_from,omitempty"`
	Pos      *Pos   `json:"pos,omitempty"` // position at which the script first uses it
}

// Error is a run-time error message with its position.
type Error struct {
	Text string `json:"text"`
	// Helper is set instead of Text: the kernel function that failed, without "bpf_". Its error number is the reason.
	Helper string     `json:"helper,omitempty"`
	Pos    Pos        `json:"pos"`
	Chain  []Location `json:"chain,omitempty"` // see Event.Chain
}

// Loss names a loss counter.
type Loss struct {
	Kind string `json:"kind"` // events (ring buffer full), map (Map is full), scratch (no free slot), stack (stack map full), unused
	Map  string `json:"map,omitempty"`
	Pos  *Pos   `json:"pos,omitempty"` // map: where the script adds elements
	// Chain is like Event.Chain, for a macro that is called once.
	Chain []Location `json:"chain,omitempty"`
}

// FieldUse is a CO-RE access of the script.
type FieldUse struct {
	Program string `json:"program"`
	Insn    int    `json:"insn"`             // instruction index in the program
	Type    string `json:"type"`             // "struct sock"
	Path    string `json:"path"`             // "__sk_common.skc_family"
	Module  string `json:"module,omitempty"` // of the target's kernel that has the type; absent for the kernel itself
	Kind    int    `json:"kind"`             // enum bpf_core_relo_kind
	// Compared means that the program compares the relocated value with its value at compile time, and reads the
	// field in another way if they differ.
	Compared bool `json:"compared,omitempty"`
	Pos      Pos  `json:"pos"`
}

func (u *FieldUse) String() string {
	if u.Path == "" {
		return u.Type
	}
	what := "field "
	if strings.HasPrefix(u.Type, "enum ") {
		what = "enumerator "
	}
	// The script names data after a tracepoint's record without the prefix of its offset.
	return what + strings.TrimPrefix(strings.TrimPrefix(u.Path, "__data_loc_"), "__rel_loc_") + " in " + u.Type
}

// Config has the config keys that take effect at run time.
type Config struct {
	MaxStrlen       int               `json:"max_strlen"`
	PrintMapsOnExit bool              `json:"print_maps_on_exit"`
	StrTruncTrailer string            `json:"str_trunc_trailer"`
	CppDemangle     bool              `json:"cpp_demangle"`
	RingbufPages    int               `json:"ringbuf_pages,omitempty"` // 0: the loader chooses
	MaxStacks       int               `json:"max_stacks,omitempty"`    // 0: the loader lowers the sizes in the object
	Other           map[string]string `json:"other,omitempty"`
}

// Unsafe is an action that needs --unsafe.
type Unsafe struct {
	Name string `json:"name"`
	Pos  Pos    `json:"pos"`
}

// Need is a kernel feature that a construct of the script requires. A loader probes for the feature, never checks the
// kernel version, and refuses the object before it loads anything.
type Need struct {
	Feature   string `json:"feature"`   // a helper's name without "bpf_": for_each_map_elem, loop, map_lookup_percpu_elem
	Construct string `json:"construct"` // in messages: "'for' over a map"
	Pos       Pos    `json:"pos"`
}
