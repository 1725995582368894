// SPDX-License-Identifier: Apache-2.0

package diag

import (
	"strings"
	"testing"

	"btc/internal/manifest"
)

func TestMessage(t *testing.T) {
	script := &manifest.Script{File: "x.bt", Source: "macro m() {\n\tf(1,\n\t  2);\n}\nbegin { m(); }\n"}
	for _, test := range []struct {
		name        string
		err         Error
		full, brief string
	}{
		{
			"a position", Error{Pos: manifest.Pos{Line: 5, Col: 9, EndCol: 12}},
			"x.bt:5:9-12: ERROR: bad\nbegin { m(); }\n        ~~~", "x.bt:5:9-12: ERROR: bad",
		},
		{"no position", Error{}, "ERROR: bad", "ERROR: bad"},
		{
			"a macro on two lines", Error{Pos: manifest.Pos{Line: 2, Col: 2}, Chain: []manifest.Location{{Line: 2, Col: 2, EndLine: 3, EndCol: 6}, {Line: 5, Col: 9, EndCol: 12}}},
			"x.bt:2-3: ERROR: bad\n    f(1,\n      2);\nx.bt:5:9-12: ERROR: expanded from\nbegin { m(); }\n        ~~~",
			"x.bt:2-3: ERROR: bad\nx.bt:5:9-12: ERROR: expanded from\nbegin { m(); }\n        ~~~",
		},
		{
			"another file", Error{Chain: []manifest.Location{{File: "lib.bt", Line: 7, Col: 2, EndCol: 4, Text: "\tgo"}, {Line: 5, Col: 9, EndCol: 12}}},
			"lib.bt:7:2-4: ERROR: bad\n    go\n    ~~\nx.bt:5:9-12: ERROR: expanded from\nbegin { m(); }\n        ~~~",
			"lib.bt:7:2-4: ERROR: bad\nx.bt:5:9-12: ERROR: expanded from\nbegin { m(); }\n        ~~~",
		},
		{
			"positions outside of the source", Error{Chain: []manifest.Location{{Line: 99, Col: -4, EndCol: 1 << 30}, {Line: 1, Col: 500, EndLine: 1 << 30}}},
			"x.bt:99:-4-1073741824: ERROR: bad\nx.bt:1-1073741824: ERROR: expanded from\nmacro m() {\n    f(1,\n      2);\n}\nbegin { m(); }",
			"x.bt:99:-4-1073741824: ERROR: bad\nx.bt:1-1073741824: ERROR: expanded from\nmacro m() {\n    f(1,\n      2);\n}\nbegin { m(); }",
		},
	} {
		f := test.err
		f.Script, f.Text = script, "bad"
		if got := f.Message("ERROR"); got != test.full {
			t.Errorf("%s:\n%s\nwant\n%s", test.name, got, test.full)
		}
		if got := f.Brief("ERROR"); got != test.brief {
			t.Errorf("%s, brief:\n%s\nwant\n%s", test.name, got, test.brief)
		}
	}
}

// TestMessageBounded checks what a chain of spans over long lines takes: 64 of them in a source of 8 MiB would be 1 GB.
func TestMessageBounded(t *testing.T) {
	long := strings.Repeat("\t", 8<<20)
	f := Error{Script: &manifest.Script{File: "x.bt", Source: long}, Text: "bad"}
	for range 64 {
		f.Chain = append(f.Chain, manifest.Location{Line: 1, Col: 1, EndLine: 2, EndCol: 1}, manifest.Location{File: "l", Line: 1, Col: 1, EndLine: 1 << 20, Text: long})
	}
	if n := len(f.Message("ERROR")); n > 1<<20 {
		t.Errorf("a message of %d bytes", n)
	}
}
