package binary

import (
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// Glob tells whether a name fits a pattern in which "*" stands for any text.
func Glob(pattern, name string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	if !strings.HasPrefix(name, head) {
		return false
	}
	name = name[len(head):]
	for {
		part, next, star := strings.Cut(rest, "*")
		if !star {
			return strings.HasSuffix(name, part)
		}
		i := strings.Index(name, part)
		if i < 0 {
			return false
		}
		name, rest = name[i+len(part):], next
	}
}

// MatchesCPP reports whether a symbol is the C++ function that a pattern names:
// "ns::f", "ns::*", "ns::f(int)". Without parameters one name means all overloads;
// arguments of templates may be given or left out.
func MatchesCPP(pattern, symbol string) bool {
	if !strings.HasPrefix(symbol, "_Z") {
		return false
	}
	ways := [][]demangle.Option{{demangle.NoParams, demangle.NoTemplateParams}, {demangle.NoParams}}
	if strings.Contains(pattern, "(") {
		ways = [][]demangle.Option{nil, {demangle.NoTemplateParams}}
	}
	for _, options := range ways {
		name, err := demangle.ToString(symbol, options...)
		if err == nil && Glob(pattern, name) {
			return true
		}
	}
	return false
}
