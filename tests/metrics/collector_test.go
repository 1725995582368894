// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestCollector lets a real Collector follow the file while btrun writes and rotates it. No log record
// may be lost, and the last value of each metric must be the number of reads.
func TestCollector(t *testing.T) {
	needRoot(t)
	program, err := filepath.Abs("../../build/fleet/otelcol")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		t.Skip("skipped: no OpenTelemetry Collector: make test-metrics builds one")
	}
	dir := t.TempDir()
	lines, config := filepath.Join(dir, "reads.jsonl"), filepath.Join(dir, "config.yml")
	text := fmt.Sprintf(`receivers: {otlpjsonfile: {include: [%q], start_at: beginning, poll_interval: 50ms}}
exporters: {debug: {verbosity: detailed, sampling_initial: 100000}}
service:
  pipelines:
    metrics: {receivers: [otlpjsonfile], exporters: [debug]}
    logs: {receivers: [otlpjsonfile], exporters: [debug]}
  telemetry: {metrics: {level: none}, logs: {sampling: {enabled: false}}}
`, lines+"*")
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	const printed = 400
	object := compiled(t, dir, "reads", `// @bytes [bytes]: Bytes of each read.
t:syscalls:sys_enter_read /comm == "dd" && args.count == 5000/ {
	@n[comm] = count(); @bytes = hist(args.count); printf("read %d of %s\n", @i++, comm);
}`)
	out, err := os.Create(filepath.Join(dir, "collector.out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	collector := command(program, "--config", "file:"+config)
	collector.Stdout, collector.Stderr = out, out
	run(t, collector)
	output(t, filepath.Join(programs, "btrun"), "-q", "-f", "otlp", "--every", "200ms", "--rotate", "64K", "--keep",
		"20", "-o", lines, "-c", fmt.Sprintf("dd if=/dev/zero of=/dev/null bs=5000 count=%d status=none", printed),
		object)
	if rotated, _ := filepath.Glob(lines + ".*"); len(rotated) == 0 {
		t.Error("file not rotated")
	}
	read := func() string {
		b, err := os.ReadFile(out.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	record := regexp.MustCompile(`Body: Str\(read (\d+) of dd\s*\)`)
	waitFor(t, "the Collector has all log records",
		func() bool { return len(record.FindAllString(read(), -1)) >= printed })
	seen := map[string]bool{}
	for _, m := range record.FindAllStringSubmatch(read(), -1) {
		if seen[m[1]] {
			t.Errorf("duplicate record %s", m[1])
		}
		seen[m[1]] = true
	}
	last := func(after, number string) int {
		all := regexp.MustCompile(after+`(?s:.*?)`+number+` (\d+)`).FindAllStringSubmatch(read(), -1)
		if len(all) == 0 {
			return -1
		}
		n, err := strconv.Atoi(all[len(all)-1][1])
		if err != nil {
			return -1
		}
		return n
	}
	waitFor(t, "the last values", func() bool {
		return last("Name: btc_reads_n\n", "Value:") == printed &&
			last("Name: btc_reads_bytes\n", "\nCount:") == printed
	})
	for _, want := range []string{
		"-> Unit: bytes\n", "-> Description: Bytes of each read.\n", "-> DataType: Histogram\n", "-> AggregationTemporality: Cumulative\n",
		"-> btc.object: Str(reads)\n", "ExplicitBounds #0: -1.000000\n", "-> IsMonotonic: true\n",
	} {
		if !strings.Contains(read(), want) {
			t.Errorf("%q not found in the Collector's output", want)
		}
	}
}
