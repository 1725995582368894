package binary

import (
	"strings"

	"github.com/ianlancetaylor/demangle"

	"btc/internal/probe"
)

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
		if err == nil && probe.Glob(pattern, name) {
			return true
		}
	}
	return false
}
