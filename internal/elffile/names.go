// SPDX-License-Identifier: Apache-2.0

package elffile

import (
	"strings"

	"github.com/ianlancetaylor/demangle"

	"btc/internal/probe"
)

// Limits on demangling, because a short name may expand exponentially.
const (
	MaxMangled    = 4096 // bytes of a name
	maxShownShift = 14   // 1<<14 bytes of what is shown
)

// MatchesCPP reports whether a symbol is the C++ function that a pattern names: "ns::f",
// "ns::*", "ns::f(int)". Without parameters a name matches all overloads; template
// arguments are optional.
func MatchesCPP(pattern, symbol string) bool {
	if !strings.HasPrefix(symbol, "_Z") {
		return false
	}
	if len(symbol) > MaxMangled {
		return false
	}
	ways := [][]demangle.Option{{demangle.NoParams, demangle.NoTemplateParams}, {demangle.NoParams}}
	if strings.Contains(pattern, "(") {
		ways = [][]demangle.Option{nil, {demangle.NoTemplateParams}}
	}
	for _, options := range ways {
		name, err := demangle.ToString(symbol, append(options, demangle.MaxLength(maxShownShift))...)
		if err == nil && probe.Glob(pattern, name) {
			return true
		}
	}
	return false
}

// Demangled returns a C++ or Rust name as in the source; a name that would become too long is returned unchanged.
func Demangled(name string) string {
	if len(name) > MaxMangled {
		return name
	}
	shown := demangle.Filter(name, demangle.MaxLength(maxShownShift))
	if len(shown) >= 1<<maxShownShift {
		return name
	}
	return shown
}
