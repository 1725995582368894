package dump

import (
	"strings"
	"testing"

	"btc/ir"
)

const loopText = `func @p prog (kind kprobe) {
b0(v0:ctx):
  jump b1(0)                                       !1:2
b1(v1:i64):
  v2:i64 = add v1, 1
  v3:i1 = icmp ult v2, 4
  br v3, b1(v2), b2
b2 cold:
  ret 0
b3:
  ret 1
}
`

func TestCFG(t *testing.T) {
	var sb strings.Builder
	CFG(&sb, ir.MustParse(loopText).Funcs[0])
	want := `@p: 4 blocks, 1 loops
  b0      0 values                 -> b1(0)
  b1      2 values  loop 1 head    -> b1(v2) else b2 if v3              idom b0
  b2      0 values  cold           ret                                  idom b1
  b3    unreachable
`
	if sb.String() != want {
		t.Errorf("got\n%s\nwant\n%s", sb.String(), want)
	}
}

func TestPage(t *testing.T) {
	m := ir.MustParse(loopText)
	r := &Recorder{Title: "a < b"}
	r.Add("input", m)
	r.Add("nothing", m)
	ir.RemoveUnreachable(m.Funcs[0])
	r.Add("cut", m)
	var sb strings.Builder
	if err := r.HTML(&sb); err != nil {
		t.Fatal(err)
	}
	page := sb.String()
	for _, want := range []string{"<title>a &lt; b</title>", "input <small>unchanged by nothing</small>", "<h2>cut</h2>",
		`<i data-n="v2">v2</i>:i64 = add <i data-n="v1">v1</i>, 1`, `<i data-n="!1:2">!1:2</i>`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if n := strings.Count(page, "<section>"); n != 2 {
		t.Errorf("%d columns, want 2", n)
	}
	for _, bad := range []string{"src=", "href=", "http"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page refers to something outside: %s", bad)
		}
	}
}
