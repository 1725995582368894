// SPDX-License-Identifier: Apache-2.0

package fan

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// liarsScript has a map of each shape.
const liarsScript = `config = { unstable_tseries=enable; max_map_keys=16 }
t:syscalls:sys_enter_read {
	@c = count(); @k[comm, pid] = count(); @h = hist(pid); @l = lhist(pid, 0, 100, 10); @s = stats(pid); @sum[pid] = sum((int64)1);
	@t[pid] = tseries(pid, 1s, 10, "avg"); @p[pid] = comm; printf("%d\n", pid); print(@k);
}`

// fakeLiar is btrun on a host that sends the file with its name.
const fakeLiar = `#!/bin/sh
printf '{"type": "host", "time": "t", "remote": 3, "host": "good1", "kernel": "6.1", "arch": "x86_64", "version": "1"}\n'
head -c "$SIZE" >/dev/null
echo '{"type": "attached_probes", "time": "t", "count": 1}'
[ -e "$DIR/$HOST.gen" ] && sh "$DIR/$HOST.gen"
[ -e "$DIR/$HOST" ] && cat "$DIR/$HOST"
case $HOST in good*) cat "$DIR/honest" ;; esac
echo '{"type": "end", "time": "t", "status": 0}'
`

// mapLine returns a line of json2.
func mapLine(name, shape, more, entries string) string {
	return fmt.Sprintf(`{"type": "map", "time": "t", "name": "%s", "shape": "%s", "object": "o", "host": "good1"%s, "entries": [%s]}`+"\n", name, shape, more, entries)
}

