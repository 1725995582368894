// SPDX-License-Identifier: Apache-2.0

package why

// Cause is a row of the table.
type Cause struct {
	Name string
	// Partial causes explain missing output although some of it is there. The others are only looked for if no clause has
	// run its body.
	Partial bool
	// When says when the cause applies.
	When string
	// Sentence is what is printed; words in braces stand for values.
	Sentence string
}

// Rows of Causes that facts about the host refer to.
const (
	KprobesOff   = "kprobes-off"
	FtraceOff    = "ftrace-off"
	OtherSymbols = "other-symbols"
	Unmapped     = "file-not-mapped"
	Replaced     = "file-replaced"
	OtherFile    = "other-file"
	NotInProcess = "file-not-in-process"
	NotInCommand = "file-not-in-command"
	OtherArch    = "other-architecture"
	Semaphore    = "semaphore-off"
	Blacklisted  = "blacklisted"
	Compat       = "32-bit-process"
	CompatName   = "32-bit-name"
	OtherPID     = "other-pid-namespace"
	NoProcess    = "no-such-process"
	NoThread     = "no-such-thread"
	ThreadID     = "thread-id"
	MainThread   = "main-thread"
	Inlined      = "inlined"
	NotTraceable = "not-traceable"
	OtherCall    = "other-system-call"
	NoCall       = "vdso"
	InOther      = "file-in-other-process"

	branchFalse = "branch-false"
)

