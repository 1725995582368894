// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bufio"
	"fmt"
	"os"
	"sort"
	"strings"
	"testing"
)

// listed is one line of a list of differences: the key, the expected result, and the reason for the
// difference.
type listed struct {
	key, want, reason string
}

// readList reads a list of three columns separated by tabs. Lines that begin with # are comments.
func readList(path string) (map[string]listed, error) {
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return map[string]listed{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := map[string]listed{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		cols := strings.Split(line, "\t")
		if len(cols) != 3 {
			return nil, fmt.Errorf("%s: %q: want three columns", path, line)
		}
		out[cols[0]] = listed{cols[0], cols[1], cols[2]}
	}
	return out, lines.Err()
}

// compare compares the current differences with the list at path. With update, it rewrites the list,
// but keeps reasons that were written by hand; these begin with "=".
func compare(t *testing.T, path, head string, now []listed, ran func(key string) bool, update bool) {
	t.Helper()
	old, err := readList(path)
	if err != nil {
		t.Fatal(err)
	}
	if update {
		if err := writeList(path, head, now, old, ran); err != nil {
			t.Fatal(err)
		}
		return
	}
	current := map[string]bool{}
	for _, l := range now {
		current[l.key] = true
		if _, ok := old[l.key]; !ok {
			t.Errorf("%s: new difference: want %s: %s", l.key, l.want, l.reason)
		}
	}
	for key := range old {
		if !current[key] && ran(key) {
			t.Errorf("%s agrees now; run with -update to remove it from %s", key, path)
		}
	}
}

func writeList(path, head string, now []listed, old map[string]listed, ran func(string) bool) error {
	for i, l := range now {
		if o, ok := old[l.key]; ok && strings.HasPrefix(o.reason, "=") {
			now[i].reason = o.reason
		}
	}
	for key, o := range old {
		if !ran(key) {
			now = append(now, o)
		}
	}
	sort.Slice(now, func(i, j int) bool { return now[i].key < now[j].key })
	var b strings.Builder
	b.WriteString(head)
	for _, l := range now {
		fmt.Fprintf(&b, "%s\t%s\t%s\n", l.key, l.want, l.reason)
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// ranking counts the reasons and sorts them by frequency.
func ranking(now []listed) string {
	count := map[string]int{}
	for _, l := range now {
		count[l.reason]++
	}
	var reasons []string
	for r := range count {
		reasons = append(reasons, r)
	}
	sort.Slice(reasons, func(i, j int) bool {
		a, b := reasons[i], reasons[j]
		return count[a] > count[b] || count[a] == count[b] && a < b
	})
	var b strings.Builder
	for _, r := range reasons {
		fmt.Fprintf(&b, "%5d  %s\n", count[r], r)
	}
	return b.String()
}
