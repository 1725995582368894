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
		"A type is one of the language (int64, string, ...), of the script's own C definitions, or of the kernel that the script is compiled for. If only another kernel has the type, select that kernel with --target."},
	{UnknownField, "a struct or the arguments of a probe have no such field",
		"Fields are those of the kernel that the script is compiled for. Fields are renamed between kernel versions; the hint names a similar one if there is one."},
	{BadAccess, "this kind of value has no fields or elements",
		"'.' and '->' apply to structs, pointers to structs, tuples and records; '[]' applies to arrays, pointers, strings and tuples. Cast an integer to a pointer first: ((struct sock *)arg0)->field."},
	{OutOfBounds, "a constant index is outside the array or tuple",
		"Indices count from 0."},
	{BadOperands, "an operator does not accept operands of these types",
		"Arithmetic needs integers, and a pointer plus or minus an integer. Strings can only be compared with == and !=."},
	{TypeMismatch, "a variable or map gets values of incompatible types",
		"All values of a variable, and all values of a map, have one type. Integers of different sizes are compatible, and so are strings of different lengths; an integer and a string are not."},
	{KeyMismatch, "a map is used with different kinds of keys",
		"A map has either no keys (@x) or always keys of the same number and types (@x[pid, comm])."},
	{BadMapUse, "a map does not support this operation",
		"A map of count(), sum(), hist() and the like is written with that function only, with the same parameters everywhere. The script cannot read histograms and statistics."},
	{BadCast, "a value cannot be converted to this type",
		"Integers, pointers and enums can be cast to each other, and an integer to an array of bytes of its size and back. Structs cannot be cast, but pointers to them can."},
	{BadArguments, "wrong arguments to a function",
		"The function does not accept this number of arguments, or arguments of these types."},
	{BadFormat, "a format string and its arguments do not match",
		"Conversions are %d %i %u %o %x %X %c %p for numbers, %s for anything, %r %rx %rh for buffers. Each takes one argument."},
	{NotInThisProbe, "this is not available in this kind of probe",
		"Some builtins exist only in certain probes: argN at function entry, retval at function return, args where arguments have names."},
	{NotSupported, "not supported",
		"This is part of the language, but btc does not support it."},
	{NotConstant, "a value must be known when the script is compiled",
		"A constant is required here, but the value is only known when the script runs. The value of a parameter ($1, getopt) that must be constant is passed to the compiler: btc compile x.bt -- VALUE."},
	{BadConfigKey, "unknown setting or invalid value in the config block",
		"See the language reference for the settings and their values."},
	{BadDeclaration, "invalid variable declaration",
		"A variable can be declared once per scope and cannot shadow one of an outer block. Aggregations can only be stored in maps."},
	{BadCondition, "this value cannot be a condition",
		"A condition is an integer, boolean or pointer. Compare other values with something."},
	{CSyntax, "invalid C definition at the top of the script",
		"The top of a script may contain #include, #define, conditional directives and definitions of struct, union, enum and typedef."},
	{FoldOverflow, "a constant expression cannot be evaluated",
		"The expression divides by zero or overflows."},
	{StringTooLong, "a string is too long",
		"The setting max_strlen limits the length of strings."},
	{BadJump, "break, continue or return is not allowed here",
		"break and continue are only allowed in loops."},
	{NoProbes, "the script has no probes",
		"A script needs at least one probe, for example begin { ... } or kprobe:vfs_read { ... }."},
	{BadBranches, "the branches of a conditional have incompatible types",
		"Each branch of ?: or of an if expression can be the value of the whole expression, so both must have the same type."},
	{BadMapDecl, "a map declaration does not fit its use",
		"The kinds in let @m = hash(N) are hash, lruhash, percpuhash and percpulruhash. Aggregations need a percpu kind; all other values need hash or lruhash."},
	{NoValue, "an expression without a value is used as a value",
		"printf(), clear() and similar functions return nothing that could be assigned or compared."},
	{NoArgs, "the arguments of a probe are not known",
		"The target does not describe this event, so args has no fields. Use --target with a target that has it, for example --target=host."},
	{BadUnroll, "invalid number of repetitions for unroll",
		"The number must be a constant from 1 to 100."},
	{ScriptFails, "the script stops its own compilation",
		"The compiled code contains a call of fail(), or a static_assert() whose condition is false. The message is the script's."},
	{BadFunction, "invalid function definition",
		"The parameters and the result of fn name($a : T, ...) : R { ... } have any type that a variable can have; R is void if the function returns nothing. Every path through a function that returns a value must end in return. A function cannot call itself."},

	{ImplicitCast, "an integer changes its meaning",
		"Signed and unsigned 64-bit integers are mixed. Add a cast to choose one."},
	{Unreachable, "code that never runs",
		"An earlier statement always ends the probe."},
	{ValueDiscarded, "a result is not used",
		"Assign it to _ to ignore it."},
	{OldScope, "a variable is used outside its block",
		"In older versions of the language the scope of a variable was the whole probe; now it is the block. The script is compiled with the old scope; to avoid the warning, declare the variable with let before the block."},
	{Deprecated, "deprecated name or syntax",
		"It still works; the message shows the new form."},
	{UnusedMap, "a declared map is never used", "Remove the declaration, or check the spelling."},
	{DistinctPointers, "pointers to different types are compared", "Cast one of them if this is intended."},
	{NeedlessCast, "redundant cast", "The expression already has this type."},
	{LengthShortened, "a length exceeds the maximum string length",
		"The setting max_strlen limits what str() reads."},
	{ShadowsKernelType, "a type of the script shadows a kernel type",
		"The script's definition is used with its own offsets, which are not adjusted to the host's kernel. Remove it to use the kernel's type."},
	{SignedDivision, "a division of signed numbers",
		"BPF division is unsigned. Cast the operands to unsigned types if they cannot be negative."},
	{NeverAssigned, "a variable never gets a value", "It is always 0 or the empty string."},
	{UsedBeforeAssign, "a variable may be read before it has a value", "In that case it is 0 or the empty string."},
	{NotInTarget, "the target does not have this function or event",
		"Whether the probe can be attached is decided on the host. The name may be misspelled, or exist only on other kernels or in a module."},
	{PrintInLoop, "print() of a map in a loop",
		"The loader prints the map later, so each print shows the map as it is at that time."},
	{NeverWritten, "a map is read but never written", "Its value is always 0. Check the spelling."},
	{Ignored, "a setting or construct without effect", "It is accepted for compatibility."},
}