// Causes is the table, in the order in which causes are looked for.
var Causes = []Cause{
	{"events-lost", true, "events did not fit in the ring buffer", "{n} did not fit in the ring buffer: print less, or raise perf_rb_pages in config"},
	{"map-full", true, "keys did not fit in a map", "{map} is full: {n} an update found no room beside its {max} keys; raise max_map_keys in config, or declare let {map} = hash({more})"},
	{"null-pointer", true, "reads of memory failed at addresses below 4096", "{read} failed {n} with {errno}: the address is {address}, {what}"},
	{"user-address", true, "reads of kernel memory failed at addresses of user memory", "{read} failed {n} with {errno}: the script reads kernel memory, but {address} is an address of user memory; use uptr()"},
	{"kernel-address", true, "reads of user memory failed at addresses of the kernel", "{read} failed {n} with {errno}: the script reads user memory, but {address} is an address of the kernel; use kptr()"},
	{"not-resident", true, "reads of user memory failed", "{read} failed {n} with {errno}: the address {address} is in user memory that is not resident or not mapped; {later}"},
	{"no-memory", true, "reads of memory failed at other addresses", "{read} failed {n} with {errno}: no memory is mapped at {address}; check the type of the pointer"},
	{"never-stored", true, "a clause reads an element of a map, and no clause stores any", "{lookup} found nothing in {n}: no clause stores {map}"},
	{"entry-never-fired", true, "the clauses that store the elements have not fired", "{lookup} found nothing in {n}: {entry} (line {line}), which stores {map}, never fired"},
	{"entry-predicate", true, "the predicate of the clause that stores the elements was never true", "{lookup} found nothing in {n}: the predicate of {entry} (line {line}), which stores {map}, was never true"},
	{"other-key", true, "the clause that stores the elements ran, and none is ever found", "{lookup} found nothing in {n}, although {entry} (line {line}), which stores {map}, ran {ran}; check that both use the same key, and that the element is not deleted before"},
	{"early-return", true, "tests in the body returned each time", "{probe} returned early each of {n}, by the tests in line {line}; check them"},
	{branchFalse, true, "a map is stored to, or a clause prints, only in bodies of if or while, and their conditions were never true", "{idle}: {if} in line {line} was false {n}{seen}"},

	{"not-attached", false, "an attach point could not be attached", "{probe} is not attached: {error}"},
	{KprobesOff, false, "debugfs' kprobes/enabled is 0", "{probe} cannot fire: kprobes are disabled on this host; write 1 to {name}"},
	{FtraceOff, false, "the sysctl kernel.ftrace_enabled is 0", "{probe} cannot fire: function tracing is disabled on this host; run sysctl kernel.ftrace_enabled=1"},
	{Blacklisted, false, "the kernel forbids kprobes in the function", "{probe} cannot fire: the kernel forbids kprobes in {name} (/sys/kernel/debug/kprobes/blacklist); probe a function that calls it"},
	{NotTraceable, false, "the function is not in available_filter_functions", "{probe} {fires}: {name} is not in the kernel's list of functions that can be traced (available_filter_functions): it is notrace or assembly; probe a function that calls it"},
	{OtherArch, false, "the file is for another architecture", "{probe} cannot fire: {name} is a program or library for {other}, not for this machine; probe one for this machine"},
	{Semaphore, false, "a process has mapped the file, and the semaphore of the probe is 0 there", "{probe} {fires}: its semaphore is off in process {pid}, which has mapped {name}; restart the process"},
	{Replaced, false, "a process has mapped a file that is no longer at its path", "{probe} {fires}: process {pid} has mapped an earlier file that was at {name} and was replaced since; restart the process"},
	{OtherFile, false, "no traced process maps the file, but one maps another file of this name", "{probe} {fires}: process {pid} has mapped {other}, and no traced process has mapped {name} now; probe {other}"},
	{InOther, false, "the processes of -p or -c do not map the file, but another one does", "{probe} {fires}: {other} has not mapped {name}, but process {pid} has; trace that process, or with --follow-forks those that {other} starts"},
	{NotInProcess, false, "the process of -p does not map the file", "{probe} {fires}: process {pid} has not mapped {name}; probe a file that it has mapped (/proc/{pid}/maps)"},
	{NotInCommand, false, "the command of -c runs, and has not mapped the file", "{probe} {fires}: the program of -c ({other}) has not mapped {name}; probe a file that it maps (/proc/PID/maps)"},
	{Unmapped, false, "no process maps the file", "{probe} {fires}: no process has mapped {name} now; start a program that uses it, or probe the file that the program uses (/proc/PID/maps)"},
	{Compat, false, "the process of -p or the command of -c is a 32-bit program", "{probe} {fires}: {name} is a 32-bit program, for whose system calls these tracepoints do not fire; use tracepoint:raw_syscalls:sys_enter"},
	{"filtered", false, "-p, --cgroup or --container rejected all events", "{probe} fired {n}, each time in a process that does not pass {filter}; check what it selects, or run without it"},
	{OtherPID, false, "pid is compared with a process ID of another PID namespace", "predicate {test} was false {n}: pid {name} is of another PID namespace; for btrun the process is {pid}"},
	{NoProcess, false, "pid is compared with the ID of no process", "predicate {test} was false {n}: no process of the PID namespace of btrun has the ID {name} now"},
	{NoThread, false, "tid is compared with the ID of no thread", "predicate {test} was false {n}: no thread of the PID namespace of btrun has the ID {name} now"},
	{ThreadID, false, "pid is compared with the ID of a thread", "predicate {test} was false {n}: {name} is the ID of a thread of process {pid}; compare tid, or pid with {pid}"},
	{MainThread, false, "tid is compared with the ID of a process of several threads", "predicate {test} was false {n}: {name} is the first thread of a process that has {other}; compare pid for all of them"},
	{CompatName, false, "comm is compared with the name of a process that is a 32-bit program", "predicate {test} was false {n}: process {pid} of this name is a 32-bit program, for whose system calls these tracepoints do not fire; use tracepoint:raw_syscalls:sys_enter"},
	{"32-bit-arguments", false, "an argument of a function is tested in a 32-bit program", "predicate {test} was false {n}: {file32} is a 32-bit program, whose arguments are not in the registers that {left} reads; read them with reg() or from its stack{seen}"},
	{"comm-too-long", false, "comm is compared with a name of more than 15 bytes", "predicate {test} was false {n}: comm has at most 15 bytes; compare with {short}"},
	{"string-cut", false, "a string is compared with a literal that is longer than it can be", "predicate {test} was false {n}: the string has at most {max} bytes, and the literal has {length}; make the string longer{seen}"},
	{"half-negative", false, "a number of 8 bytes is compared with a negative one, and has the values of negative numbers of 4 bytes", "predicate {test} was false {n}: {left} is a number of 8 bytes, and {value}, as 4 bytes, is {negative}; cast it: (int32){left}{seen}"},
	{"wait-status", false, "exit_code of a task is compared with an exit status", "predicate {test} was false {n}: {left} has the exit status in bits 8 to 15, and {value} is that status; compare ({left} >> 8)"},
	{"never-negative", false, "an unsigned number is compared with a negative one", "predicate {test} was false {n}: {left} is an unsigned number of {size} bytes, which is never negative; cast it: {cast}{seen}"},
	{"out-of-range", false, "a number is compared with one that is too large for it", "predicate {test} was false {n}: {left} is {sign} number of {size} bytes, at most {max}{seen}"},
	{"predicate-comm", false, "comm was never the name that the predicate wants", "predicate {test} was false {n}{seen}; comm is the name of the thread"},
	{"predicate-seen", false, "the predicate was false each time, and its values are known", "predicate {test} was false {n}{seen}"},
	{"predicate-false", false, "the predicate was false each time, and its values are not known", "predicate {test} was false {n}; print {left} in a clause without predicate"},
	{"predicate-part", false, "the predicate was false each time, and which part is not known", "predicate {predicate} was false each of {n}; print its parts in a clause without it"},
	{OtherSymbols, false, "the kernel has copies of the function: .isra, .constprop, .part", "{probe} {fires}: the kernel also has {name}, which its callers may call; probe that as well"},
	{Inlined, false, "the compiler has inlined calls of the function, by the debug information that the script was compiled with", "{probe} {fires}: {name} inlined (in {other}): probe those"},
	{OtherCall, false, "glibc calls another system call", "{probe} {fires}: glibc makes the system call {other} where programs call {name}(); trace tracepoint:syscalls:{dir}_{other} as well"},
	{NoCall, false, "programs do without the system call", "{probe} {fires}: programs call {name}() in the vDSO, mostly without a system call; probe the function of libc"},
	{"interval", false, "a run ended before the first interval", "{probe} never fired: the run took {took}"},
	{"never-fired", false, "nothing else is known", "{probe} never fired, though it is attached{ruled}"},
}
