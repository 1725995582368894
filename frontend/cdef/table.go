package cdef

import (
	_ "embed"
	"strconv"
	"strings"
)

// The tables have "NAME value" a line, sorted; those of the architectures are made
// by tools/uapi.
var (
	//go:embed constants_x86_64.txt
	constantsX86 string
	//go:embed constants_aarch64.txt
	constantsARM64 string
	// constantsKernel are flags that are no UAPI and have had one value since Linux
	// 5.10: gfp_t (GFP_ATOMIC and GFP_NOWAIT are others before 6.3 and since 6.12)
	// and blk_opf_t. A test compares them with the target's enumerators.
	//go:embed constants_kernel.txt
	constantsKernel string
)

// tableNames are the constants of an architecture's user-space headers that
// begin with head; none for an empty head.
func tableNames(goarch, head string) []string {
	table := map[string]string{"amd64": constantsX86, "arm64": constantsARM64}[goarch]
	var all []string
	for head != "" {
		i := strings.Index("\n"+table, "\n"+head)
		if i < 0 {
			break
		}
		name, rest, _ := strings.Cut(table[i:], " ")
		all = append(all, name)
		_, table, _ = strings.Cut(rest, "\n")
	}
	return all
}

// tableConstant finds a constant of the user-space headers of an architecture, or
// one of the kernel's own that all kernels share.
func tableConstant(goarch, name string) (int64, bool) {
	table := map[string]string{"amd64": constantsX86, "arm64": constantsARM64}[goarch]
	if v, ok := find(table, name); ok {
		return v, true
	}
	return find(constantsKernel, name)
}

// find looks a name up in a sorted table.
func find(table, name string) (int64, bool) {
	if table == "" || name == "" {
		return 0, false
	}
	key := name + " "
	at, end := 0, len(table) // of the lines that may be it
	for at < end {
		line := at + strings.LastIndexByte(table[at:(at+end)/2], '\n') + 1
		next := line + strings.IndexByte(table[line:], '\n') + 1
		switch rest := table[line:]; {
		case strings.HasPrefix(rest, key):
			at, end = line, line
		case rest < key:
			at = next
		default:
			end = line
		}
	}
	if !strings.HasPrefix(table[at:], key) {
		return 0, false
	}
	text, _, _ := strings.Cut(table[at+len(key):], "\n")
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic("BUG: constant table holds " + name + " " + text)
	}
	return v, true
}
