// SPDX-License-Identifier: Apache-2.0

// Package spell suggests corrections for misspelled names.
package spell

import "strings"

// Nearest picks the most probable candidate for a misspelled name, or "". A name that differs only in case and
// underscores wins over one with a small edit distance (at most a third of the name's length). Ties go to a name with
// the same letters, then to one that has letters more or less than the name, then to the first.
func Nearest(name string, candidates []string) string {
	best, bestCost := "", len(name)/3+1
	want := bare(name)
	for _, c := range candidates {
		cost := 0
		if bare(c) != want {
			cost = distance(name, c, bestCost+1)
		}
		if cost < bestCost || cost == bestCost && best != "" && likeness(name, c) > likeness(name, best) {
			best, bestCost = c, cost
		}
	}
	return best
}

// likeness breaks ties between names of the same distance.
func likeness(a, b string) int {
	switch {
	case len(a) == len(b) && letters(a) == letters(b):
		return 2
	case within(a, b) || within(b, a):
		return 1
	}
	return 0
}

// within reports whether b has all letters of a, in the same order.
func within(a, b string) bool {
	for i := 0; i < len(b) && a != ""; i++ {
		if a[0] == b[i] {
			a = a[1:]
		}
	}
	return a == ""
}

func letters(s string) (n [256]int) {
	for i := range len(s) {
		n[s[i]]++
	}
	return n
}

func bare(s string) string { return strings.ToLower(strings.ReplaceAll(s, "_", "")) }

// distance returns the number of insertions, deletions, replacements and swaps of adjacent characters that turn a into
// b, or limit if that is less.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	before, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		least := i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
			least = min(least, cur[j])
		}
		if least >= limit {
			return limit
		}
		before, prev, cur = prev, cur, before
	}
	return min(prev[len(b)], limit)
}
