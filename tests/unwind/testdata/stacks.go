// SPDX-License-Identifier: Apache-2.0

// Stacks of goroutines.
package main

import (
	"fmt"
	"sort"
	"strings"
)

var sink int

//go:noinline
func deep(n int) int {
	if n == 0 {
		s := strings.Split("e,d,c,b,a", ",")
		sort.Slice(s, func(i, j int) bool { sink++; return s[i] < s[j] })
		return len(fmt.Sprint(s, sink))
	}
	return deep(n-1) + sink
}

func main() {
	for {
		sink += deep(6)
	}
}
