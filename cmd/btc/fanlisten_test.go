// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"btc/fleet/fan"
	"btc/fleet/merge"
	"btc/internal/aggregate"
	"btc/internal/manifest"
)

// hostRun is the output of a run on a host that counted n.
func hostRun(host string, n int) string {
	return fmt.Sprintf(`{"type": "map", "name": "@c", "shape": "count", "object": "o", "host": %[1]q, "signed": false, "entries": [{"key": ["dd"], "value": %[2]d}]}
{"type": "map", "name": "@h", "shape": "hist", "object": "o", "host": %[1]q, "bits": 0, "entries": [{"key": ["dd"], "value": [{"min": 4, "max": 7, "count": %[2]d}]}]}
`, host, n)
}

// scrape gets a page of a server.
func scrape(t *testing.T, url string, change func(r *http.Request)) (status int, text string) {
	t.Helper()
	r, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(r)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(b)
}

// TestFanServer checks a scrape: the maps of all hosts as one, or with a label for the host, whether each host is up, and
// that a host that is gone takes its own series along, but lowers no sum.
func TestFanServer(t *testing.T) {
	for _, byHost := range []bool{false, true} {
		counted := map[string]int{"a": 3, "b": 4}
		isUp := []bool{true, true}
		hosts := []fan.Host{{Name: "a"}, {Name: "b"}}
		comm := manifest.MapNames{KeyNames: []string{"comm"}}
		buckets, err := aggregate.ParseRange("1..8")
		if err != nil {
			t.Fatal(err)
		}
		s := &fanServer{
			base:  &manifest.Manifest{Maps: []manifest.Map{{Name: "@c", MapNames: comm}, {Name: "@h", MapNames: comm}}},
			hosts: hosts, report: &mergedReport{form: "text", buckets: buckets}, name: "reads", started: time.Now(), local: true, lost: func() uint64 { return 5 },
			snapshot: func() (*merge.Runs, []bool) {
				runs := &merge.Runs{ByHost: byHost}
				for i, h := range hosts {
					if byHost && !isUp[i] {
						continue
					}
					if _, err := runs.Read(h.Name, strings.NewReader(hostRun(h.Name, counted[h.Name]))); err != nil {
						t.Error(err)
					}
				}
				return runs, isUp
			},
		}
		server := httptest.NewServer(s)
		defer server.Close()
		check := func(want ...string) {
			t.Helper()
			status, text := scrape(t, server.URL+"/metrics", nil)
			if status != 200 {
				t.Errorf("status %d", status)
			}
			parser := expfmt.NewTextParser(model.LegacyValidation)
			if _, err := parser.TextToMetricFamilies(strings.NewReader(text)); err != nil {
				t.Errorf("%v in %s", err, text)
			}
			for _, line := range want {
				absent := strings.HasPrefix(line, "!")
				if strings.Contains("\n"+text, "\n"+strings.TrimPrefix(line, "!")) == absent {
					t.Errorf("by host %v: %q is not as wanted in\n%s", byHost, line, text)
				}
			}
		}
		up := []string{`btc_fan_host_up{object="reads",host="a"} 1`, `btc_fan_host_up{object="reads",host="b"} 1`, `btc_up{object="reads"} 1`, `btc_lost_total{object="reads",cause="events"} 5`}
		if byHost {
			check(append(up, `btc_reads_c_total{object="reads",host="a",comm="dd"} 3`, `btc_reads_c_total{object="reads",host="b",comm="dd"} 4`,
				`btc_reads_h_bucket{object="reads",host="b",comm="dd",le="7"} 4`, `btc_reads_h_count{object="reads",host="b",comm="dd"} 4`)...)
		} else {
			check(append(up, `btc_reads_c_total{object="reads",comm="dd"} 7`, `btc_reads_h_bucket{object="reads",comm="dd",le="3"} 0`,
				`btc_reads_h_bucket{object="reads",comm="dd",le="7"} 7`, `btc_reads_h_bucket{object="reads",comm="dd",le="+Inf"} 7`, `!btc_reads_h_bucket{object="reads",comm="dd",le="15"}`)...)
		}
		counted["a"], isUp[1] = 10, false
		s.made = time.Time{}
		down := `btc_fan_host_up{object="reads",host="b"} 0`
		if byHost {
			check(down, `btc_reads_c_total{object="reads",host="a",comm="dd"} 10`, `!btc_reads_c_total{object="reads",host="b"`, `!btc_reads_h_bucket{object="reads",host="b"`)
		} else {
			check(down, `btc_reads_c_total{object="reads",comm="dd"} 14`)
		}
		for _, c := range []struct {
			path, host string
			method     string
			want       int
		}{
			{"/metrics", "localhost:1", "GET", 200}, {"/metrics", "127.0.0.1", "HEAD", 200}, {"/metrics", "[::1]:1", "GET", 200},
			{"/metrics", "evil.example:9435", "GET", 403}, {"/", "", "GET", 404}, {"/metrics", "", "POST", 405},
		} {
			status, text := scrape(t, server.URL+c.path, func(r *http.Request) { r.Method, r.Host = c.method, c.host })
			if status != c.want || c.want != 200 && strings.Contains(text, `"dd"`) {
				t.Errorf("%s %s of %q: %d, want %d", c.method, c.path, c.host, status, c.want)
			}
		}
		s.report.form, s.made, s.local = "openmetrics", time.Time{}, false
		if status, text := scrape(t, server.URL+"/metrics", func(r *http.Request) { r.Host = "metrics.example" }); status != 200 || !strings.HasSuffix(text, "# EOF\n") {
			t.Errorf("OpenMetrics: %d, %s", status, text)
		}
	}
}

