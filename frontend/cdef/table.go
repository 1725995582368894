// SPDX-License-Identifier: Apache-2.0

package cdef

import (
	_ "embed"
	"slices"
	"strconv"
	"strings"
)

// The tables have one "NAME value" per line, sorted; tools/uapi generates those of the user-space headers: constants
// common to all architectures, and for each architecture the constants that only it has or that have another value
// there.
var (
	//go:embed constants_common.txt
	constantsCommon string
	//go:embed constants_x86_64.txt
	constantsX86 string
	//go:embed constants_aarch64.txt
	constantsARM64 string
	//go:embed constants_riscv64.txt
	constantsRISCV64 string
	// constantsKernel are flags outside the UAPI that have had one value since Linux 5.10: gfp_t (except GFP_ATOMIC
	// and GFP_NOWAIT, which changed in 6.3 and 6.12) and blk_opf_t. A test compares them with the target's
	// enumerators.
	//go:embed constants_kernel.txt
	constantsKernel string
)

// ownTable returns the table of constants specific to an architecture.
func ownTable(goarch string) string {
	return map[string]string{"amd64": constantsX86, "arm64": constantsARM64, "riscv64": constantsRISCV64}[goarch]
}

// tableNames returns the constants of an architecture's user-space headers with prefix head,
// sorted; none for an empty head.
func tableNames(goarch, head string) []string {
	if head == "" || ownTable(goarch) == "" {
		return nil
	}
	all := append(namesIn(ownTable(goarch), head), namesIn(constantsCommon, head)...)
	slices.Sort(all)
	return all
}

func namesIn(table, head string) []string {
	var all []string
	for line := table[firstFrom(table, head):]; strings.HasPrefix(line, head); {
		name, rest, _ := strings.Cut(line, " ")
		all = append(all, name)
		_, line, _ = strings.Cut(rest, "\n")
	}
	return all
}

// tableConstant finds a constant of the user-space headers of an architecture, or a kernel constant that is the same
// in all kernels.
func tableConstant(goarch, name string) (int64, bool) {
	tables := [...]string{ownTable(goarch), constantsCommon, constantsKernel}
	if tables[0] == "" { // an architecture without headers
		tables[1] = ""
	}
	for _, table := range tables {
		if v, ok := find(table, name); ok {
			return v, true
		}
	}
	return 0, false
}

// find looks a name up in a sorted table.
func find(table, name string) (int64, bool) {
	if name == "" {
		return 0, false
	}
	text, ok := strings.CutPrefix(table[firstFrom(table, name+" "):], name+" ")
	if !ok {
		return 0, false
	}
	text, _, _ = strings.Cut(text, "\n")
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic("BUG: constant table holds " + name + " " + text)
	}
	return v, true
}

// firstFrom returns the offset of the first line of a sorted table that is not before head.
func firstFrom(table, head string) int {
	at, end := 0, len(table)
	for at < end {
		line := at + strings.LastIndexByte(table[at:(at+end)/2], '\n') + 1
		if table[line:] < head {
			at = line + strings.IndexByte(table[line:], '\n') + 1
		} else {
			end = line
		}
	}
	return at
}
