// SPDX-License-Identifier: Apache-2.0

package elffile

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"btc/internal/safefile"
)

// maxVisited bounds the directory entries visited for one pattern: "/*/*/*/*/*" would walk the whole disk.
const maxVisited = 1 << 18

// Files lists the files whose paths match a pattern of path/filepath.Match, in the order of their names, as
// path/filepath.Glob does. It opens directories only. It is an error if more than maxVisited directory entries would
// be visited.
func Files(pattern string) ([]string, error) { return files(pattern, maxVisited) }

func files(pattern string, budget int) ([]string, error) {
	if _, err := filepath.Match(pattern, ""); err != nil {
		return nil, err
	}
	paths := []string{""} // each ends in "/" or is empty
	if strings.HasPrefix(pattern, "/") {
		paths = []string{"/"}
	}
	parts := strings.FieldsFunc(pattern, func(r rune) bool { return r == '/' })
	parts = slices.DeleteFunc(parts, func(part string) bool { return part == "." })
	for i, part := range parts {
		end := "/"
		if i == len(parts)-1 {
			end = ""
		}
		var next []string
		for _, dir := range paths {
			if !strings.ContainsAny(part, `*?[\`) {
				if safefile.Exists(dir + part) {
					next = append(next, dir+part+end)
				}
				continue
			}
			names, err := matchingNames(dir, part, &budget)
			if err != nil {
				return nil, fmt.Errorf("pattern %s: %w", pattern, err)
			}
			for _, name := range names {
				next = append(next, dir+name+end)
			}
		}
		paths = next
	}
	return paths, nil
}

// matchingNames lists the entries of a directory that match one part of a pattern. The list is empty for anything
// that is not a readable directory.
func matchingNames(dir, part string, budget *int) ([]string, error) {
	if dir == "" {
		dir = "."
	}
	all, err := safefile.List(dir, *budget)
	if errors.Is(err, safefile.ErrTooLarge) {
		return nil, errors.New("too many directory entries to search")
	}
	if err != nil {
		return nil, nil
	}
	*budget -= len(all)
	slices.Sort(all)
	return slices.DeleteFunc(all, func(name string) bool {
		ok, _ := filepath.Match(part, name)
		return !ok
	}), nil
}
