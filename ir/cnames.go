// SPDX-License-Identifier: Apache-2.0

package ir

import "strings"

// keywords are those of C and C++: headers generated from an object's symbols and types must
// compile in both languages.
var keywords = wordSet(`alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const
	const_cast constexpr continue decltype default delete do double dynamic_cast else enum explicit export
	extern false float
	for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq
	private protected
	public register reinterpret_cast restrict return short signed sizeof static static_assert static_cast struct switch
	template this thread_local throw true try typedef typeid typename typeof union unsigned using virtual void volatile
	wchar_t while xor xor_eq`)

func wordSet(words string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(words) {
		set[w] = true
	}
	return set
}

// CIdentifier returns a name with "_" for the characters that a C identifier cannot have.
func CIdentifier(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
}

// IsCName reports whether an identifier may name a variable or member.
func IsCName(name string) bool {
	return name != "" && (name[0] < '0' || name[0] > '9') && !keywords[name]
}
