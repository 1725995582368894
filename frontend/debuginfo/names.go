// SPDX-License-Identifier: Apache-2.0

package debuginfo

import "btc/internal/elffile"

// Matches reports whether a symbol is a C++ function that matches a pattern without parameters, "ns::f" or "ns::*".
func Matches(pattern, symbol string) bool { return elffile.MatchesCPP(pattern, symbol) }
