// SPDX-License-Identifier: Apache-2.0

package diag

import "sort"

// Info describes a code for "btc explain".
type Info struct {
	Code Code
	// Title is one line, without a full stop.
	Title string
	// Explanation is a few sentences: why the compiler refuses or warns, then what to do.
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

// areas returns the catalogue by file; a new codes_*.go file adds its table here.
func areas() [][]Info {
	return [][]Info{parseCodes, expandCodes, checkCodes, targetCodes, backendCodes}
}

// ExampleOf returns the example of a code; false if no script can cause it.
func ExampleOf(code Code) (Example, bool) {
	example, ok := examples[code]
	return example, ok
}

// Explain finds a code's description.
func Explain(code Code) (Info, bool) {
	for _, info := range Catalogue() {
		if info.Code == code {
			return info, true
		}
	}
	return Info{}, false
}
