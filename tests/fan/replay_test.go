// SPDX-License-Identifier: Apache-2.0

package fan

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	pprof "github.com/google/pprof/profile"
	"github.com/tidwall/gjson"

	"btc/loader/output"
	"btc/tests/perfetto"
)

// localSSH runs the command here, as the host does, with the real btrun.
const localSSH = `#!/bin/sh
while [ "$1" != -- ]; do shift; done
exec sh -c "$3"
`

// sampled has a map of stacks that each host adds $1 samples to, and events.
const sampled = `interval:ms:10 { @n += 1; if (@n <= $1) { @stacks[kstack, comm] = count(); } if (@n == $1) { printf("%d %s\n", $1, comm); exit(); } }
end { clear(@n); }`

// TestReplay checks that the report of five hosts, of btc fan and of btc merge, replays: as btc fan prints it, and with the
// sums of the map in the formats of profiles.
func TestReplay(t *testing.T) {
	const samples, hosts = 7, 5
	if os.Getuid() != 0 {
		t.Skip("skipped: loading needs root")
	}
	f := newFleet(t)
	f.write("path/ssh", localSSH)
	os.Remove(filepath.Join(f.dir, "path/btrun"))
	if err := os.Symlink(filepath.Join(programs, "btrun"), filepath.Join(f.dir, "path/btrun")); err != nil {
		t.Fatal(err)
	}
	f.write("s.bt", sampled)
	f.compile("s.bt", "s.o")
	list := []string{}
	for i := range hosts {
		list = append(list, fmt.Sprint("h", i))
	}
	f.write("hosts", strings.Join(list, "\n")+"\n")
	f.run(0, "-f", "json2", "-o", "fan.jsonl", "-H", "hosts", "s.o", strconv.Itoa(samples))
	head := gjson.Get(f.read("fan.jsonl"), "@this")
	if got := head.Get("hosts").Raw + head.Get("args").Raw + head.Get("object").String(); !strings.HasPrefix(got, `["h0", "h1", "h2", "h3", "h4"]["7"]`) || len(got) < 64 {
		t.Errorf("the head has %.200s", got)
	}
	// btc merge of what fan reports, and of its own report.
	btc := func(args ...string) string {
		cmd := exec.Command(filepath.Join(programs, "btc"), args...)
		cmd.Dir = f.dir
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("btc %s: %v", args, err)
		}
		return string(out)
	}
	f.write("merged.jsonl", btc("merge", "-f", "json2", "fan.jsonl"))
	for _, name := range []string{"fan.jsonl", "merged.jsonl"} {
		replay := func(args ...string) string {
			return btc(append(append([]string{"replay"}, args...), name)...)
		}
		sum := int64(0)
		for line := range strings.Lines(f.read(name)) {
			if x := gjson.Parse(line); x.Get("type").Str == "map" {
				for _, e := range x.Get("entries").Array() {
					sum += e.Get("value").Int()
				}
			}
		}
		if sum != samples*hosts {
			t.Fatalf("%s: %d samples, want %d", name, sum, samples*hosts)
		}
		text := replay()
		if n := strings.Count(text, ": 7 "); name == "fan.jsonl" && n != hosts || !strings.Contains(text, "@stacks[") {
			t.Errorf("%s: %d events\n%s", name, n, text)
		}
		if x := replay("-f", "json"); !gjson.Valid(strings.Split(x, "\n")[0]) {
			t.Errorf("%s: json %s", name, x)
		}
		folded := int64(0)
		for line := range strings.Lines(replay("-f", "folded")) {
			n, err := strconv.ParseInt(strings.TrimSpace(line[strings.LastIndexByte(line, ' ')+1:]), 10, 64)
			if err != nil {
				t.Error(err)
			}
			folded += n
		}
		p, err := pprof.ParseData([]byte(replay("-f", "pprof")))
		if err != nil {
			t.Fatal(err)
		}
		proto := int64(0)
		for _, s := range p.Sample {
			proto += s.Value[0]
		}
		svg := replay("-f", "svg")
		if folded != sum || proto != sum || !strings.Contains(svg, fmt.Sprintf(">%d samples", sum)) {
			t.Errorf("%s: sums: the map's %d, folded %d, pprof %d, %.3000s", name, sum, folded, proto, svg[strings.Index(svg, "</style>"):])
		}
		trace, err := perfetto.Read([]byte(replay("-f", "perfetto")))
		if err != nil {
			t.Fatal(err)
		}
		counted := 0.0
		for _, values := range trace.Counters {
			counted += values[len(values)-1].Value
		}
		if counted != float64(sum) {
			t.Errorf("%s: the counters have %g", name, counted)
		}
		for _, format := range output.Names() {
			replay("-f", format)
		}
		if again := replay("-f", "json2"); again != f.read(name) {
			t.Errorf("%s: json2 differs", name)
		}
	}
}
