// SPDX-License-Identifier: Apache-2.0

//go:build unix

package fan

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSnapshot checks the merged maps while hosts run, and which hosts are up: not before they are attached, not after
// their end, not when they send no more snapshots. Sums keep what hosts counted that are not up any more; with ByHost
// their keys are gone.
func TestSnapshot(t *testing.T) {
	const fresh = 2 * time.Second
	for _, byHost := range []bool{false, true} {
		gate := filepath.Join(t.TempDir(), "gate")
		begin := says(greeting) + readObject
		forever := "while [ ! -e " + gate + " ]; do " + says(countLine("5")) + "sleep 0.1; done; " + says(end)
		f := newFleet(map[string]string{
			"done":    begin + says(attached, countLine("1"), end),
			"later":   begin + "while [ ! -e " + gate + " ]; do sleep 0.1; done; " + says(attached, countLine("9"), end),
			"refused": "exit 255",
			"runs":    begin + says(attached) + forever,
			"silent":  begin + says(attached, countLine("30")) + "while [ ! -e " + gate + ` ]; do echo '{"type": "alive"}'; sleep 0.1; done; ` + says(end),
			"lies":    begin + says(attached, strings.Replace(countLine("100"), "@c", "@other", 1)) + "sleep 1000",
		})
		f.ByHost, f.Partial, f.Live, f.Parallel = byHost, true, true, len(f.Hosts)
		f.Prepare()
		if runs, up := f.Snapshot(fresh); runs.Hosts() != 0 || len(up) != len(f.Hosts) {
			t.Errorf("%d hosts before the run, %v", runs.Hosts(), up)
		}
		finished := make(chan map[string]Result)
		go func() {
			results, _ := f.Run(t.Context(), context.Background())
			by := map[string]Result{}
			for _, r := range results {
				by[r.Host.Name] = r
			}
			finished <- by
		}()
		want, sum := "runs", `[{"value": 36}]`
		if byHost {
			sum = `[{"key": ["runs"], "value": 5}]`
		}
		upNow := func(up []bool) string {
			var names []string
			for i, is := range up {
				if is {
					names = append(names, f.Hosts[i].Name)
				}
			}
			return strings.Join(names, " ")
		}
		content, names, first := "", "", ""
		for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(50 * time.Millisecond) {
			runs, up := f.Snapshot(fresh)
			names = upNow(up)
			if strings.Contains(names, "silent") {
				first = names
			}
			content = ""
			if runs.Hosts() > 0 {
				_, content, _ = strings.Cut(string(runs.AppendJSON(nil, "@c", time.Unix(0, 0))), `"entries": `)
			}
			if names == want && strings.HasPrefix(content, sum) {
				break
			}
		}
		if names != want || !strings.HasPrefix(content, sum) {
			t.Errorf("by host %v: up %q, @c %s; want %q and %s", byHost, names, content, want, sum)
		}
		if !strings.Contains(first, "silent") {
			t.Errorf("by host %v: silent was never up: %q", byHost, first)
		}
		if err := touch(gate); err != nil {
			t.Fatal(err)
		}
		results := <-finished
		if r := results["runs"]; r.State != OK || results["lies"].State != Failed || results["refused"].State != Failed {
			t.Errorf("%+v", results)
		}
		runs, up := f.Snapshot(fresh)
		if names := upNow(up); names != "" || !byHost && !strings.Contains(string(runs.AppendJSON(nil, "@c", time.Unix(0, 0))), `"value": 45}`) || byHost && runs.Hosts() != 0 {
			t.Errorf("by host %v: %q is up after the run, %d hosts", byHost, names, runs.Hosts())
		}
	}
}

func touch(path string) error { return os.WriteFile(path, nil, 0o600) }
