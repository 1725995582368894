// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestAgentQuantiles lets Prometheus scrape examples/agent, which serves a histogram for each of 20 keys: the
// quantiles of sum by (le) are those that btrun --summary prints for all values together.
func TestAgentQuantiles(t *testing.T) {
	needRoot(t)
	tool(t, "prometheus")
	dir := t.TempDir()
	output(t, "go", "build", "-o", dir, "btc/examples/agent")
	const keys, values = 20, 400
	filter := fmt.Sprintf("tracepoint:syscalls:sys_enter_lseek /pid == %d && args.fd == 4000000000/", os.Getpid())
	keyed := compiled(t, dir, "keyed", filter+" { @offset[args.offset % 20] = hist(args.offset); }")
	together := compiled(t, dir, "together", filter+" { @all = hist(args.offset); }")
	address := freePort(t)
	start(t, filepath.Join(dir, "agent"), keyed, address)
	get(t, "http://"+address+"/metrics") // it is attached
	btrun := command(filepath.Join(programs, "btrun"), "--summary", together)
	summary, err := os.Create(filepath.Join(dir, "summary"))
	if err != nil {
		t.Fatal(err)
	}
	defer summary.Close()
	btrun.Stdout, btrun.Stderr = summary, summary
	run(t, btrun)
	printed := func() string {
		b, err := os.ReadFile(summary.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	waitFor(t, "btrun has attached", func() bool { return strings.Contains(printed(), "Attached") })
	for i := range int64(values) {
		syscall.Seek(4000000000, i*i*(i%keys+1)*keys+i%keys, 0)
	}
	syscall.Kill(btrun.Process.Pid, syscall.SIGINT)
	waitFor(t, "btrun has printed its summary", func() bool { return strings.Contains(printed(), "p99") })
	if !strings.Contains(printed(), fmt.Sprintf("count %d,", values)) {
		t.Fatal(printed())
	}
	p := startPrometheus(t, "", address)
	total := func(le string) float64 {
		s := p.query(`sum(btc_keyed_offset_bucket{le="` + le + `"})`)
		if len(s) != 1 {
			return -1
		}
		return s[0].number()
	}
	waitFor(t, "Prometheus has all values", func() bool { return total("+Inf") == values })
	if s := p.query(`count(btc_keyed_offset_bucket{le="+Inf"})`); len(s) != 1 || s[0].number() != keys {
		t.Errorf("keys: %v", s)
	}
	buckets := map[float64]float64{} // by bound
	for _, s := range p.query(`sum by (le) (btc_keyed_offset_bucket)`) {
		if le, err := strconv.ParseFloat(s.Metric["le"], 64); err == nil {
			buckets[le] = s.number()
		}
	}
	bounds := slices.Sorted(maps.Keys(buckets))
	for _, q := range []float64{50, 90, 99} {
		m := regexp.MustCompile(fmt.Sprintf(`p%v <= (\d+)`, q)).FindStringSubmatch(printed())
		if m == nil {
			t.Fatal(printed())
		}
		want, _ := strconv.ParseFloat(m[1], 64)
		have := bounds[slices.IndexFunc(bounds, func(b float64) bool { return buckets[b]*100 >= values*q })]
		if have != want {
			t.Errorf("p%v: %v by sum by (le), %v by btrun: %v\n%s", q, have, want, buckets, printed())
		}
		// Prometheus interpolates within that bucket.
		s := p.query(fmt.Sprintf(`histogram_quantile(%v, sum by (le) (btc_keyed_offset_bucket))`, q/100))
		if len(s) != 1 || s[0].number() > want || s[0].number() < (want-1)/2 {
			t.Errorf("histogram_quantile of p%v = %v, want a value up to %v", q, s, want)
		}
	}
}
