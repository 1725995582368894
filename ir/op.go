// SPDX-License-Identifier: Apache-2.0

package ir

// Op is an operation. Its row in Ops has all that print, parse and verify need.
type Op uint8

// Stage is the part of the pipeline in which an op is legal.
type Stage uint8

// Stages. An inline op and a core op are legal in both.
const (
	High Stage = iota // replaced by lowering
	Core              // selected to BPF instructions
)

// Effect is what an op may do besides computing a result.
type Effect uint8

// Effect classes, from least to most constrained.
const (
	Pure   Effect = iota // depends on operands only: may be merged, moved and dropped
	Reads                // reads memory or the machine's state: may be dropped, not moved over writes
	Writes               // writes memory or has effects outside: stays, in order
)

// Meaning of Imm and Sym of an op, for print, parse and verify.
type Attr uint8

// Attributes of an op that are printed besides its arguments.
const (
	AImm  Attr = 1 << iota // Imm
	ASym                   // Sym
	AMem                   // Mem, written as a suffix: load.u32
	ACORE                  // CORE (may be empty where OpInfo.COREOptional)
	ACond                  // Cond, written as the first word: icmp ugt
	AKind                  // Kind
	ASlot                  // Slot
)

// ArgKind restricts an argument.
type ArgKind uint8

// Argument kinds.
const (
	AnyArg  ArgKind = iota
	IntArg          // i64
	BoolArg         // i1
	AddrArg         // any address type, not nullable
	PtrArg          // tracked pointer, not nullable
	MapArg          // map reference
	KeyArg          // optional: address of the key; absent for scalar maps
)

// Result is the rule for an op's result type.
type Result uint8

// Result rules.
const (
	RVoid    Result = iota
	RI64            // i64
	RI1             // i1
	RArg0           // type of the first argument (pointer arithmetic keeps provenance)
	RNonNull        // type of the first argument without "?"
	RGiven          // explicit in the text, checked by the op's own rule
)

// Trait is a set of properties by which passes treat ops alike.
type Trait uint8

// Traits of ops.
const (
	Binary      Trait = 1 << iota // arithmetic of two operands (RFC 9669, section 4.1)
	Commutes                      // the operands may be exchanged
	Number                        // the result is a number, not an address, whatever the operands are
	Stable                        // the same during one run of a program: who runs, on which CPU (migration is disabled), saved registers
	WritesArg0                    // no effects but the result and a write to the first argument
	HostDecides                   // a constant of the host, by which the verifier removes code for features that the kernel lacks
	Updates                       // an aggregation that loads, computes and stores, or begins with its first value
)

// OpInfo is a row of the op table.
type OpInfo struct {
	Name     string
	Stage    Stage
	Inline   bool // an operand, never placed in a block
	Args     []ArgKind
	Variadic bool // the last kind repeats, zero or more times
	Result   Result
	Effect   Effect
	Traits   Trait
	Attrs    Attr
	Doc      string // meaning, with that of Imm and Sym
}

// Info returns the op's row.
func (op Op) Info() *OpInfo { return &Ops[op] }

// Is reports whether the op has a trait.
func (op Op) Is(t Trait) bool { return Ops[op].Traits&t != 0 }

func (op Op) String() string { return Ops[op].Name }

// Cond is the condition of an icmp.
type Cond uint8

// Conditions.
const (
	EQ Cond = iota
	NE
	ULT
	ULE
	UGT
	UGE
	SLT
	SLE
	SGT
	SGE
)

var condNames = [...]string{"eq", "ne", "ult", "ule", "ugt", "uge", "slt", "sle", "sgt", "sge"}

func (c Cond) String() string { return condNames[c] }

// Negate returns the condition that holds exactly when c does not.
func (c Cond) Negate() Cond { return [...]Cond{NE, EQ, UGE, UGT, ULE, ULT, SGE, SGT, SLE, SLT}[c] }

// Swap returns the condition with its operands exchanged.
func (c Cond) Swap() Cond { return [...]Cond{EQ, NE, UGT, UGE, ULT, ULE, SGT, SGE, SLT, SLE}[c] }

