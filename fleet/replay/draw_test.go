// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestDrawing: a replay on a terminal ends with what the maps were over time, also without the end of the run.
func TestDrawing(t *testing.T) {
	lines := strings.SplitAfter(small, "\n")
	text := lines[0]
	for i := range 4 {
		at := time.Date(2026, 11, 28, 9, 0, 1+i, 0, time.UTC).Format(time.RFC3339)
		text += fmt.Sprintf(`{"type": "snapshot", "time": "%s", "losses": []}
{"type": "map", "time": "%s", "name": "@", "shape": "count", "object": "16", "host": "vm", "signed": false, "entries": [{"key": [3], "value": %d}]}
{"type": "map", "time": "%s", "name": "@h", "shape": "hist", "object": "16", "host": "vm", "signed": true, "bits": 0, "entries": [{"value": [{"min": 4, "max": 7, "count": %d}]}]}
`, at, at, i*i, at, 1+i)
	}
	text += strings.Join(lines[3:], "")
	terminal := &Terminal{Columns: 80}
	for _, x := range []struct {
		opts        Options
		last, never string
	}{
		{Options{}, "\n\n\n@[3]: 1\n@[4]: 2\n@h:\n[4, 8)                 1 |@", "█"},
		{Options{Terminal: terminal}, "\n\n\n@[3]: 1  ▂▅█\n@[4]: 2\n@h:\n[4, 8)                 1 |  ███\n\n", "@[3]: 1\n@[4]"},
		{Options{Terminal: terminal, To: Moment{Since: 3500 * time.Millisecond, Given: true}}, "\n@[3]: 4  ▃█\n\n@h:\n[4, 8)                 3 |  ██\n\n", "@[4]"},
	} {
		out, _, err := replayText(text, x.opts)
		if err != nil || !strings.Contains(out, x.last) || strings.Contains(out, x.never) {
			t.Errorf("%+v: %v\n%s", x.opts, err, out)
		}
		if n := strings.Count(out, "[4, 8)                 2 |@@@@"); n != 1 {
			t.Errorf("%+v: %d times the second snapshot\n%s", x.opts, n, out)
		}
	}
}

// TestMergedDrawing: the report of several hosts has drawings, too, by the text of keys, whose numbers differ in each interval.
func TestMergedDrawing(t *testing.T) {
	head, _, _ := strings.Cut(small, "\n")
	head = strings.Replace(head, `"version": 2`, `"version": 2, "merged": true, "by_host": true, "hosts": ["a", "b"]`, 1)
	head = strings.Replace(head, `"key":{"kind":"int","size":8,"signed":true}`, `"key":{"kind":"ksym","size":8}`, 1)
	text := head + "\n"
	for i := range 5 {
		at := time.Date(2026, 11, 28, 9, 0, 1+i, 0, time.UTC).Format(time.RFC3339)
		final := ""
		if i == 4 {
			final = `, "final": true`
		}
		entries := []string{
			fmt.Sprintf(`{"key": ["a", "f"], "value": %d}`, i*i), fmt.Sprintf(`{"key": ["a", "g"], "value": %d}`, 100+5*i), `{"key": ["b", "g"], "value": 1}`,
		}
		entries = append(entries[i%3:], entries[:i%3]...)
		text += fmt.Sprintf(`{"type": "snapshot", "time": "%s"%s, "losses": []}
{"type": "map", "time": "%s", "name": "@", "shape": "count", "object": "16", "host": "", "signed": false, "entries": [%s]}
`, at, final, at, strings.Join(entries, ", "))
	}
	for _, x := range []struct {
		opts        Options
		last, never string
	}{
		{Options{}, "\n@[b, g]: 1\n@[a, f]: 16\n@[a, g]: 120\n", "█"},
		{Options{Terminal: &Terminal{Columns: 80}}, "\n@[b, g]: 1    ▁▁▁\n@[a, f]: 16   ▂▅█\n@[a, g]: 120  ███\n", "NONE"},
	} {
		if out, _, err := replayText(text, x.opts); err != nil || !strings.Contains(out, x.last) || strings.Contains(out, x.never) {
			t.Errorf("%+v: %v\n%s", x.opts, err, out)
		}
	}
}
