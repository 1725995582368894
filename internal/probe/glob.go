// SPDX-License-Identifier: Apache-2.0

package probe

import "strings"

// IsPattern reports whether the name in an attach point is a pattern.
func IsPattern(name string) bool { return strings.Contains(name, "*") }

// Glob reports whether a name matches a pattern in which "*" matches any string, including
// ":".
func Glob(pattern, name string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, head)
	for ok {
		part, next, star := strings.Cut(rest, "*")
		if !star {
			return strings.HasSuffix(name, part)
		}
		_, name, ok = strings.Cut(name, part)
		rest = next
	}
	return false
}
