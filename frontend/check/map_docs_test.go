// SPDX-License-Identifier: Apache-2.0

package check

import "testing"

func TestCutMapDoc(t *testing.T) {
	for _, c := range []struct {
		line string
		want mapDoc
		ok   bool
	}{
		{"@bytes [bytes]: Bytes read: all of them.", mapDoc{"@bytes", "bytes", "", "Bytes read: all of them."}, true},
		{"@calls: Calls that failed", mapDoc{"@calls", "", "", "Calls that failed"}, true},
		{"@: All", mapDoc{"@", "", "", "All"}, true},
		{"@x [us] : y", mapDoc{"@x", "us", "", "y"}, true},
		{"@x [ns 1us..10s]: y", mapDoc{"@x", "ns", "1us..10s", "y"}, true},
		{"@x [1us..10s/2]: y", mapDoc{"@x", "", "1us..10s/2", "y"}, true},
		{"@x [ns  /2 ]: y", mapDoc{"@x", "ns", "/2", "y"}, true},
		{"@x [ns 1us..x]: y", mapDoc{"@x", "ns", "1us..x", "y"}, true}, // a warning names it
		{line: "@x us: y"}, {line: "@x [m/s]: y"}, {line: "@x []: y"}, {line: "@x [ns 1us..2us more]: y"}, {line: "@x is a map"}, {line: "see @x: y"},
	} {
		if got, ok := cutMapDoc(c.line); got != c.want || ok != c.ok {
			t.Errorf("cutMapDoc(%q) = %q, %v", c.line, got, ok)
		}
	}
}
