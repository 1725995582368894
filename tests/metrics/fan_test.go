// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestFanListen lets Prometheus scrape btc fan --listen, whose three hosts are this one, reached by a shell instead of
// ssh: each counts the same calls by 20 keys. Quantiles of sum by (le) over keys and hosts are those of all values, in
// the buckets of --buckets; the series of a host that is killed end, and it is not up any more.
func TestFanListen(t *testing.T) {
	needRoot(t)
	tool(t, "prometheus")
	dir := t.TempDir()
	const keys, values = 20, 400
	filter := fmt.Sprintf("tracepoint:syscalls:sys_enter_lseek /pid == %d && args.fd == 4000000000/", os.Getpid())
	object := compiled(t, dir, "keyed", filter+" { @offset[args.offset % 20] = hist(args.offset); }")
	ssh := "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\necho $$ >" + dir + "/pid.$2\nexec sh -c \"$3\"\n"
	if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte(ssh), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+programs+":"+os.Getenv("PATH"))
	address := freePort(t)
	start(t, filepath.Join(programs, "btc"), "fan", "--host", "a,b,c", "--by", "host", "--every", "200ms", "--buckets", "64..1G", "--listen", address, object)
	up := func(n int) func() bool {
		return func() bool { return strings.Count(get(t, "http://"+address+"/metrics"), `"} 1`+"\n") == n+1 } // and btc_up
	}
	waitFor(t, "three hosts are up", up(3))
	for i := range int64(values) {
		syscall.Seek(4000000000, i*i*(i%keys+1)*keys+i%keys, 0)
	}
	p := startPrometheus(t, "", address)
	number := func(expr string) float64 {
		s := p.query(expr)
		if len(s) != 1 {
			return -1
		}
		return s[0].number()
	}
	waitFor(t, "Prometheus has all values", func() bool { return number(`sum(btc_keyed_offset_bucket{le="+Inf"})`) == 3*values })
	if n := number(`count(btc_keyed_offset_bucket)`); n != 3*keys*26 { // 2^6-1, ..., 2^30-1, +Inf
		t.Errorf("%v buckets", n)
	}
	for _, q := range []int{25, 50, 90, 99} {
		var below [2]int // values up to the bounds of the bucket of the quantile
		low, high := int64(0), int64(63)
		count := func(le int64) (n int) {
			for i := range int64(values) {
				if i*i*(i%keys+1)*keys+i%keys <= le {
					n++
				}
			}
			return n
		}
		for ; count(high)*100 < values*q; low, high = high, 2*high+1 {
		}
		below = [2]int{count(low), count(high)}
		rank := float64(values*q)/100 - float64(below[0])
		want := float64(low) + float64(high-low)*rank/float64(below[1]-below[0])
		if got := number(fmt.Sprintf(`histogram_quantile(%v, sum by (le) (btc_keyed_offset_bucket))`, float64(q)/100)); got < want-1 || got > want+1 {
			t.Errorf("p%d = %v, want %v", q, got, want)
		}
	}
	pid, err := os.ReadFile(filepath.Join(dir, "pid.c"))
	if err != nil {
		t.Fatal(err)
	}
	var n int
	fmt.Sscan(string(pid), &n)
	syscall.Kill(n, syscall.SIGKILL)
	waitFor(t, "the host that was killed is down", func() bool { return number(`btc_fan_host_up{host="c"}`) == 0 && number(`sum(btc_fan_host_up)`) == 2 })
	waitFor(t, "its series have ended", func() bool {
		return number(`count(btc_keyed_offset_bucket{host="c"})`) == -1 && number(`sum(btc_keyed_offset_bucket{le="+Inf"})`) == 2*values
	})
}
