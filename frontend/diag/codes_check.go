// SPDX-License-Identifier: Apache-2.0

package diag

// Codes of frontend/check and frontend/cdef.
const (
	UnknownName     Code = "E0201"
	UnknownFunction Code = "E0202"
	UndefinedMap    Code = "E0203"
	UndefinedVar    Code = "E0204"
	UnknownType     Code = "E0205"
	UnknownField    Code = "E0206"
	BadAccess       Code = "E0207"
	OutOfBounds     Code = "E0208"
	BadOperands     Code = "E0209"
	TypeMismatch    Code = "E0210"
	KeyMismatch     Code = "E0211"
	BadMapUse       Code = "E0212"
	BadCast         Code = "E0213"
	BadArguments    Code = "E0214"
	BadFormat       Code = "E0215"
	NotInThisProbe  Code = "E0216"
	NotSupported    Code = "E0217"
	NotConstant     Code = "E0218"
	BadConfigKey    Code = "E0219"
	BadDeclaration  Code = "E0220"
	BadCondition    Code = "E0221"
	CSyntax         Code = "E0222"
	FoldOverflow    Code = "E0223"
	StringTooLong   Code = "E0224"
	BadJump         Code = "E0225"
	NoProbes        Code = "E0226"
	BadBranches     Code = "E0227"
	BadMapDecl      Code = "E0228"
	NoValue         Code = "E0229"
	NoArgs          Code = "E0230"
	BadUnroll       Code = "E0231"
	BadFunction     Code = "E0232"
	ScriptFails     Code = "E0233"

	ImplicitCast      Code = "W0201"
	Unreachable       Code = "W0202"
	ValueDiscarded    Code = "W0203"
	OldScope          Code = "W0204"
	Deprecated        Code = "W0205"
	UnusedMap         Code = "W0206"
	DistinctPointers  Code = "W0208"
	NeedlessCast      Code = "W0209"
	LengthShortened   Code = "W0210"
	ShadowsKernelType Code = "W0211"
	SignedDivision    Code = "W0212"
	NeverAssigned     Code = "W0213"
	UsedBeforeAssign  Code = "W0214"
	NotInTarget       Code = "W0215"
	PrintInLoop       Code = "W0216"
	Ignored           Code = "W0217"
	NeverWritten      Code = "W0218"
)

