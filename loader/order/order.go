// Package order sorts slices of structs with little code.
//
// slices.SortFunc is compiled anew for every type of element, 10 to 25 KB each,
// which a loader of six megabytes notices and a few hundred elements do not. It
// takes a slice and an order, and sorts in place.
package order

import "sort"

// Quick sorts s as cmp says: negative when a comes before b, 0 when they are equal.
func Quick[T any](s []T, cmp func(a, b T) int) {
	sort.Slice(s, func(i, j int) bool { return cmp(s[i], s[j]) < 0 })
}

// By is Quick for orders in which elements are equal: they stay as they stood.
func By[T any](s []T, cmp func(a, b T) int) {
	sort.SliceStable(s, func(i, j int) bool { return cmp(s[i], s[j]) < 0 })
}
