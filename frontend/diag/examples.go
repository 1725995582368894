// SPDX-License-Identifier: Apache-2.0

package diag

import "strings"

// Example shows a code; a test compiles its scripts.
type Example struct {
	// Causes is a script that causes the message.
	Causes string
	// Instead is a script that does what Causes means to do, without the message; "" if it is only to be removed.
	Instead string
	// Options of btc compile that the message needs.
	Options string
}

// Text returns the example as documents and `btc explain` show it: indented blocks with a line above each.
func (e Example) Text() string {
	block := func(script string) string {
		return "    " + strings.NewReplacer("\n", "\n    ", "\x00", "^@").Replace(script) + "\n"
	}
	var b strings.Builder
	b.WriteString("This script causes it")
	if e.Options != "" {
		b.WriteString(", compiled with " + e.Options)
	}
	b.WriteString(":\n\n" + block(e.Causes))
	if e.Instead != "" {
		b.WriteString("\nWrite instead:\n\n" + block(e.Instead))
	}
	return b.String()
}

// examples has an example of each code that a script can cause.
var examples = map[Code]Example{
	Syntax:             {Causes: `begin { print(1) print(2); }`, Instead: `begin { print(1); print(2); }`},
	UnterminatedString: {Causes: `begin { print("text); }`, Instead: `begin { print("text"); }`},
	BadEscape:          {Causes: `begin { print("C:\dir"); }`, Instead: `begin { print("C:\\dir"); }`},
	BadInteger:         {Causes: `interval:s:1 { print(10sec); }`, Instead: `interval:s:1 { print(10s); }`},
	BadParameter:       {Causes: `begin { print($0); }`, Instead: `begin { print($1); }`},
	NotAssignable:      {Causes: `begin { pid = 1; }`, Instead: `begin { $pid = 1; print($pid); }`},
	Misplaced:          {Causes: "begin { print(sizeof(struct point)); }\nstruct point { int x; int y; };", Instead: "struct point { int x; int y; };\nbegin { print(sizeof(struct point)); }"},
	DuplicateField:     {Causes: `begin { print((x=1, x=2)); }`, Instead: `begin { print((x=1, y=2)); }`},
	NotText:            {Causes: "begin { print(1); }\x00", Instead: `begin { print(1); }`},
	TooLarge:           {Causes: `begin { unroll(100) { unroll(100) { @a++; @b++; } } }`, Instead: `begin { for $i : 0..100 { for $j : 0..100 { @a++; @b++; } } }`},
	OpenComment:        {Causes: `begin { print(1); } /* and so on`, Instead: `begin { print(1); } /* and so on */`},
	BadCDefinition:     {Causes: "struct point { int x;\nbegin { print(sizeof(struct point)); }", Instead: "struct point { int x; };\nbegin { print(sizeof(struct point)); }"},
	BadMacroParam:      {Causes: `macro twice(pid) { pid * 2 } begin { print(twice(1)); }`, Instead: `macro twice(number) { number * 2 } begin { print(twice(1)); }`},

	BadMacro:       {Causes: `macro first($x) { return $x; } begin { $a = 1; print(first($a)); }`, Instead: `macro first($x) { $x } begin { $a = 1; print(first($a)); }`},
	BadMacroCall:   {Causes: `macro add(a, b) { a + b } begin { print(add(1)); }`, Instead: `macro add(a, b) { a + b } begin { print(add(1, 2)); }`},
	Unhygienic:     {Causes: `macro note() { @seen = 1; } begin { note(); }`, Instead: `macro note(@m) { @m = 1; } begin { note(@seen); }`},
	RecursiveMacro: {Causes: `macro again() { @n++; again() } begin { again(); }`, Instead: `begin { for $i : 0..10 { @n++; } }`},
	BadImport:      {Causes: `import "no-such-file.bt"; begin { print(1); }`},
	BadTypeArg:     {Causes: `macro twice(x) { x * 2 } begin { print(twice(struct task_struct)); }`, Instead: `macro twice(x) { sizeof(x) * 2 } begin { print(twice(struct task_struct)); }`},
	BadInclude:     {Causes: "#include \"no-such-header.h\"\nbegin { print(1); }"},

	UnknownName:     {Causes: `begin { print(comn); }`, Instead: `begin { print(comm); }`},
	UnknownFunction: {Causes: `begin { pritnf("x"); }`, Instead: `begin { printf("x"); }`},
	UndefinedMap:    {Causes: `begin { print(@x); }`, Instead: `begin { @x = 1; print(@x); }`},
	UndefinedVar:    {Causes: `begin { if (pid) { let $x = 1; } print($x); }`, Instead: `begin { let $x = 0; if (pid) { $x = 1; } print($x); }`},
	UnknownType:     {Causes: `kprobe:vfs_read { print(((struct fiel *)arg0)->f_mode); }`, Instead: `kprobe:vfs_read { print(((struct file *)arg0)->f_mode); }`},
	UnknownField:    {Causes: `begin { print(curtask->pidd); }`, Instead: `begin { print(curtask->pid); }`},
	BadAccess:       {Causes: `kprobe:vfs_read { print(arg0->f_mode); }`, Instead: `kprobe:vfs_read { print(((struct file *)arg0)->f_mode); }`},
	OutOfBounds:     {Causes: `begin { print(curtask->comm[16]); }`, Instead: `begin { print(curtask->comm[15]); }`},
	BadOperands:     {Causes: `begin { print(comm + "!"); }`, Instead: `begin { print(str_concat(comm, "!")); }`},
	TypeMismatch:    {Causes: `begin { @x = 1; @x = "text"; }`, Instead: `begin { @x = 1; @y = "text"; }`},
	KeyMismatch:     {Causes: `begin { @x[pid] = 1; @x[comm] = 1; }`, Instead: `begin { @x[pid, comm] = 1; }`},
	BadMapUse:       {Causes: `begin { $n = count(); print($n); }`, Instead: `begin { @n = count(); print(@n); }`},
	BadCast:         {Causes: `begin { print((int64)comm); }`, Instead: `begin { print((int64)pid); }`},
	BadArguments:    {Causes: `begin { print(strlen()); }`, Instead: `begin { print(strlen(comm)); }`},
	BadFormat:       {Causes: `begin { printf("%d %d\n", 1); }`, Instead: `begin { printf("%d %d\n", 1, 2); }`},
	NotInThisProbe:  {Causes: `interval:s:1 { print(arg0); }`, Instead: `kprobe:vfs_read { print(arg0); }`},
	NotSupported:    {Causes: `kprobe:vfs_read { print(pton(str(arg0))); }`, Instead: `kprobe:vfs_read { print(pton("10.0.0.1")); }`},
	NotConstant:     {Causes: `begin { printf(comm); }`, Instead: `begin { printf("%s", comm); }`},
	BadConfigKey:    {Causes: `config = { max_strlne = 64 } begin { print(1); }`, Instead: `config = { max_strlen = 64 } begin { print(1); }`},
	BadDeclaration:  {Causes: `begin { let $x = 1; let $x = 2; print($x); }`, Instead: `begin { let $x = 1; $x = 2; print($x); }`},
	BadCondition:    {Causes: `begin { if (comm) { exit(); } }`, Instead: `begin { if (comm != "") { exit(); } }`},
	CSyntax:         {Causes: "#define LIMIT 3 +\nbegin { print(LIMIT); }", Instead: "#define LIMIT (3 + 1)\nbegin { print(LIMIT); }"},
	FoldOverflow:    {Causes: `begin { print(1 / 0); }`, Instead: `begin { print(1 / 1); }`},
	StringTooLong:   {Causes: `config = { max_strlen = 16 } begin { @x = "a string of 24 characters"; }`, Instead: `config = { max_strlen = 32 } begin { @x = "a string of 24 characters"; }`},
	BadJump:         {Causes: `begin { if (pid) { break; } print(1); }`, Instead: `begin { if (pid) { return; } print(1); }`},
	NoProbes:        {Causes: `macro one() { 1 }`, Instead: `macro one() { 1 } begin { print(one()); }`},
	BadBranches:     {Causes: `begin { print(pid == 1 ? "init" : 0); }`, Instead: `begin { print(pid == 1 ? "init" : ""); }`},
	BadMapDecl:      {Causes: `let @n = hash(10); begin { @n[1] = count(); }`, Instead: `let @n = percpuhash(10); begin { @n[1] = count(); }`},
	NoValue:         {Causes: `begin { $x = printf("x"); }`, Instead: `begin { printf("x"); }`},
	NoArgs:          {Causes: `tracepoint:no:such { print(args.x); }`, Instead: `tracepoint:sched:sched_switch { print(args.next_pid); }`},
	BadUnroll:       {Causes: `begin { unroll(101) { @++; } }`, Instead: `begin { for $i : 0..101 { @++; } }`},
	BadFunction:     {Causes: `fn half($n : uint64) : uint64 { if $n { return $n / 2; } } begin { print(half(4)); }`, Instead: `fn half($n : uint64) : uint64 { return $n / 2; } begin { print(half(4)); }`},
	ScriptFails:     {Causes: `begin { static_assert(sizeof(uint64) == 4, "64-bit only"); }`, Instead: `begin { static_assert(sizeof(uint64) == 8, "64-bit only"); }`},

	ImplicitCast:      {Causes: `begin { $a = (int64)1; $b = (uint64)2; if ($a < $b) { print(1); } }`, Instead: `begin { $a = (int64)1; $b = (uint64)2; if ($a < (int64)$b) { print(1); } }`},
	Unreachable:       {Causes: `begin { exit(); print(1); }`, Instead: `begin { print(1); exit(); }`},
	ValueDiscarded:    {Causes: `begin { strlen(comm); }`, Instead: `begin { _ = strlen(comm); }`},
	OldScope:          {Causes: `begin { if (pid) { $x = 1; } print($x); }`, Instead: `begin { let $x = 0; if (pid) { $x = 1; } print($x); }`},
	Deprecated:        {Causes: `config = { strlen = 64 } begin { print(1); }`, Instead: `config = { max_strlen = 64 } begin { print(1); }`},
	UnusedMap:         {Causes: `let @n = hash(10); begin { @m[1] = 1; }`, Instead: `let @n = hash(10); begin { @n[1] = 1; }`},
	DistinctPointers:  {Causes: `kprobe:vfs_read { if ((struct file *)arg0 == (struct inode *)arg1) { print(1); } }`, Instead: `kprobe:vfs_read { if (arg0 == arg1) { print(1); } }`},
	NeedlessCast:      {Causes: `begin { print((uint64)nsecs); }`, Instead: `begin { print(nsecs); }`},
	LengthShortened:   {Causes: `kprobe:vfs_read { print(str(arg1, 2000)); }`, Instead: `config = { max_strlen = 2001 } kprobe:vfs_read { print(str(arg1, 2000)); }`},
	ShadowsKernelType: {Causes: "struct file { int mine; };\nkprobe:vfs_read { print(((struct file *)arg0)->mine); }", Instead: "struct my_file { int mine; };\nkprobe:vfs_read { print(((struct my_file *)arg0)->mine); }"},
	SignedDivision:    {Causes: `begin { $a = (int64)pid; print($a / (uint64)tid); }`, Instead: `begin { $a = (int64)pid; print((uint64)$a / (uint64)tid); }`},
	NeverAssigned:     {Causes: `begin { let $x; print(1); }`, Instead: `begin { let $x = 1; print($x); }`},
	UsedBeforeAssign:  {Causes: `begin { if comptime (1 == 2) { $x = 1; } print($x); $x = 2; }`, Instead: `begin { let $x = 0; if comptime (1 == 2) { $x = 1; } print($x); $x = 2; }`},
	NotInTarget:       {Causes: `kprobe:vfs_raed { print(1); }`, Instead: `kprobe:vfs_read { print(1); }`},
	PrintInLoop:       {Causes: `begin { @n = 1; for $i : 0..3 { print(@n); } }`, Instead: `begin { @n = 1; for $i : 0..3 { @n++; } print(@n); }`},
	LongLoop:          {Causes: `begin { for $i : 0..100000 { for $j : 0..100000 { @n = $j; } } }`, Instead: `begin { for $i : 0..1000 { for $j : 0..1000 { @n = $j; } } }`},
	NeverWritten:      {Causes: `begin { print(@n + 1); }`, Instead: `begin { @n = 1; print(@n + 1); }`},
	Ignored:           {Causes: `config = { symbol_source = "dwarf" } begin { print(1); }`, Instead: `begin { print(1); }`},

	BadProbeType:      {Causes: `kprob:vfs_read { print(1); }`, Instead: `kprobe:vfs_read { print(1); }`},
	BadAttachPoint:    {Causes: `interval:sec:1 { print(1); }`, Instead: `interval:s:1 { print(1); }`},
	TargetUnsupported: {Causes: `kprobe:vfs_read { print(reg("ax")); }`, Instead: `kprobe:vfs_read { print(reg("sp")); }`, Options: "--arch x86_64,arm64"},
	LeftOut:           {Causes: `kprobe:vfs_read { print(reg("ax")); }`, Instead: `kretprobe:vfs_read { print(retval); }`},
	CannotCompile:     {Causes: `config = { max_strlen = 16384 } kprobe:vfs_read { print((str(arg0), str(arg1), str(arg2))); }`, Instead: `config = { max_strlen = 256 } kprobe:vfs_read { print((str(arg0), str(arg1), str(arg2))); }`},
}