var checkCodes = []Info{
	{UnknownName, "unknown name",
		"A plain name is a builtin (pid, comm, nsecs, ...), a constant of an enum or a #define, or a constant of the system headers. Variables begin with $, maps with @."},
	{UnknownFunction, "no function has this name",
		"See the language reference for the functions. C functions of the kernel cannot be called."},
	{UndefinedMap, "a map is used but never written",
		"A map gets its type from what is assigned to it. This one never gets a value: check the spelling."},
	{UndefinedVar, "a variable is used where it has no value",
		"A variable exists from its first assignment (or let) to the end of the block. Declare it with let in the outer block to use it in several blocks."},
	{UnknownType, "no type has this name",
		"Types are those of the language (int64, string, ...), of the script's own C definitions, and of the kernel the script is compiled for. Use another target with --target if a type is only in another kernel."},
	{UnknownField, "a struct or the arguments of a probe have no such field",
		"Fields are those of the kernel the script is compiled for. Kernel versions rename fields; the hint names a similar one where there is one."},
	{BadAccess, "this kind of value has no fields or elements",
		"'.' and '->' apply to structs, pointers to structs, tuples and records; '[]' applies to arrays, pointers, strings and tuples. Cast an integer to a pointer first: ((struct sock *)arg0)->field."},
	{OutOfBounds, "a constant index is outside the array or tuple",
		"Indices count from 0."},
	{BadOperands, "an operator does not accept operands of these types",
		"Arithmetic needs integers, and a pointer plus or minus an integer. Strings can be compared with == and != only."},
	{TypeMismatch, "a variable or map gets values of incompatible types",
		"All values of a variable, and all values of a map, have one type. Integers of different sizes are compatible, and so are strings of different lengths; an integer and a string are not."},
	{KeyMismatch, "a map is used with different kinds of keys",
		"A map has either no keys (@x) or always keys of the same number and types (@x[pid, comm])."},
	{BadMapUse, "a map does not allow this",
		"Maps of count(), sum(), hist() and their like are written with that function only, with the same parameters everywhere. Histograms and statistics cannot be read by the script."},
	{BadCast, "a value cannot be converted to this type",
		"Integers, pointers and enums convert into each other; an integer converts to an array of bytes of its size and back. Structs cannot be cast, pointers to them can."},
	{BadArguments, "wrong arguments of a function",
		"The number or the types of the arguments are not what the function accepts."},
	{BadFormat, "a format string and its arguments do not match",
		"Conversions are %d %i %u %o %x %X %c %p for numbers, %s for anything, %r %rx %rh for buffers. Each needs one argument."},
	{NotInThisProbe, "this is not available in this kind of probe",
		"Some builtins exist only in certain probes: argN at function entry, retval at function return, args where arguments have names."},
	{NotSupported, "not supported yet",
		"The language has this, but this version of the compiler cannot translate it yet."},
	{NotConstant, "a value must be known when the script is compiled",
		"A constant is required here, but the value is only known when the script runs. The value of a parameter ($1, getopt) that must be constant is passed to the compiler: btc compile x.bt -- VALUE."},
	{BadConfigKey, "unknown setting or bad value in the config block",
		"See the language reference for the settings and their values."},
	{BadDeclaration, "a variable cannot be declared like this",
		"A variable name is declared once in a scope and may not hide one of an outer block. Aggregations live in maps only."},
	{BadCondition, "this value cannot be a condition",
		"Conditions are integers, booleans and pointers; compare anything else."},
	{CSyntax, "the C text at the top of the script is wrong",
		"The top of a script may contain #include, #define, conditional directives and definitions of struct, union, enum and typedef."},
	{FoldOverflow, "a constant expression has no value",
		"A division by zero or an overflow in an expression of constants."},
	{StringTooLong, "a string is too long",
		"The setting max_strlen limits the length of strings."},
	{BadJump, "break, continue or return is not allowed here",
		"break and continue are allowed only in loops."},
	{NoProbes, "the script has no probes",
		"A script needs at least one probe, for example begin { ... } or kprobe:vfs_read { ... }."},
	{BadBranches, "the branches of a conditional have incompatible types",
		"Both branches of ?: and of an if expression are the value of the whole, so they must have one type."},
	{BadMapDecl, "a map declaration does not fit its use",
		"let @m = hash(N) accepts the kinds hash, lruhash, percpuhash and percpulruhash. Aggregations need a percpu kind, all other values one of the others."},
	{NoValue, "an expression without a value is used as a value",
		"printf(), clear() and the like return nothing that could be assigned or compared."},
	{NoArgs, "the arguments of a probe are not known",
		"The target has no description of this event, so that args has no fields. Use a target that has it with --target, for example --target=host."},
	{BadUnroll, "unroll has a bad number of repetitions",
		"The number is a constant from 1 to 100."},
	{ScriptFails, "the script refuses to be compiled",
		"A call of fail(), or a static_assert() whose condition is false, is part of the compiled code. The message is the script's own."},
	{BadFunction, "a function of the script is wrong",
		"fn name($a : T, ...) : R { ... } accepts and returns values of any type that a variable can have; R is void when it returns none. Every way through a function that returns a value ends in return; functions do not call themselves."},

	{ImplicitCast, "an integer changes its meaning",
		"Signed and unsigned 64-bit integers are mixed. Add a cast to choose one."},
	{Unreachable, "code that never runs",
		"A statement before it always leaves the probe."},
	{ValueDiscarded, "a result is not used",
		"Assign it to _ if that is intended."},
	{OldScope, "a variable is used outside its block",
		"In older versions of the language, the scope of a variable was the whole probe; now it is the block. The script is accepted with the old scope; declare the variable with let before the block."},
	{Deprecated, "an old spelling",
		"It still works; the message names the new one."},
	{UnusedMap, "a declared map is never used", "Remove the declaration, or check the spelling."},
	{DistinctPointers, "pointers to different types are compared", "Cast one of them if this is intended."},
	{NeedlessCast, "a cast to the same type", "It changes nothing."},
	{LengthShortened, "a length is beyond the longest string",
		"The setting max_strlen limits what str() reads."},
	{ShadowsKernelType, "a type of the script hides a kernel type",
		"The definition in the script is used with its own offsets, which are not adapted to the host's kernel. Remove it to use the kernel's type."},
	{SignedDivision, "a division of signed numbers",
		"BPF divides unsigned. Cast the operands to unsigned types if they cannot be negative."},
	{NeverAssigned, "a variable never gets a value", "It is always 0 or empty."},
	{UsedBeforeAssign, "a variable may be read before it has a value", "It is 0 or empty then."},
	{NotInTarget, "the target does not have this function or event",
		"The host decides whether the probe can be attached. The name may be misspelt, or exist only on other kernels or in a module."},
	{PrintInLoop, "print() of a map in a loop",
		"Maps are printed later, by the loader: each print shows the map as it is then."},
	{NeverWritten, "a map is read but never written", "Its value is always 0. Check the spelling."},
	{Ignored, "something without effect", "It is accepted for compatibility."},
}
