// SPDX-License-Identifier: Apache-2.0

package diag

import "sort"

// Info describes a code for "btc explain".
type Info struct {
	Code Code
	// Title is one line, without a full stop.
	Title string
	// Explanation is a few sentences: why the compiler refuses or warns, and what to write
	// instead.
	Explanation string
}

// Catalogue returns every known code in order. The caller may modify the result.
func Catalogue() []Info {
	var all []Info
	for _, area := range areas() {
		all = append(all, area...)
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].Code < all[j].Code })
	return all
}

// areas is the catalogue by file; a new codes_*.go file adds its table here.
func areas() [][]Info {
	return [][]Info{parseCodes, expandCodes, checkCodes, targetCodes, backendCodes}
}

// Example is a script that causes the code; "" if no script can.
func Example(code Code) string { return examples[code] }

// Explain finds a code's description.
func Explain(code Code) (Info, bool) {
	for _, info := range Catalogue() {
		if info.Code == code {
			return info, true
		}
	}
	return Info{}, false
}