// TestListenAddress checks that a port is open for this machine only, unless that is permitted.
func TestListenAddress(t *testing.T) {
	for _, c := range []struct {
		address string
		remote  bool
		want    string // prefix of the address, or part of the error
	}{
		{":0", false, "127.0.0.1:"}, {"0", false, "127.0.0.1:"}, {"127.0.0.1:0", false, "127.0.0.1:"}, {"localhost:0", false, ""}, {":0", true, "[::]:"}, {"0.0.0.0:0", true, ""},
		{"0.0.0.0:0", false, "other machines may reach 0.0.0.0"}, {"example.com:0", false, "other machines may reach example.com"}, {"[::]:0", false, "other machines may reach ::"},
		{"x", false, `"x" is not an address`}, {"127.0.0.1", false, "is not an address"}, {"127.0.0.1:99999", false, "invalid port"}, {"-1", false, "is not an address"},
	} {
		l, err := (&fanListen{address: c.address, remote: c.remote}).open()
		got := fmt.Sprint(err)
		if err == nil {
			got = l.Addr().String()
			l.Close()
		}
		if !strings.Contains(got, c.want) || (err != nil) != (strings.Contains(c.want, " ")) {
			t.Errorf("%s, remote %v: %s, want %s", c.address, c.remote, got, c.want)
		}
	}
}

// TestFanListens runs a fan whose host is a shell that replaces ssh, and scrapes it while the host runs.
func TestFanListens(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("ssh", `#!/bin/sh
echo "$*" >>`+dir+`/args
echo '{"type": "host", "remote": 3, "arch": "x86_64", "kernel": "6.1"}'
head -c 100 >/dev/null
echo '{"type": "attached_probes", "count": 1}'
while [ ! -e `+dir+`/gate ]; do
echo '{"type": "map", "name": "@", "shape": "count", "object": "o", "host": "h", "signed": false, "entries": [{"value": 7}]}'
sleep 0.1
done
echo '{"type": "end", "status": 0}'
`)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	l, err := (&fanListen{address: ":0"}).open()
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	status := make(chan int)
	go func() {
		status <- dispatch([]string{"btc", "fan", "--host", "n1,n2", "--listen", address, "-o", filepath.Join(dir, "report"), "-e", "t:syscalls:sys_enter_read { @ = count(); }"})
	}()
	text := ""
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit) && !strings.Contains(text, " 14\n"); time.Sleep(50 * time.Millisecond) {
		if answer, err := http.Get("http://" + address + "/metrics"); err == nil {
			b, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			text = string(b)
		}
	}
	if !strings.Contains(text, "btc_stdin_total{object=\"stdin\"} 14\n") || !strings.Contains(text, "btc_fan_host_up{object=\"stdin\",host=\"n2\"} 1\n") {
		t.Errorf("while the hosts run:\n%s", text)
	}
	write("gate", "")
	if n := <-status; n != 0 {
		t.Errorf("status %d", n)
	}
	report, _ := os.ReadFile(filepath.Join(dir, "report"))
	args, _ := os.ReadFile(filepath.Join(dir, "args"))
	if string(report) != "@: 14\n\n" || !strings.Contains(string(args), "--every=15s") {
		t.Errorf("report %q, arguments %s", report, args)
	}
	if _, err := http.Get("http://" + address + "/metrics"); err == nil {
		t.Error("the port is open after the run")
	}
}

// TestFanServerRemembers checks that scrapes within a second merge once, and that a key keeps its series when another one
// becomes larger: "other" never decreases.
func TestFanServerRemembers(t *testing.T) {
	counts := []int{10, 5, 1}
	merged := 0
	s := &fanServer{
		base: &manifest.Manifest{Maps: []manifest.Map{{Name: "@c"}}}, report: &mergedReport{form: "text", maxSeries: 2}, name: "x", started: time.Now(), lost: func() uint64 { return 0 },
		snapshot: func() (*merge.Runs, []bool) {
			merged++
			var entries []string
			for key, n := range counts {
				entries = append(entries, fmt.Sprintf(`{"key": [%d], "value": %d}`, key, n))
			}
			runs := &merge.Runs{}
			line := `{"type": "map", "name": "@c", "shape": "count", "object": "o", "host": "h", "signed": false, "entries": [` + strings.Join(entries, ", ") + "]}\n"
			if _, err := runs.Read("h", strings.NewReader(line)); err != nil {
				t.Error(err)
			}
			return runs, nil
		},
	}
	has := func(want ...string) {
		t.Helper()
		text := string(s.scrape())
		for _, line := range want {
			if !strings.Contains(text, line+"\n") {
				t.Errorf("no %s in\n%s", line, text)
			}
		}
	}
	first := []string{`btc_x_c_total{object="x",key="0"} 10`, `btc_x_c_total{object="x",key="other"} 6`}
	has(first...)
	counts[2] = 100
	has(first...)
	if merged != 1 {
		t.Errorf("merged %d times for two scrapes at once", merged)
	}
	s.made = time.Time{}
	has(`btc_x_c_total{object="x",key="0"} 10`, `btc_x_c_total{object="x",key="other"} 105`)
}
