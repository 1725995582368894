package cdef

import (
	_ "embed"
	"strconv"
	"strings"
)

// constantsX86 is made by tools/uapi: "NAME value" a line, sorted.
//
//go:embed constants_x86_64.txt
var constantsX86 string

// tableConstant finds a constant of the user-space headers of an architecture.
func tableConstant(goarch, name string) (int64, bool) {
	if goarch != "amd64" || name == "" {
		return 0, false
	}
	key := name + " "
	at := 0
	if !strings.HasPrefix(constantsX86, key) {
		at = strings.Index(constantsX86, "\n"+key) + 1
		if at == 0 {
			return 0, false
		}
	}
	text, _, _ := strings.Cut(constantsX86[at+len(key):], "\n")
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic("BUG: constant table holds " + name + " " + text)
	}
	return v, true
}