// The ops.
const (
	OpInvalid Op = iota

	// Inline operands.
	OpParam
	OpConst
	OpSlotAddr
	OpMapRef
	OpFuncRef

	// Core: arithmetic on i64 (add and sub also on pointers).
	OpAdd
	OpSub
	OpMul
	OpUDiv
	OpUMod
	OpAnd
	OpOr
	OpXor
	OpShl
	OpLShr
	OpAShr
	OpBswap
	OpZext
	OpSext
	OpICmp
	OpSelect
	OpBoolInt
	OpOpaque

	// Core: memory, calls, relocated constants.
	OpLoad
	OpStore
	OpAtomicAdd
	OpCall
	OpCallSub
	OpNonNull
	OpCast
	OpCORE
	OpGlobal
	OpGlobalAddr
	OpAttachID
	OpSaved
	OpPerArch

	// Core until loops are outlined: iterators over maps and ranges.
	OpMapIter
	OpMapNext
	OpMapKey
	OpRangeIter
	OpRangeNext
	OpRangeCut

	// High: builtins.
	OpPid
	OpTid
	OpUid
	OpGid
	OpNsecs
	OpElapsed
	OpCPU
	OpCurtask
	OpRand
	OpCgroup
	OpNumaID
	OpJiffies
	OpNcpus
	OpArg
	OpRetval
	OpFuncIP
	OpProbeIP
	OpReg
	OpUsermode
	OpComm
	OpKstack
	OpUstack
	OpDwUstack
	OpAnyUstack
	OpSeenProc
	OpStackLen
	OpProbeName

	// High: memory and strings.
	OpRead
	OpReadMem
	OpFieldAddr
	OpMemCopy
	OpMemZero
	OpStrLit
	OpStr
	OpStrCopy
	OpStrEq
	OpStrEqMem
	OpStrLen
	OpStrFind
	OpStrFindMem
	OpStrConcat
	OpMemEq
	OpMemCmp
	OpReadBytes
	OpMapAddr

	// High: maps.
	OpMapGet
	OpMapGetMem
	OpMapSet
	OpMapSetMem
	OpMapAdd
	OpMapDel
	OpMapHas
	OpMapLen
	OpElemGet
	OpElemGetMem
	OpCount
	OpSum
	OpAvg
	OpMin
	OpMax
	OpStats
	OpHist
	OpLhist
	OpTseries
	OpAggGet

	// High: output and control.
	OpEmit
	OpJoin
	OpSkbOutput
	OpDebugf
	OpSignal
	OpOverride
	OpWriteUser
	OpPath
	OpSocketCookie
	OpDivZero
	OpError
	OpFailed

	numOps
)

// The parts of a stats map's element: Imm of OpAggGet.
const (
	AggValue = iota // the average
	AggCount
	AggTotal
)

