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
	LongLoop          Code = "W0219"
)

var checkCodes = []Info{
	{UnknownName, "unknown name",
		"A plain name is a builtin (pid, comm, nsecs, ...), a constant of an enum or a #define, or a constant of the system headers. Variables begin with $, maps with @. Check the spelling, or define the constant."},
	{UnknownFunction, "no function has this name",
		"A call names a function of the language, a macro, or a fn of the script. C functions of the kernel cannot be called. Check the spelling; docs/reference/functions.md lists the functions."},
	{UndefinedMap, "a map is used but never written",
		"A map gets its type from the values that are assigned to it, and this one never gets a value. Check the spelling, or assign a value somewhere."},
	{UndefinedVar, "a variable is used where it has no value",
		"A variable exists from its first assignment (or let) to the end of the block. Check the spelling. To use a variable in several blocks, declare it with let in the block around them; to use a value in several probes, use a map."},
	{UnknownType, "no type has this name",
		"A type is one of the language (int64, string, ...), of the script's own C definitions, or of the kernel that the script is compiled for. Check the spelling. If only another kernel has the type, select that kernel with --target."},
	{UnknownField, "a struct or the arguments of a probe have no such field",
		"Fields are those of the kernel that the script is compiled for, and kernels rename fields; the hint names a similar one if there is one. `btc list -v` prints the arguments of a probe and, with 'struct NAME', the members of a struct. If only another kernel has the field, select that kernel with --target."},
	{BadAccess, "this kind of value has no fields or elements",
		"'.' and '->' apply to structs, pointers to structs, tuples and records; '[]' applies to arrays, pointers, strings and tuples. Cast an integer to a pointer first: ((struct sock *)arg0)->field."},
	{OutOfBounds, "a constant index is outside the array or tuple",
		"Reading beyond the end would yield other data. Indices count from 0, so the last one is one less than the number of elements."},
	{BadOperands, "an operator does not accept operands of these types",
		"Arithmetic needs integers, or a pointer plus or minus an integer. Strings, tuples and records can only be compared with == and !=. Cast or convert an operand, or compare its parts."},
	{TypeMismatch, "a variable or map gets values of incompatible types",
		"All values of a variable, and all values of a map, have one type. Integers of different sizes are compatible, and so are strings of different lengths; an integer and a string are not. Use another variable or map for the other type."},
	{KeyMismatch, "a map is used with different kinds of keys",
		"A map has either no keys (@x) or always keys of the same number and types (@x[pid, comm]). Use one form everywhere, or a second map."},
	{BadMapUse, "a map does not support this operation",
		"A map of count(), sum(), hist() and the like is written with that function only, with the same parameters everywhere. The functions are assigned to a map directly, not to a variable. A script can read count, sum, avg, min and max maps as numbers, but not histograms; print() shows every kind."},
	{BadCast, "a value cannot be converted to this type",
		"Integers, pointers and enums can be cast to each other, and an integer to an array of bytes of its size and back. Structs cannot be cast, but pointers to them can: *(struct x *)pointer."},
	{BadArguments, "wrong arguments to a function",
		"The function does not accept this number of arguments, or arguments of these types. The message and the hint say what it expects; docs/reference/functions.md has an example of each function."},
	{BadFormat, "a format string and its arguments do not match",
		"Conversions are %d %i %u %o %x %X %c %p for numbers, %s for anything, %r %rx %rh for buffers. Each needs one argument, and each argument one conversion. Write %% for a percent sign."},
	{NotInThisProbe, "this is not available in this kind of probe",
		"Some builtins and functions exist only in certain probes: argN at function entry, retval at function return, args where arguments have names. docs/reference/probes.md lists what each kind of probe has."},
	{NotSupported, "not supported",
		"This is part of the language, but btc cannot compile it. The message names the construct; docs/language.md lists what is not supported, and what to use instead."},
	{NotConstant, "a value must be known when the script is compiled",
		"The value decides how the script is compiled (a format, a number of frames, a size), so it cannot come from an event. Write a constant. If it is a parameter ($1, getopt), pass its value to the compiler: btc compile x.bt -- VALUE."},
	{BadConfigKey, "unknown setting or invalid value in the config block",
		"Settings have fixed names and values, and a misspelt one must not be ignored. The message lists the values; docs/language.md lists the settings. An unstable feature of the language, such as typeinfo(), is an error until its setting enables it: config = { unstable_typeinfo = enable }."},
	{BadDeclaration, "invalid variable declaration",
		"A variable can be declared once per block, cannot have the name of one in an outer block, and needs a type: that of its value, or let $x : int64. Aggregations and functions are not values that a variable can hold; store aggregations in maps."},
	{BadCondition, "this value cannot be a condition",
		"A condition is an integer, a boolean or a pointer: other values have no meaning as true or false. Compare the value with something."},
	{CSyntax, "invalid C definition at the top of the script",
		"The top of a script contains #include, #define, conditional directives and definitions of struct, union, enum and typedef. A macro must be one complete expression where the script uses it."},
	{FoldOverflow, "a constant expression cannot be evaluated",
		"The compiler computes constant expressions, and this one divides by zero or does not fit in 64 bits. Correct it, or write the result."},
	{StringTooLong, "a string is too long",
		"Strings occupy memory for each event, so the setting max_strlen (1024 by default) limits them. Shorten the string or raise the setting: config = { max_strlen = 2048 }."},
	{BadJump, "break, continue or return is not allowed here",
		"break and continue leave a loop, so they need one around them. return may have a value only if it is a number, or in a fn. exit() in a for loop would have to leave the loop's program: set a variable, break, and call exit() after the loop."},
	{NoProbes, "the script has no probes",
		"Without a probe nothing would ever run. Add at least one, for example begin { ... } or kprobe:vfs_read { ... }."},
	{BadBranches, "the branches of a conditional have incompatible types",
		"Either branch of ?: or of an if expression can be the value of the whole expression, so both must have the same type. Convert one of them, or use an if statement."},
	{BadMapDecl, "a map declaration does not fit its use",
		"The kinds in let @m = hash(N) are hash, lruhash, percpuhash and percpulruhash. Aggregations need a kind with percpu, because each CPU counts for itself; all other values need hash or lruhash."},
	{NoValue, "an expression without a value is used as a value",
		"printf(), clear() and similar functions return nothing that could be assigned, printed or compared. Call them as statements."},
	{NoArgs, "the arguments of a probe are not known",
		"The target does not describe this event, so args has no fields. Check the name with btc list, or use a target that has it, such as --target=host."},
	{BadUnroll, "invalid number of repetitions for unroll",
		"unroll repeats the code when the script is compiled, so the number must be a constant from 1 to 100. Use for or while for more repetitions, or for a number that is known only at run time."},
	{ScriptFails, "the script stops its own compilation",
		"The compiled code contains a call of fail(), or a static_assert() whose condition is false. The message is the script's own, so its author knows what to change; often another target or parameter helps."},
	{BadFunction, "invalid function definition",
		"The parameters and the result of fn name($a : T, ...) : R { ... } have any type that a variable can have; R is void if the function returns nothing. Every path through a function that returns a value must end in return. A function cannot call itself."},

	{ImplicitCast, "an integer changes its meaning",
		"A signed and an unsigned 64-bit integer meet, so a large or a negative value would be taken for another number. Cast one of them to say which is meant."},
	{Unreachable, "code that never runs",
		"An earlier statement always ends the probe or the loop. Remove this code, or put the exit() or return under a condition."},
	{ValueDiscarded, "a result is not used",
		"The call does nothing but return a value, and the value is not used. Use it, or assign it to _ to ignore it."},
	{OldScope, "a variable is used outside its block",
		"In older versions of the language the scope of a variable was the whole probe; now it is the block. The script is compiled with the old scope. To avoid the warning, declare the variable with let before the block."},
	{Deprecated, "deprecated name or syntax",
		"It still works; the message shows the new form."},
	{UnusedMap, "a declared map is never used", "The declaration reserves nothing and has no effect. Remove it, or check the spelling of the map's name."},
	{DistinctPointers, "pointers to different types are compared", "Pointers to different types are rarely equal on purpose. Cast one of them if this is intended."},
	{NeedlessCast, "redundant cast", "The expression already has this type. Remove the cast."},
	{LengthShortened, "a length exceeds the maximum string length",
		"The setting max_strlen limits what str() reads, so the string will be shorter than this length. Raise the setting or use a smaller length."},
	{ShadowsKernelType, "a type of the script shadows a kernel type",
		"The script's definition is used with its own offsets, which are not adjusted to the host's kernel. Remove it to use the kernel's type, or rename it."},
	{SignedDivision, "a division of signed numbers",
		"BPF division is unsigned, so a negative operand would be taken for a very large number. Cast the operands to unsigned types if they cannot be negative."},
	{NeverAssigned, "a variable never gets a value", "It is always 0 or the empty string. Assign a value or remove the declaration."},
	{UsedBeforeAssign, "a variable may be read before it has a value", "In that case it is 0 or the empty string. Assign a value before the first use, for example with let $x = 0."},
	{NotInTarget, "the target does not have this function or event",
		"Whether the probe can be attached is decided on the host. The name may be misspelt, or exist only on other kernels or in a module. `btc list` shows the target's names; `btc list --target host` those of this machine."},
	{PrintInLoop, "print() of a map in a loop",
		"The loader prints the map later, when it handles the event, so each print shows the map as it is then, not as it was in this iteration. Print after the loop, or print values instead of the map."},
	{LongLoop, "loops that take longer than a run may",
		"The loops of one run of a probe are stopped after 0.25 s of CPU time. Use smaller ranges, or run the object with `--allow long-loops`."},
	{NeverWritten, "a map is read but never written", "Its value is always 0. Check the spelling."},
	{Ignored, "a setting or construct without effect", "It is accepted, so that scripts written for bpftrace compile. Remove it to avoid the warning."},
}