// TestLiars checks that a host whose lines no run of the object writes costs at most its own row.
func TestLiars(t *testing.T) {
	f := newFleet(t)
	f.write("path/btrun", fakeLiar)
	f.write("l.bt", liarsScript)
	f.compile("l.bt", "l.o")
	now := time.Now().UTC().Truncate(time.Second).Add(-5 * time.Second)
	at := func(d time.Duration) string { return now.Add(d).Format(time.RFC3339Nano) }
	const series = `, "signed": false, "interval": 1000000000, "intervals": 10, "agg": "avg"`
	const u, i = `, "signed": false`, `, "signed": true`
	honest := mapLine("@c", "count", u, `{"value": 3}`) +
		mapLine("@k", "count", u, `{"key": ["a b",1], "value": 2}, {"key": [{"text": "abc", "truncated": true},2], "value": 4}`) +
		mapLine("@h", "hist", u+`, "bits": 0`, `{"value": [{"min": 1, "max": 1, "count": 2},{"min": 2, "max": 3, "count": 0},{"min": 4, "max": 7, "count": 1}]}`) +
		mapLine("@l", "lhist", u+`, "min": 0, "max": 100, "step": 10`, `{"value": [{"max": -1, "count": 1},{"min": 0, "max": 9, "count": 2}]}`) +
		mapLine("@s", "stats", u, `{"value": {"count": 2, "average": 5, "total": 11}}`) +
		mapLine("@sum", "sum", i, `{"key": [7], "value": -5}`) +
		mapLine("@t", "tseries", series, `{"key": [1], "value": [{"start": "`+at(0)+`", "value": 2, "total": 5, "count": 2},{"start": "`+at(time.Second)+`", "value": null},{"start": "`+at(2*time.Second)+`", "value": 3, "total": 3, "count": 1}]}`) +
		mapLine("@p", "plain", "", `{"key": [1], "value": "sh"}`)
	f.write("honest", honest)
	keys := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `, {"key": [%d], "value": 1}`, i)
		}
		return b.String()[2:]
	}
	point := func(start string) string {
		return mapLine("@t", "tseries", series, `{"key": [1], "value": [{"start": "`+start+`", "value": 2, "total": 5, "count": 2}]}`)
	}
	count := func(value string) string { return mapLine("@c", "count", u, `{"value": `+value+`}`) }
	hist := func(buckets string) string {
		return mapLine("@h", "hist", u+`, "bits": 0`, `{"value": [`+buckets+`]}`)
	}
	lies := []struct{ name, text, reason string }{
		{"deep-map", `{"type": "map", "name": "@c", "x": ` + strings.Repeat("[", 2_000_000), "nesting too deep"},
		{"deep-event", `{"type": "printf", "x": ` + strings.Repeat(`{"a":`, 1001) + "1" + strings.Repeat("}", 1001) + "}\n", "nesting too deep"},
		{"deep-end", `{"type": "end", "x": ` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "}\n", "nesting too deep"},
		{"shape", mapLine("@c", "hist", u+`, "bits": 0`, `{"value": [{"min": 0, "count": 5}]}`), "its description differs from that in the object"},
		{"bits", mapLine("@h", "hist", u+`, "bits": 3`, `{"value": []}`), "its description differs"},
		{"bounds", mapLine("@l", "lhist", u+`, "min": 0, "max": 100, "step": 20`, `{"value": []}`), "its description differs"},
		{"agg", mapLine("@t", "tseries", strings.Replace(series, "avg", "sum", 1), ``), "its description differs"},
		{"interval", mapLine("@t", "tseries", strings.Replace(series, "1000000000", "1", 1), ``), "its description differs"},
		{"intervals", mapLine("@t", "tseries", strings.Replace(series, `"intervals": 10`, `"intervals": 1000000`, 1), ``), "its description differs"},
		{"sign", mapLine("@sum", "sum", u, `{"key": [1], "value": 1}`), "its description differs"},
		{"unknown", mapLine("@x", "count", u, `{"value": 1}`), "a map that the object does not have"},
		{"keys", mapLine("@sum", "sum", i, keys(5000)), "more than"},
		{"nokey", mapLine("@sum", "sum", i, `{"value": 1}`), "an entry without one"},
		{"akey", mapLine("@c", "count", u, `{"key": [1], "value": 1}`), "a key in a map without keys"},
		{"arity", mapLine("@sum", "sum", i, `{"key": [1,2], "value": 1}`), "has not the 1 parts"},
		{"keytype", mapLine("@k", "count", u, `{"key": [1,1], "value": 1}`), "part 1 of a key is not of the kind string"},
		{"keyrange", mapLine("@sum", "sum", i, `{"key": [18446744073709551616], "value": 1}`), "part 1 of a key is not an integer"},
		{"keystack", mapLine("@k", "count", u, `{"key": [{"addresses": [], "frames": [], "text": "x"},1], "value": 1}`), "part 1 of a key is not"},
		{"twokeys", mapLine("@sum", "sum", i, `{"key": [1], "value": 1}, {"key": [1], "value": 1}`), "two entries have the key"},
		{"twoscalars", mapLine("@c", "count", u, `{"value": 1}, {"value": 1}`), "more than 1 entries"},
		{"twovalues", mapLine("@c", "count", u, `{"value": 1, "value": 2}`), `two members "value"`},
		{"twonames", strings.Replace(count("1"), `"shape"`, `"name": "@h", "shape"`, 1), `two members "name"`},
		{"twotypes", `{"type": "printf", "type": "map", "data": "x"}` + "\n", `two members "type"`},
		{"late", `{"type": "map", "name": "@c", "entries": [{"value": 1}], "shape": "count", "signed": false}` + "\n", "is after the entries"},
		{"negative", count("-5"), "not an integer of 64 bits"},
		{"toolarge", count("18446744073709551616"), "not an integer of 64 bits"},
		{"float", count("1e3"), "not an integer of 64 bits"},
		{"nan", count("NaN"), "not that of btrun"},
		{"string", count(`"1"`), "not an integer of 64 bits"},
		{"list", count(`[1]`), "not an integer of 64 bits"},
		{"null", count(`null`), "not an integer of 64 bits"},
		{"plain", mapLine("@p", "plain", "", `{"key": [1], "value": [1]}`), "a value is not of the kind string"},
		{"stats0", mapLine("@s", "stats", u, `{"value": {"count": 0, "average": 0, "total": 11}}`), "a total without values"},
		{"stats1", mapLine("@s", "stats", u, `{"value": {"count": 2, "average": 7, "total": 11}}`), "the average is not"},
		{"stats2", mapLine("@s", "stats", u, `{"value": {"count": -2, "average": 7, "total": 11}}`), "not an integer of 64 bits"},
		{"buckets", hist(`{"min": 4, "count": 1},{"min": 1, "count": 1}`), "its buckets are not in order"},
		{"twice", hist(`{"min": 4, "count": 1},{"min": 4, "count": 1}`), "its buckets are not in order"},
		{"between", hist(`{"min": 5, "count": 1}`), "no bucket begins at 5"},
		{"outside", mapLine("@l", "lhist", u+`, "min": 0, "max": 100, "step": 10`, `{"value": [{"min": 1000, "count": 1}]}`), "no bucket begins at 1000"},
		{"histcount", hist(`{"min": 4, "count": -1}`), "not an integer of 64 bits"},
		{"histsum", hist(`{"min": 4, "count": 18446744073709551615},{"min": 8, "count": 1}`), "the sum of its counts"},
		{"ts-last", point("2262-04-11T23:47:16.854775807Z"), "no interval begins at"},
		{"ts-end", point("2261-04-11T23:47:16Z"), "the host's clock is ahead"},
		{"ts-ahead", point(at(10 * time.Minute)), "the host's clock is ahead"},
		{"ts-before", point("1969-12-31T23:59:59Z"), "no interval begins at"},
		{"ts-far", point("292277026596-01-01T00:00:00Z"), "is not a time"},
		{"ts-half", point("2026-01-01T00:00:00.5Z"), "no interval begins at"},
		{"ts-wide", mapLine("@t", "tseries", series, `{"key": [1], "value": [{"start": "2020-01-01T00:00:00Z", "value": 5, "total": 5, "count": 1},{"start": "`+at(0)+`", "value": 5, "total": 5, "count": 1}]}`), "are more than 10 apart"},
		{"ts-avg", mapLine("@t", "tseries", series, `{"key": [1], "value": [{"start": "`+at(0)+`", "value": 5, "total": 5, "count": 0}]}`), "the average is not"},
		{"utf8", strings.Replace(count("1"), `"t"`, "\"\xff\"", 1), "not UTF-8"},
		{"lost", `{"type": "lost_events", "count": -1}` + "\n", `it has lost "-1" events`},
		{"print", mapLine("@k", "count", u+`, "line": 1`, `{"key": [1], "value": 1}`), "part 1 of a key is not"},
		{"notype", `{"data": "x"}` + "\n", "not that of btrun --remote"},
	}
	names, goods := []string{"good1"}, 4
	for _, l := range lies {
		f.write(l.name, l.text)
		names = append(names, l.name)
	}
	// After all that is true, one false line at the end.
	f.write("last", honest+count("-1"))
	f.write("endless.gen", `trap "exit 0" PIPE; printf '{"type": "printf", "data": "'; head -c 70000000 /dev/zero | tr '\0' A`)
	f.write("error", `{"type": "end", "status": 0, "error": "`+strings.Repeat("E", 1_000_000)+`\u001b]0;x\u0007"}`+"\n")
	names = append(names, "last", "good2", "endless", "error", "good3", "good4")
	cmd, stdout, stderr := f.command("--host", strings.Join(names, ","), "--timeout", "20s", "--parallel", "4", "l.o")
	cmd.Run()
	out, errs := stdout.String(), stderr.String()
	if got := cmd.ProcessState.ExitCode(); got != 2 {
		t.Errorf("exit status %d, want 2\n%s", got, errs)
	}
	if rss := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss; rss > 700<<10 {
		t.Errorf("btc fan took %d MiB", rss>>10)
	}
	for _, l := range lies {
		row := false
		for line := range strings.Lines(rows(errs)) {
			row = row || strings.HasPrefix(line, l.name+" failed ") && strings.Contains(line, l.reason)
		}
		if !row {
			t.Errorf("%s: no row with %q", l.name, l.reason)
		}
	}
	has(t, rows(errs), "last failed", "endless failed a line of more than 64 MiB", "error failed EEEE", "... (1000006 bytes)",
		fmt.Sprintf("btc: %d of %d hosts in the report, %d failed\n", goods, len(names), len(names)-goods))
	if len(errs) > 64<<10 || t.Failed() {
		t.Errorf("messages of %d bytes:\n%.20000s", len(errs), errs)
	}
	// The report is that of the honest hosts.
	alone, _ := f.run(0, "--host", "good1,good2,good3,good4", "--timeout", "20s", "l.o")
	tail := func(s string) string { return s[strings.Index(s, "@c: "):] }
	if !strings.Contains(alone, "@c: 12\n") || tail(out) != tail(alone) {
		t.Errorf("report with liars:\n%s\nwithout:\n%s", out, alone)
	}
}

