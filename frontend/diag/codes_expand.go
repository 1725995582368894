// SPDX-License-Identifier: Apache-2.0

package diag

// Codes of frontend/expand.
const (
	BadMacro       Code = "E0114"
	BadMacroCall   Code = "E0115"
	Unhygienic     Code = "E0116"
	RecursiveMacro Code = "E0117"
	BadImport      Code = "E0118"
	BadTypeArg     Code = "E0119"
	BadInclude     Code = "E0120"
)

var expandCodes = []Info{
	{BadMacro, "invalid macro definition",
		"A macro is defined once for each number and kind of parameters. The names of parameters must differ, and the macro cannot declare them again. break, continue and return cannot leave a macro; its value is its last expression, without ';'."},
	{BadMacroCall, "no macro of this name accepts these arguments",
		"A parameter $x accepts a variable, @x a map, and a plain name any expression. The note shows the closest definition. Change the arguments, or define the macro for this number of arguments."},
	{Unhygienic, "a macro uses a map that is not one of its arguments",
		"The maps that a macro changes must be visible where it is called, so it can use only the maps that are its arguments. Write macro name(@m) { ... } and name(@m)."},
	{RecursiveMacro, "a macro calls itself",
		"A call of a macro is replaced by its body, so recursion would never end. Use a loop."},
	{BadImport, "a file cannot be imported",
		"Scripts (.bt), headers (.h) and directories of scripts can be imported, by a path relative to the importing script. An imported file has no config block. Files and directories that everyone may write to are refused. C sources (.bpf.c) would need a C compiler and are not supported. An import inside a probe needs config = { unstable_import_statement = enable }; at the top of the script, none is needed."},
	{BadInclude, "a header cannot be read",
		"#include reads your own headers: \"file.h\" next to the file that includes it, then in the directories of -I DIR; <file.h> in those directories, then next to the script. Correct the name or add -I DIR. Headers of the kernel and of the C library need not exist: their types come from the target, their constants from a table."},
	{BadTypeArg, "a type is not allowed here",
		"typeof(...) and struct names can be passed only to a macro that uses the parameter as a type, for example in sizeof() or a cast. Pass a value instead."},
}
