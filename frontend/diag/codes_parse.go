// SPDX-License-Identifier: Apache-2.0

package diag

// Codes of frontend/parse.
const (
	Syntax             Code = "E0101"
	UnterminatedString Code = "E0102"
	BadEscape          Code = "E0103"
	BadInteger         Code = "E0104"
	BadParameter       Code = "E0105"
	NotAssignable      Code = "E0106"
	Misplaced          Code = "E0107"
	DuplicateField     Code = "E0108"
	NotText            Code = "E0109"
	TooLarge           Code = "E0110"
	OpenComment        Code = "E0111"
	BadCDefinition     Code = "E0112"
	BadMacroParam      Code = "E0113"
)

var parseCodes = []Info{
	{Syntax, "syntax error",
		"The parser found something that the language does not allow here; the message says what it expected. The cause is often just before the marker: a missing ';' between statements, or an unclosed bracket."},
	{UnterminatedString, "unterminated string",
		"A string ends with a double quote on the line where it begins. Add the missing quote. Write \\n for a line break and \\\" for a quote inside a string."},
	{BadEscape, "invalid escape sequence in a string",
		"Strings support \\n \\t \\r \\\" \\\\, octal \\0 to \\377 and hexadecimal \\x0 to \\xff. Write \\\\ for a backslash."},
	{BadInteger, "malformed integer",
		"Integers are decimal, hexadecimal (0x1f), octal (017) or a digit with an exponent (1e9). '_' may separate digits. Suffixes are u, l, ll, ul, ull, or a duration: ns us ms s m h d. The value must fit in 64 bits. There are no floating-point numbers."},
	{BadParameter, "invalid positional parameter",
		"Positional parameters are $1, $2 and so on; $# is their number. There is no $0. Names of variables do not begin with a digit."},
	{NotAssignable, "this cannot be assigned to, or have its address taken",
		"Only variables ($x), maps (@x) and map elements (@x[key]) can be assigned, incremented and decremented, and only variables and maps have an address (&$x). Copy any other value to a variable first."},
	{Misplaced, "an item is not allowed at this point of the script",
		"The order of a script is: C definitions, then the config block and imports, then probes, macros, functions and map declarations. There is at most one config block, and outside probes 'let' declares only maps. Move the item to its part of the script."},
	{DuplicateField, "a record has two fields with the same name",
		"The names of the fields of a record (a=1, b=2) must differ, because .a must mean one of them. Rename one."},
	{NotText, "the script is not valid UTF-8",
		"Scripts and headers are UTF-8 text without NUL bytes. The file may be another one than intended, such as a compiled object, or may be in another encoding: convert it with iconv."},
	{TooLarge, "the script exceeds a limit of the compiler",
		"The size and nesting of a script are limited, so that no input can make the compiler run for minutes or exhaust memory. The message names the limit. Use a loop instead of unroll, or split the script or the expression."},
	{OpenComment, "unterminated comment",
		"A comment that begins with /* ends at the next */, and there is none. Comments do not nest."},
	{BadCDefinition, "malformed C definition",
		"The top of a script contains preprocessor lines (#include, #define, #ifdef, ...) and definitions of struct, union, enum and typedef in C syntax. The braces of a definition must be closed before the first probe."},
	{BadMacroParam, "a macro parameter has the name of a builtin",
		"The parameters of a macro are $variables, @maps and plain names. A plain name that is a builtin, such as pid or args, would hide the builtin in the macro. Choose another name."},
}
