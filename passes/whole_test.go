package passes

import (
	"testing"
)

// Programs that use every op, taken through the whole pipeline with all checks.
var wholePrograms = map[string]string{
	"tracepoint count": `module a file "a"
map (name "@", shape count)
func @p prog (kind tracepoint) {
b0(v0:ctx):
  count @
  ret 0
}`,
	"keyed count": `module a file "a"
map (name "@", shape count, key (kind tuple, size 24, fields [(layout (kind int, size 8)), (off 8, layout (kind string, size 16))]))
func @p prog (kind tracepoint) {
  slot s0 "key" 24 align 8
b0(v0:ctx):
  v1:i64 = pid
  store.u64 [s0+0], v1
  comm s0+8
  count @, s0+0
  ret 0
}`,
	"kprobe hist": `module a file "a"
map (name @size, shape hist, value (kind int, size 8, signed), cleared)
map (name @k, shape hist, key (kind int, size 8), value (kind int, size 8, signed))
func @p prog (kind kprobe) {
  slot s0 "key" 8 align 8
b0(v0:ctx):
  v1:i64 = arg v0, #2
  hist @size, v1
  v2:i64 = tid
  store.u64 [s0+0], v2
  hist @k, v1, s0+0
  ret 0
}`,
}

func TestWholePrograms(t *testing.T) {
	for name, text := range wholePrograms {
		t.Run(name, func(t *testing.T) {
			m := lowered(t, text)
			t.Logf("%s", m)
		})
	}
}
