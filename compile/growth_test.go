// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"fmt"
	"strings"
	"testing"

	"btc/targets/kernel"
)

// BenchmarkGrowth compiles scripts at two sizes, the second four times the first. The time per part
// ("us/part") stays about the same unless the time of a stage grows faster than linearly. With "check",
// the IR is checked after each pass.
//
//	go test ./compile -run - -bench Growth -benchtime 3x
func BenchmarkGrowth(b *testing.B) {
	lines := func(n int, line func(i int) string) string {
		var s strings.Builder
		for i := range n {
			s.WriteString(line(i))
		}
		return s.String()
	}
	body := func(line func(i int) string) func(n int) string {
		return func(n int) string { return "begin { " + lines(n, line) + " }" }
	}
	unrolled := func(first, code string) func(n int) string {
		return func(n int) string {
			return fmt.Sprintf("begin { @a[1] = 1; } interval:s:1 { %s unroll(100) { unroll(%d) { %s } } }", first, n/100, code)
		}
	}
	shapes := []struct {
		name   string
		n      int
		script func(n int) string
	}{
		{"clauses", 200, func(n int) string {
			return lines(n, func(i int) string {
				return fmt.Sprintf("tracepoint:syscalls:sys_enter_read /args.count > %d/ { @a%d[tid, comm] = count(); }\n", i, i%90)
			})
		}},
		{"assignments", 1000, body(func(i int) string { return fmt.Sprintf("@a%d = %d; ", i%100, i) })},
		{"one variable", 500, func(n int) string {
			return "begin { $x = pid; " + lines(n, func(i int) string { return fmt.Sprintf("$x = $x * 3 + %d; @a[%d] = $x; ", i, i) }) + "}"
		}},
		{"maps", 200, body(func(i int) string { return fmt.Sprintf("@m%d[pid, comm] = count(); ", i) })},
		{"formats", 250, body(func(i int) string { return fmt.Sprintf(`printf("f%d %%d %%s\n", pid, comm); `, i) })},
		{"else if", 500, func(n int) string {
			return "begin { if (pid == 0) { } " + lines(n, func(i int) string { return fmt.Sprintf("else if (pid == %d) { @a[%d] = 1; } ", i, i) }) + "}"
		}},
		{"macros", 75, func(n int) string {
			return lines(n, func(i int) string { return fmt.Sprintf("macro m%d(x) { x + %d }\n", i, i) }) +
				body(func(i int) string { return fmt.Sprintf("@a = m%d(pid); ", i) })(n)
		}},
		{"functions", 50, func(n int) string {
			return lines(n, func(i int) string { return fmt.Sprintf("fn f%d($x : int64) : int64 { return $x + %d; }\n", i, i) }) +
				body(func(i int) string { return fmt.Sprintf("@a = f%d(pid); ", i) })(n)
		}},
		{"sums", 200, func(n int) string { return "begin { @ = pid" + strings.Repeat(" + pid", n) + "; }" }},
		{"unrolled elements", 1000, unrolled("$i = 0;", "@b[$i] = @a[$i]; $i++;")},
		{"unrolled counts", 1000, unrolled("", "@c++;")},
		{"unrolled arithmetic", 1000, unrolled("$x = nsecs;", "$x = $x * 3 + 1; if ($x & 1) { @ = $x; }")},
		{"unrolled output", 500, unrolled("$i = 0;", `if (@a[$i] == 1) { printf("#"); } else { printf(" "); } $i++;`)},
		{"literal bytes", 7000, func(n int) string { return `begin { printf("` + strings.Repeat("x", n) + `"); }` }},
	}
	for _, s := range shapes {
		for _, n := range []int{s.n, 4 * s.n} {
			text := s.script(n)
			for _, verify := range []bool{false, true} {
				name := fmt.Sprintf("%s/%d", s.name, n)
				if verify {
					name += "/check"
				}
				b.Run(name, func(b *testing.B) { compileParts(b, text, n, verify) })
			}
		}
	}
}

func compileParts(b *testing.B, text string, n int, verify bool) {
	b.ReportAllocs()
	for b.Loop() {
		x86, err := kernel.Default("x86_64")
		if err != nil {
			b.Fatal(err)
		}
		if out, diags := Compile(Input{Name: "growth.bt", Text: text, Target: x86, Verify: verify}); out == nil {
			b.Fatal(diags.Err())
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(n), "us/part")
}