// TestForgedHosts checks that what a host prints cannot look like another host's, and that its flood of messages does
// not hide those of others.
func TestForgedHosts(t *testing.T) {
	f := newFleet(t)
	f.write("path/btrun", fakeLiar)
	f.write("l.bt", liarsScript)
	f.compile("l.bt", "l.o")
	f.write("honest", mapLine("@k", "count", `, "signed": false`, `{"key": ["a",1], "value": 2}`))
	f.write("good2.gen", "sleep 1; echo something else >&2")
	f.write("forger", `{"type": "printf", "host": "good1", "data": "x\ngood1: y\n"}`+"\n"+
		`{"type": "errorf", "filename": "f", "line": 1, "col": 1, "msg": "a\nbtc: all is well"}`+"\n"+
		mapLine("@k", "count", `, "signed": false`, `{"key": ["a\n@k[good1, b, 1]: 99",1], "value": 3}`))
	f.write("forger.gen", `i=0; while [ $i -lt 3000 ]; do echo "warning $i" >&2; i=$((i+1)); done`)
	out, errs := f.run(0, "--host", "good1,forger,good2", "--by", "host", "l.o")
	has(t, out, "forger: x\nforger: good1: y\n", `@k[forger, a\x0a@k[good1, b, 1]: 99, 1]: 3`)
	has(t, errs, "forger: f:1:1: ERROR: a\nforger: btc: all is well\n", "forger: btc does not show more of its messages", "good2: something else")
	if n := strings.Count(errs, "forger: warning"); n != 100 {
		t.Errorf("%d messages of a host", n)
	}
	out, _ = f.run(0, "--host", "forger", "-f", "json2", "l.o")
	has(t, out, `{"type": "printf", "host": "forger", "data": "x\ngood1: y\n"}`)
}

