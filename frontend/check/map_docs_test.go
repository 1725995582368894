// SPDX-License-Identifier: Apache-2.0

package check

import "testing"

func TestCutMapDoc(t *testing.T) {
	for _, c := range []struct {
		line, name, unit, help string
		ok                     bool
	}{
		{"@bytes [bytes]: Bytes read: all of them.", "@bytes", "bytes", "Bytes read: all of them.", true},
		{"@calls: Calls that failed", "@calls", "", "Calls that failed", true},
		{"@: All", "@", "", "All", true},
		{"@x [us] : y", "@x", "us", "y", true},
		{"@x us: y", "", "", "", false},
		{"@x [m/s]: y", "", "", "", false},
		{"@x []: y", "", "", "", false},
		{"@x is a map", "", "", "", false},
		{"see @x: y", "", "", "", false},
	} {
		name, unit, help, ok := cutMapDoc(c.line)
		if name != c.name || unit != c.unit || help != c.help || ok != c.ok {
			t.Errorf("cutMapDoc(%q) = %q, %q, %q, %v", c.line, name, unit, help, ok)
		}
	}
}