// Ops is the op table, indexed by Op.
var Ops = [numOps]OpInfo{
	OpInvalid: {Name: "invalid", Doc: "never placed"},

	OpParam:    {Name: "param", Inline: true, Stage: Core, Result: RGiven, Doc: "block parameter"},
	OpConst:    {Name: "const", Inline: true, Stage: Core, Result: RGiven, Attrs: AImm, Traits: Number, Doc: "integer, truth value (i1) or null pointer"},
	OpSlotAddr: {Name: "slotaddr", Inline: true, Stage: Core, Result: RGiven, Attrs: AImm | ASlot, Doc: "address of Slot + Imm; written s0+8"},
	OpMapRef:   {Name: "mapref", Inline: true, Stage: Core, Result: RGiven, Attrs: ASym, Doc: "map Sym; written @x"},
	OpFuncRef:  {Name: "funcref", Inline: true, Stage: Core, Result: RGiven, Attrs: ASym, Doc: "subprogram Sym; written &name"},

	OpAdd:     {Name: "add", Stage: Core, Args: []ArgKind{AnyArg, IntArg}, Result: RArg0, Traits: Binary | Commutes, Doc: "sum; pointer + integer keeps the pointer's type"},
	OpSub:     {Name: "sub", Stage: Core, Args: []ArgKind{AnyArg, IntArg}, Result: RArg0, Traits: Binary, Doc: "difference"},
	OpMul:     {Name: "mul", Stage: Core, Args: []ArgKind{IntArg, IntArg}, Result: RI64, Traits: Binary | Commutes | Number, Doc: "product"},
	OpUDiv:    {Name: "udiv", Stage: Core, Args: []ArgKind{IntArg, IntArg}, Result: RI64, Traits: Binary | Number, Doc: "unsigned quotient; x/0 is 0 as in BPF (frontend/irgen emits code for the language's 1)"},
	OpUMod:    {Name: "umod", Stage: Core, Args: []ArgKind{IntArg, IntArg}, Result: RI64, Traits: Binary | Number, Doc: "unsigned remainder; x%0 is x as in BPF"},
	OpAnd:     {Name: "and", Stage: Core, Args: []ArgKind{IntArg, IntArg}, Result: RI64, Traits: Binary | Commutes | Number, Doc: "bitwise and"},
	OpOr:      {Name: "or", Stage: Core, Args: []ArgKind{IntArg, IntArg}, Result: RI64, Traits: Binary | Commutes | Number, Doc: "bitwise or"},
	OpXor:     {Name: "xor", Stage: Core, Args: []ArgKind{IntArg, IntArg}, Result: RI64, Traits: Binary | Commutes | Number, Doc: "bitwise exclusive or; x ^ -1 is complement"},
	OpShl:     {Name: "shl", Stage: Core, Args: []ArgKind{IntArg, IntArg}, Result: RI64, Traits: Binary | Number, Doc: "left shift, count modulo 64"},
	OpLShr:    {Name: "lshr", Stage: Core, Args: []ArgKind{IntArg, IntArg}, Result: RI64, Traits: Binary | Number, Doc: "logical right shift, count modulo 64"},
	OpAShr:    {Name: "ashr", Stage: Core, Args: []ArgKind{IntArg, IntArg}, Result: RI64, Traits: Binary | Number, Doc: "arithmetic right shift, count modulo 64"},
	OpBswap:   {Name: "bswap", Stage: Core, Args: []ArgKind{IntArg}, Result: RI64, Attrs: AMem, Doc: "bytes of the low Mem bits exchanged (u16, u32, u64), upper bits zero"},
	OpZext:    {Name: "zext", Stage: Core, Args: []ArgKind{IntArg}, Result: RI64, Attrs: AMem, Doc: "low Mem bits (u8, u16, u32), zero-extended"},
	OpSext:    {Name: "sext", Stage: Core, Args: []ArgKind{IntArg}, Result: RI64, Attrs: AMem, Doc: "low Mem bits (s8, s16, s32), sign-extended"},
	OpICmp:    {Name: "icmp", Stage: Core, Args: []ArgKind{AnyArg, AnyArg}, Result: RI1, Attrs: ACond, Doc: "comparison of two integers or of a pointer with null"},
	OpSelect:  {Name: "select", Stage: Core, Args: []ArgKind{BoolArg, AnyArg, AnyArg}, Result: RGiven, Doc: "second argument when the first is true, else the third; both integers or kaddr/uaddr/addr"},
	OpBoolInt: {Name: "boolint", Stage: Core, Args: []ArgKind{BoolArg}, Result: RI64, Traits: Number, Doc: "1 for true, 0 for false"},
	OpOpaque:  {Name: "opaque", Stage: Core, Args: []ArgKind{IntArg}, Result: RI64, Doc: "the argument, as a value unknown to the kernel's verifier"},

	OpLoad:       {Name: "load", Stage: Core, Args: []ArgKind{PtrArg}, Result: RGiven, Effect: Reads, Attrs: AMem | AImm | ACORE, Doc: "loads [arg + Imm], extended by Mem; with CORE the field's relocated byte offset is added to the instruction's offset. Result i64, kaddr, uaddr, addr or btf"},
	OpStore:      {Name: "store", Stage: Core, Args: []ArgKind{PtrArg, AnyArg}, Result: RVoid, Effect: Writes, Attrs: AMem | AImm, Traits: WritesArg0, Doc: "stores the low Mem bits of the second argument to [first + Imm]"},
	OpAtomicAdd:  {Name: "atomicadd", Stage: Core, Args: []ArgKind{PtrArg, IntArg}, Result: RVoid, Effect: Writes, Attrs: AMem | AImm, Doc: "atomic add to [first + Imm] (u32, u64), no fetch: kernel 5.10 has no fetching form"},
	OpCall:       {Name: "call", Stage: Core, Args: []ArgKind{AnyArg}, Variadic: true, Result: RGiven, Effect: Writes, Attrs: ASym, Doc: "BPF helper Sym (target.Helper row) with up to 5 arguments"},
	OpCallSub:    {Name: "callsub", Stage: Core, Args: []ArgKind{AnyArg}, Variadic: true, Result: RI64, Effect: Writes, Attrs: ASym, Doc: "static subprogram Sym with up to 5 arguments"},
	OpNonNull:    {Name: "nonnull", Stage: Core, Args: []ArgKind{AnyArg}, Result: RNonNull, Doc: "the argument, known not to be null here; no instruction"},
	OpCast:       {Name: "cast", Stage: Core, Args: []ArgKind{AnyArg}, Result: RGiven, Doc: "integer, kaddr, uaddr and addr into each other, a tracked pointer into i64/kaddr, or a map into the kaddr of its struct bpf_map; no instruction"},
	OpCORE:       {Name: "core", Stage: Core, Result: RI64, Attrs: AKind | ACORE, Traits: HostDecides, Doc: "relocated constant: Kind of CORE"},
	OpGlobal:     {Name: "global", Stage: Core, Result: RI64, Effect: Reads, Attrs: AMem | ASym | AImm, Traits: HostDecides, Doc: "loads from global Sym + Imm"},
	OpGlobalAddr: {Name: "globaladdr", Stage: Core, Result: RGiven, Attrs: ASym | AImm, Doc: "address of global Sym + Imm, a mapval of the global's section"},
	OpAttachID:   {Name: "attachid", Stage: Core, Result: RI64, Attrs: AImm, Traits: HostDecides, Doc: "number of the attach point that fired; Imm is the program's first. A marked immediate that the loader patches in each clone"},

	OpSaved:   {Name: "saved", Stage: Core, Args: []ArgKind{PtrArg}, Result: RI64, Effect: Reads, Attrs: ASym, Traits: Stable | HostDecides, Doc: "a value that each architecture keeps at another offset of the registers in ctx: Sym is argN, retval, func, ip, usermode or \"reg NAME\". Only in objects for several architectures; the pass architectures expands it to guarded loads"},
	OpPerArch: {Name: "perarch", Stage: Core, Result: RI64, Attrs: ASym, Traits: HostDecides, Doc: "constant that depends on the architecture: Sym is \"x86_64=N aarch64=N\". Only in objects for several architectures; the pass architectures expands it to guarded constants"},

	OpMapIter:   {Name: "mapiter", Stage: Core, Args: []ArgKind{MapArg}, Result: RI64, Effect: Writes, Doc: "begins an iteration over a keyed map; mapnext takes the result. The pass loop-outlining replaces the loop by for_each_map_elem"},
	OpMapNext:   {Name: "mapnext", Stage: Core, Args: []ArgKind{MapArg, IntArg}, Result: RGiven, Effect: Writes, Doc: "value of the iteration's next element, null after the last. It heads a loop: the branch on its null test leads to the body and past the loop"},
	OpMapKey:    {Name: "mapkey", Stage: Core, Args: []ArgKind{PtrArg}, Result: RGiven, Doc: "key of the element whose value mapnext returned; read-only"},
	OpRangeIter: {Name: "rangeiter", Stage: Core, Args: []ArgKind{IntArg}, Result: RI64, Effect: Writes, Doc: "begins a loop with this trip count (unsigned, at most 1<<23 iterations are made); rangenext takes the result. The pass loop-outlining replaces the loop by bpf_loop, or by a counter if the trip count is small"},
	OpRangeNext: {Name: "rangenext", Stage: Core, Args: []ArgKind{IntArg}, Result: RI64, Effect: Writes, Doc: "number of the next iteration, from 1; 0 after the last. It heads a loop as mapnext does"},
	OpRangeCut:  {Name: "rangecut", Stage: Core, Args: []ArgKind{IntArg}, Result: RI64, Effect: Reads, Attrs: AImm, Doc: "after the loop that rangeiter began: 0 if all iterations were made, else 1 + the index in Module.Errors of the message that the loop was stopped. Imm is the index of the message for bpf_loop; the pass loop-outlining adds one for the in-place form"},

	OpPid:       {Name: "pid", Result: RI64, Effect: Reads, Attrs: AImm, Traits: Number | Stable, Doc: "thread group id; Imm 0: loader's PID namespace, 1: initial namespace"},
	OpTid:       {Name: "tid", Result: RI64, Effect: Reads, Attrs: AImm, Traits: Number | Stable, Doc: "thread id; Imm as pid"},
	OpUid:       {Name: "uid", Result: RI64, Effect: Reads, Traits: Number | Stable, Doc: "user id"},
	OpGid:       {Name: "gid", Result: RI64, Effect: Reads, Traits: Number | Stable, Doc: "group id"},
	OpNsecs:     {Name: "nsecs", Result: RI64, Effect: Reads, Attrs: AImm, Traits: Number, Doc: "clock in ns; Imm 0 boot, 1 monotonic, 2 tai, 3 sw_tai"},
	OpElapsed:   {Name: "elapsed", Result: RI64, Effect: Reads, Traits: Number, Doc: "ns since the loader started the run"},
	OpCPU:       {Name: "cpu", Result: RI64, Effect: Reads, Traits: Number | Stable, Doc: "current CPU"},
	OpCurtask:   {Name: "curtask", Result: RGiven, Effect: Reads, Traits: Stable, Doc: "kaddr of the current struct task_struct"},
	OpRand:      {Name: "rand", Result: RI64, Effect: Writes, Traits: Number, Doc: "32 pseudo-random bits"},
	OpCgroup:    {Name: "cgroup", Result: RI64, Effect: Reads, Traits: Number | Stable, Doc: "current cgroup v2 id"},
	OpNumaID:    {Name: "numaid", Result: RI64, Effect: Reads, Traits: Number | Stable, Doc: "NUMA node"},
	OpJiffies:   {Name: "jiffies", Result: RI64, Effect: Reads, Doc: "jiffies_64"},
	OpNcpus:     {Name: "ncpus", Result: RI64, Effect: Reads, Traits: Stable, Doc: "number of possible CPUs, set by the loader"},
	OpArg:       {Name: "arg", Result: RI64, Effect: Reads, Args: []ArgKind{PtrArg}, Attrs: AImm, Traits: Stable, Doc: "argument Imm of the probed function, from ctx"},
	OpRetval:    {Name: "retval", Result: RI64, Effect: Reads, Args: []ArgKind{PtrArg}, Traits: Stable, Doc: "return value, from ctx"},
	OpFuncIP:    {Name: "funcip", Result: RI64, Effect: Reads, Args: []ArgKind{PtrArg}, Traits: Stable, Doc: "func: address in the probed function, or the number of an attach point, from ctx"},
	OpProbeIP:   {Name: "probeip", Result: RI64, Effect: Reads, Args: []ArgKind{PtrArg}, Traits: Stable, Doc: "address of the instruction that a uprobe is on, from ctx"},
	OpReg:       {Name: "reg", Result: RI64, Effect: Reads, Args: []ArgKind{PtrArg}, Attrs: ASym, Traits: Stable, Doc: "register Sym (bpftrace's name), from ctx"},
	OpUsermode:  {Name: "usermode", Result: RI64, Effect: Reads, Args: []ArgKind{PtrArg}, Traits: Stable, Doc: "1 when user mode was interrupted"},
	OpComm:      {Name: "comm", Result: RVoid, Effect: Writes, Args: []ArgKind{PtrArg}, Traits: WritesArg0, Doc: "writes the 16-byte name of the current thread, NUL-filled"},
	OpKstack:    {Name: "kstack", Result: RI64, Effect: Writes, Args: []ArgKind{PtrArg}, Attrs: AImm | ASym, Doc: "id of the kernel stack, from ctx; Imm depth, Sym the stack map (ShapeStack)"},
	OpUstack:    {Name: "ustack", Result: RI64, Effect: Writes, Args: []ArgKind{PtrArg}, Attrs: AImm | ASym, Doc: "id of the user stack, from ctx; Imm depth, Sym the stack map; the caller stores it with the tgid"},
	OpDwUstack:  {Name: "dwustack", Result: RI64, Effect: Writes, Args: []ArgKind{PtrArg}, Attrs: AImm | ASym, Doc: "like ustack, but by unwind tables where the loader provides them"},
	OpAnyUstack: {Name: "anyustack", Result: RI64, Effect: Writes, Args: []ArgKind{PtrArg}, Attrs: AImm | ASym, Doc: "like dwustack if the loader provides tables for every stack, else like ustack"},
	OpSeenProc:  {Name: "seenproc", Result: RVoid, Effect: Writes, Doc: "reports the current process to the loader once, so that it can read the memory map for symbols"},
	OpStackLen:  {Name: "stacklen", Result: RI64, Args: []ArgKind{IntArg}, Doc: "number of frames of the stack with this id"},

	OpProbeName: {Name: "probename", Result: RVoid, Effect: Writes, Args: []ArgKind{PtrArg, IntArg}, Attrs: AImm, Doc: "writes the name of the attach point with this number, NUL-filled to Imm bytes; an empty string where the loader has none"},

	OpRead:       {Name: "read", Result: RGiven, Effect: Reads, Args: []ArgKind{AddrArg}, Attrs: AMem | AImm | ACORE, Doc: "scalar at [arg + Imm], or at the CORE field of the object at arg (size, sign and bitfield position as on the host), extended by Mem; 0 where it cannot be read. Result i64, kaddr, uaddr, addr or btf"},
	OpReadMem:    {Name: "readmem", Result: RVoid, Effect: Writes, Args: []ArgKind{PtrArg, AddrArg}, Attrs: AImm, Traits: WritesArg0, Doc: "copies Imm bytes from the second address to the first; zeros where it cannot be read"},
	OpFieldAddr:  {Name: "fieldaddr", Result: RArg0, Args: []ArgKind{AddrArg}, Attrs: ACORE, Doc: "address of the CORE field of the object at arg"},
	OpMemCopy:    {Name: "memcopy", Result: RVoid, Effect: Writes, Args: []ArgKind{PtrArg, PtrArg}, Attrs: AImm, Traits: WritesArg0, Doc: "copies Imm bytes from the second to the first; both are program memory (slots, map values)"},
	OpMemZero:    {Name: "memzero", Result: RVoid, Effect: Writes, Args: []ArgKind{PtrArg}, Attrs: AImm, Traits: WritesArg0, Doc: "zeroes Imm bytes"},
	OpStrLit:     {Name: "strlit", Result: RVoid, Effect: Writes, Args: []ArgKind{PtrArg}, Attrs: AImm | ASym, Traits: WritesArg0, Doc: "writes literal Sym, NUL-filled to Imm bytes"},
	OpStr:        {Name: "str", Result: RI64, Effect: Writes, Args: []ArgKind{PtrArg, AddrArg, IntArg}, Attrs: AImm, Traits: WritesArg0, Doc: "reads a NUL-terminated string from the second address into the first (capacity Imm); the third argument bounds it, NUL included: a string as long as the capacity fills it and has no NUL if the bound is larger. Result: bytes written, 0 (and an empty string) where it cannot be read. Bytes after the NUL are unspecified"},
	OpStrCopy:    {Name: "strcopy", Result: RI64, Effect: Writes, Args: []ArgKind{PtrArg, PtrArg}, Attrs: AImm, Traits: WritesArg0, Doc: "copies a string in program memory to the first address, at most Imm bytes, and zero-fills to Imm (keys need that); a string of Imm bytes has no NUL. Result: bytes written, including the NUL"},
	OpStrEq:      {Name: "streq", Result: RI1, Effect: Reads, Args: []ArgKind{PtrArg}, Attrs: AImm | ASym, Doc: "true if the string at arg (capacity Imm) equals literal Sym"},
	OpStrEqMem:   {Name: "streqmem", Result: RI1, Effect: Reads, Args: []ArgKind{PtrArg, PtrArg}, Attrs: AImm, Doc: "true if the strings at both addresses are equal up to the first NUL or in their first Imm bytes"},
	OpStrLen:     {Name: "strlen", Result: RI64, Effect: Reads, Args: []ArgKind{AddrArg}, Attrs: AImm, Doc: "length without the NUL of the string at arg, of which at most Imm bytes are read; 0 where it cannot be read"},
	OpStrFind:    {Name: "strfind", Result: RI64, Effect: Reads, Args: []ArgKind{AddrArg, IntArg}, Attrs: ASym, Doc: "offset of literal Sym in the string at the first argument, -1 if it does not occur; the second argument is the string's capacity, a constant"},
	OpStrFindMem: {Name: "strfindmem", Result: RI64, Effect: Reads, Args: []ArgKind{AddrArg, IntArg, AddrArg, IntArg}, Doc: "strfind with the string at the third argument instead of a literal; its capacity is the fourth"},
	OpStrConcat:  {Name: "strconcat", Result: RVoid, Effect: Writes, Args: []ArgKind{PtrArg, AddrArg, IntArg, AddrArg, IntArg}, Attrs: AImm, Doc: "concatenates the strings at the second and fourth argument and writes the result to the first; the third and fifth are their capacities, constants. The result is cut to Imm bytes with its NUL; bytes after the NUL are unspecified"},
	OpMemEq:      {Name: "memeq", Result: RI1, Effect: Reads, Args: []ArgKind{PtrArg, PtrArg}, Attrs: AImm, Doc: "true if the Imm bytes at both addresses are equal"},
	OpMemCmp:     {Name: "memcmp", Result: RI64, Effect: Reads, Args: []ArgKind{PtrArg, PtrArg}, Attrs: AImm, Doc: "compares Imm bytes at both addresses: the difference of the first two that differ, as signed bytes; 0 if all are equal"},
	OpReadBytes:  {Name: "readbytes", Result: RI1, Effect: Writes, Args: []ArgKind{PtrArg, IntArg, AddrArg}, Attrs: AImm, Doc: "copies bytes from the third address to the first; the second argument is their number, at most Imm. True if they could be read"},
	OpMapAddr:    {Name: "mapaddr", Result: RGiven, Args: []ArgKind{MapArg}, Doc: "address of the map's struct bpf_map, as a number on which arithmetic is allowed"},

	OpMapGet:     {Name: "mapget", Result: RGiven, Effect: Reads, Args: []ArgKind{MapArg, KeyArg}, Traits: Number, Doc: "scalar value (extended by the map's value layout), 0 when absent; i64, kaddr, uaddr or addr"},
	OpMapGetMem:  {Name: "mapgetmem", Result: RVoid, Effect: Writes, Args: []ArgKind{MapArg, PtrArg, KeyArg}, Doc: "copies the value to the address, zeros when absent"},
	OpMapSet:     {Name: "mapset", Result: RVoid, Effect: Writes, Args: []ArgKind{MapArg, AnyArg, KeyArg}, Doc: "sets a scalar value"},
	OpMapSetMem:  {Name: "mapsetmem", Result: RVoid, Effect: Writes, Args: []ArgKind{MapArg, PtrArg, KeyArg}, Doc: "sets a value from memory"},
	OpMapAdd:     {Name: "mapadd", Result: RI64, Effect: Writes, Args: []ArgKind{MapArg, IntArg, KeyArg}, Doc: "adds to a scalar value in place, creating it at 0; result: the previous value"},
	OpMapDel:     {Name: "mapdel", Result: RI1, Effect: Writes, Args: []ArgKind{MapArg, KeyArg}, Doc: "deletes the element; true if there was one"},
	OpMapHas:     {Name: "maphas", Result: RI1, Effect: Reads, Args: []ArgKind{MapArg, KeyArg}, Doc: "true if the map has the element"},
	OpMapLen:     {Name: "maplen", Result: RI64, Effect: Reads, Args: []ArgKind{MapArg}, Doc: "number of elements"},
	OpElemGet:    {Name: "elemget", Result: RGiven, Effect: Reads, Args: []ArgKind{MapArg, PtrArg}, Doc: "scalar of the element whose value mapnext returned, or its aggregation as the script reads it"},
	OpElemGetMem: {Name: "elemgetmem", Result: RVoid, Effect: Writes, Args: []ArgKind{MapArg, PtrArg, PtrArg}, Doc: "copies the value of the element whose value mapnext returned (third argument) to the second"},
	OpCount:      {Name: "count", Result: RVoid, Effect: Writes, Args: []ArgKind{MapArg, KeyArg}, Traits: Updates, Doc: "count aggregation"},
	OpSum:        {Name: "sum", Result: RVoid, Effect: Writes, Args: []ArgKind{MapArg, IntArg, KeyArg}, Traits: Updates, Doc: "sum aggregation"},
	OpAvg:        {Name: "avg", Result: RVoid, Effect: Writes, Args: []ArgKind{MapArg, IntArg, KeyArg}, Traits: Updates, Doc: "average aggregation"},
	OpMin:        {Name: "min", Result: RVoid, Effect: Writes, Args: []ArgKind{MapArg, IntArg, KeyArg}, Traits: Updates, Doc: "minimum (signedness from the map)"},
	OpMax:        {Name: "max", Result: RVoid, Effect: Writes, Args: []ArgKind{MapArg, IntArg, KeyArg}, Traits: Updates, Doc: "maximum (signedness from the map)"},
	OpStats:      {Name: "stats", Result: RVoid, Effect: Writes, Args: []ArgKind{MapArg, IntArg, KeyArg}, Traits: Updates, Doc: "count and total"},
	OpHist:       {Name: "hist", Result: RVoid, Effect: Writes, Args: []ArgKind{MapArg, IntArg, KeyArg}, Traits: Updates, Doc: "log2 histogram; bits from the map"},
	OpLhist:      {Name: "lhist", Result: RVoid, Effect: Writes, Args: []ArgKind{MapArg, IntArg, KeyArg}, Traits: Updates, Doc: "linear histogram; bounds from the map"},
	OpTseries:    {Name: "tseries", Result: RVoid, Effect: Writes, Args: []ArgKind{MapArg, IntArg, IntArg, IntArg, KeyArg}, Doc: "adds a value to an interval: the value, the time in ns, and the number of the interval since the clock's start. The key ends in that number modulo the number of intervals kept"},
	OpAggGet:     {Name: "aggget", Result: RI64, Effect: Reads, Args: []ArgKind{MapArg, KeyArg}, Attrs: AImm, Doc: "an aggregation's value as the script reads it; of stats Imm 0 the average, 1 the count, 2 the total"},

	OpEmit:         {Name: "emit", Result: RVoid, Effect: Writes, Args: []ArgKind{AnyArg}, Variadic: true, Attrs: ASym, Doc: "sends event Sym (Module.Events) with one argument per field: an integer, or the address of an object in memory"},
	OpJoin:         {Name: "join", Result: RVoid, Effect: Writes, Args: []ArgKind{AddrArg}, Attrs: AImm | ASym, Doc: "sends event Sym with one buffer in it: the strings that an array of Imm pointers refers to, up to a null pointer, each with its NUL; unreadable strings are skipped"},
	OpSkbOutput:    {Name: "skboutput", Result: RI64, Effect: Writes, Args: []ArgKind{PtrArg, IntArg}, Attrs: AImm | ASym, Doc: "sends event Sym (time, length, offset) with the first bytes of the packet of the struct sk_buff at the first argument; the second argument is their number, and the reader drops the first Imm of them. Result: that of the helper, a uint32"},
	OpDebugf:       {Name: "debugf", Result: RVoid, Effect: Writes, Args: []ArgKind{AnyArg}, Variadic: true, Attrs: ASym, Doc: "writes to the kernel's trace pipe by format Sym, with up to 3 arguments: integers, or addresses of strings"},
	OpSignal:       {Name: "signal", Result: RVoid, Effect: Writes, Args: []ArgKind{IntArg}, Attrs: AImm, Doc: "sends a signal to the current process (Imm 0) or thread (Imm 1)"},
	OpOverride:     {Name: "override", Result: RVoid, Effect: Writes, Args: []ArgKind{PtrArg, IntArg}, Doc: "makes the probed function (from ctx) return the second argument instead of running"},
	OpWriteUser:    {Name: "writeuser", Result: RI1, Effect: Writes, Args: []ArgKind{IntArg, PtrArg}, Attrs: AImm, Doc: "copies Imm bytes from the second address to the first, of the current process; true when they could be written"},
	OpPath:         {Name: "path", Result: RVoid, Effect: Writes, Args: []ArgKind{PtrArg, PtrArg}, Attrs: AImm, Doc: "writes the path of the struct path at the second argument to the first (capacity Imm)"},
	OpSocketCookie: {Name: "socketcookie", Result: RI64, Effect: Reads, Args: []ArgKind{PtrArg}, Doc: "cookie of the struct sock at arg"},
	OpDivZero:      {Name: "divzero", Result: RVoid, Effect: Writes, Attrs: AImm, Doc: "reports a division by zero to the loader; Imm the index in Module.Errors"},
	OpFailed:       {Name: "failed", Result: RVoid, Effect: Writes, Args: []ArgKind{IntArg}, Attrs: ASym, Doc: "if the argument, the result of helper Sym, is negative as 32 bits: reports that to the loader, in scripts compiled for it (Pos.Site)"},
	OpError:        {Name: "error", Result: RVoid, Effect: Writes, Args: []ArgKind{IntArg}, Doc: "reports the error whose index in Module.Errors is the argument to the loader"},
}