// TestMergeOfLiars checks the same for files: those that contradict the others are left out.
func TestMergeOfLiars(t *testing.T) {
	f := newFleet(t)
	o := strings.Repeat("0", 64)
	line := func(name, shape, more, entries string) string {
		return strings.ReplaceAll(mapLine(name, shape, more, entries), `"object": "o"`, `"object": "`+o+`"`)
	}
	const u = `, "signed": false`
	good := line("@", "count", u, `{"key": [1], "value": 2}`)
	wide := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `, {"key": [%d], "value": [{"start": "2026-01-01T00:00:00.000000001Z", "value": 1},{"start": "2026-01-01T00:00:00.001Z", "value": 1}]}`, i)
		}
		return line("@t", "tseries", u+`, "interval": 1, "intervals": 1000000, "agg": "sum"`, b.String()[2:])
	}
	buckets := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `, {"key": [%d], "value": [{"min": 0, "count": 1},{"min": 100000, "count": 1}]}`, i)
		}
		return line("@l", "lhist", u+`, "min": 0, "max": 100000, "step": 1`, b.String()[2:])
	}
	var pad strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&pad, `{"key": ["k%d"], "value": 1}, `, i)
	}
	run := func(status int, files ...string) (string, string) {
		t.Helper()
		cmd := exec.Command(filepath.Join(programs, "btc"), append([]string{"merge"}, files...)...)
		cmd.Dir = f.dir
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		cmd.Run()
		u := cmd.ProcessState.SysUsage().(*syscall.Rusage)
		cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		if got := cmd.ProcessState.ExitCode(); got != status || u.Maxrss > 400<<10 || cpu > 20*time.Second || out.Len() > 100<<20 {
			t.Errorf("btc merge %v: exit status %d, want %d; %d MiB, %v, %d bytes\n%.2000s", files, got, status, u.Maxrss>>10, cpu, out.Len(), &errs)
		}
		return out.String(), errs.String()
	}
	for name, text := range map[string]string{
		"good1":   good,
		"good2":   good,
		"deep":    `{"type": "map", "name": "@", "x": ` + strings.Repeat("[", 8_000_000),
		"shape":   line("@", "hist", u+`, "bits": 0`, `{"key": [1], "value": []}`),
		"other":   strings.ReplaceAll(good, o, strings.Repeat("1", 64)),
		"arity":   line("@", "count", u, `{"key": [1,2], "value": 2}`),
		"huge":    line("@", "count", u, `{"key": [1], "value": 18446744073709551615}`),
		"wide":    wide(100),
		"buckets": buckets(1000),
		"pad":     line("@", "count", u, pad.String()+`{"key": ["`+strings.Repeat("a", 10<<20)+`"], "value": 1}`),
		"parts":   line("@", "count", u, `{"key": [`+strings.Repeat("1,", 100000)+`1], "value": 1}`),
	} {
		if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, errs := run(2, "shape", "good1", "deep", "other", "good2", "arity", "huge", "parts")
	if out != "@[1]: 4\n\n" {
		t.Errorf("report %q", out)
	}
	has(t, errs, "deep:1: nesting too deep", "shape: map @: its description differs", "other: map @: it is of object 1111", "huge: map @: the sum with the other runs has more than 64 bits",
		"arity: map @: its keys", "parts: map @: a key has more than 512 parts", "btc: 2 of 8 files in the report")
	out, _ = run(0, "wide")
	has(t, out, "999998 intervals without values")
	out, _ = run(0, "buckets")
	has(t, out, "99999 empty buckets")
	run(0, "pad")
	run(1, "deep")
	run(1, "none", "deep")
}

