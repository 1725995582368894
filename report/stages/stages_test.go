// SPDX-License-Identifier: Apache-2.0

package stages

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// read returns the data of a file.
func read(t *testing.T, s *Stages) (string, data) {
	t.Helper()
	var out bytes.Buffer
	if err := s.Write(&out); err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`).FindStringSubmatch(out.String())
	if m == nil {
		t.Fatal("no data")
	}
	var d data
	if err := json.Unmarshal([]byte(m[1]), &d); err != nil {
		t.Fatal(err)
	}
	return out.String(), d
}

func (d *data) text(lines []int) string {
	var all []string
	for _, n := range lines {
		all = append(all, strings.TrimSpace(d.Lines[n])+" "+fmt.Sprint(d.At[n]))
	}
	return strings.Join(all, "|")
}

// TestPositions checks the positions of the lines of all kinds of code: those of the final code are those of the line before until
// another one is named, and never those of another function.
func TestPositions(t *testing.T) {
	s := &Stages{File: "dir/s.bt", Source: "x\n", Doc: func(name string) string { return "about " + name }}
	s.Add("ast", "x")
	s.Add("input", "module s file s.bt\nstmt 1:1 \"x\"\nfunc @f prog (kind kprobe, pos !1:1#0)  !1:1#0 {\n  v1:i64 = pid      !1:21#1\n}\n")
	s.Add("isel", "func f frame 0\nb0:\n  v1 = 2  !1:21\n")
	s.Add("isel", "func g frame 0\n")
	s.Add("asm", "f:\n   0: (7a) r1 = 0 ; 1:21\n   1: (bf) r1 = r10\n   2: (79) r6 = *(u64 *)(r1 +0) ; 3:3 struct x:0\n\ng:\n   0: (95) exit\n")
	s.Add("object", "nr section")
	_, d := read(t, s)
	if len(d.Stages) != 2 || d.Stages[1].Name != "isel" || d.Stages[1].Doc != "about isel" {
		t.Fatalf("stages %+v", d.Stages)
	}
	for _, x := range []struct{ got, want string }{
		{d.text(d.Stages[0].Lines), "func @f prog (kind kprobe, pos !1:1#0) [1 1]|v1:i64 = pid [1 21]|} []"},
		{d.text(d.Stages[1].Lines), "func f frame 0 []|b0: []|v1 = 2 [1 21]|func g frame 0 []"},
		{d.text(d.BPF), "f: []|0: (7a) r1 = 0 [1 21]|1: (bf) r1 = r10 [1 21]|2: (79) r6 = *(u64 *)(r1 +0) ; struct x:0 [3 3]| [3 3]|g: []|0: (95) exit []"},
	} {
		if x.got != x.want {
			t.Errorf("got  %s\nwant %s", x.got, x.want)
		}
	}
	// The compiler tries again with a smaller frame.
	s.Add("input", "func @f  !1:1#0 {")
	if _, d := read(t, s); len(d.Stages) != 1 || len(d.BPF) != 0 {
		t.Errorf("after another try: %+v", d.Stages)
	}
}

// TestHostile checks that no script ends the element that its text is in.
func TestHostile(t *testing.T) {
	evil := "</script><script>alert(1)</script>\u202e"
	s := &Stages{File: evil, Source: evil, Kernel: &Kernel{Absent: evil, Programs: []Program{{Name: evil, Facts: evil}}}}
	s.Add("input", "  "+evil+"  !1:2#0")
	text, d := read(t, s)
	if n := strings.Count(text, "alert(1)</script>"); n != 0 {
		t.Errorf("the text of a script is in the file as it is, %d times", n)
	}
	if want := strings.ReplaceAll(evil, "\u202e", `\u202e`); d.Source != want || d.Loaded[0].Value != want {
		t.Errorf("the source is %q", d.Source)
	}
}
