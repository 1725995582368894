// SPDX-License-Identifier: Apache-2.0

package debuginfo

import "btc/loader/binary"

// Matches reports whether a symbol is the C++ function that a pattern without
// parameters means, "ns::f" or "ns::*".
func Matches(pattern, symbol string) bool { return binary.MatchesCPP(pattern, symbol) }
