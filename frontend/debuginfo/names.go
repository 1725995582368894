// SPDX-License-Identifier: Apache-2.0

package debuginfo

import "btc/loader/binary"

// Matches reports whether a symbol is a C++ function that matches a pattern without parameters, "ns::f" or "ns::*".
func Matches(pattern, symbol string) bool { return binary.MatchesCPP(pattern, symbol) }
