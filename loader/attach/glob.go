package attach

import (
	"strings"

	"btc/loader/binary"
)

// glob tells whether name fits a pattern in which "*" stands for any text.
func glob(pattern, name string) bool { return binary.Glob(pattern, name) }

func isPattern(s string) bool { return strings.Contains(s, "*") }