// TestFlooder checks that a host which floods the run with output takes only its share of the time: the others are heard
// meanwhile, their reports are complete, and the flooder is late.
func TestFlooder(t *testing.T) {
	f := newFleet(t)
	f.write("path/btrun", fakeLiar)
	f.write("l.bt", liarsScript)
	f.compile("l.bt", "l.o")
	const lines = 3000
	f.write("honest", mapLine("@c", "count", `, "signed": false`, `{"value": 3}`))
	f.write("big", `{"type": "printf", "data": "`+strings.Repeat("A", 4<<20)+`\n"}`+"\n")
	f.write("flooder.gen", `trap "exit 0" PIPE; while cat "$DIR/big"; do echo "a message" >&2; done`)
	names := []string{"flooder"}
	for _, name := range []string{"good1", "good2", "good3"} {
		f.write(name+".gen", fmt.Sprintf(`yes '{"type": "printf", "data": "honest\n"}' | head -n %d`, lines))
		names = append(names, name)
	}
	cmd, stdout, stderr := f.command("--host", strings.Join(names, ","), "--timeout", "2s", "--host-timeout", "4s", "l.o")
	cmd.Env = append(cmd.Environ(), "GOMAXPROCS=1")
	cmd.Run()
	out, errs := stdout.String(), stderr.String()
	if got := cmd.ProcessState.ExitCode(); got != 2 || strings.Count(out, ": honest\n") != 3*lines || !strings.Contains(out, "@c: 9\n") {
		t.Errorf("exit status %d, %d honest lines, report %.200q\n%.2000s", got, strings.Count(out, ": honest\n"), out[max(0, len(out)-200):], errs)
	}
	has(t, rows(errs), "flooder late", "btc: 3 of 4 hosts in the report, 1 failed")
	first, last := strings.Index(out, ": honest\n"), strings.LastIndex(out, ": honest\n")
	if n := strings.Count(out[max(first, 0):max(last, 0)], "flooder: "); n > 30 {
		t.Errorf("%d lines of 4 MiB of a flooder among those of the others", n)
	}
	t.Logf("%d lines of the flooder, %d of them among the others", strings.Count(out, "flooder: "), strings.Count(out[max(first, 0):max(last, 0)], "flooder: "))
}
