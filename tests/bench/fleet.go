// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Sizes of the fleet axis.
const (
	fleetHosts = 1000
	mergeRuns  = 1000
	mergeKeys  = 10000

	replaySamples = 1_000_000
	replayStacks  = 20_000
	replayDepth   = 30 // frames of a stack
	replayFrames  = 5_000
)

// fleet measures what continuous output costs a host, and what the output of a fleet costs those who
// collect it: a real Prometheus, and btc merge.
func (b *bench) fleet() error {
	a := axis{Name: "fleet", Title: "Metrics and merged runs", Sides: [2]string{"measured", " "}}
	a.note("the figures of snapshots and of btc merge are CPU time of the process, which hardly depends on other work")
	a.note("elapsed times, including those of queries, depend on the load of the machine (see above)")
	for _, part := range []func(*axis) error{b.snapshots, b.prometheus, b.mergedRuns, b.replays} {
		if err := part(&a); err != nil {
			return err
		}
	}
	b.result.put(a)
	return nil
}

// only returns a row with a single side.
func only(name, unit string, all ...float64) row {
	return row{Name: name, Unit: unit, Btc: summarize(all)}
}

// snapshots measures the CPU time of one snapshot of --every for several numbers of keys: the
// difference between a run with several snapshots and one without, divided by their number.
func (b *bench) snapshots(a *axis) error {
	for _, keys := range []int{1, 10_000, 100_000} {
		taken, interval := 5, 500*time.Millisecond
		switch keys {
		case 1: // the start dominates the cost
			taken, interval = 40, 100*time.Millisecond
		case 100_000:
			interval = time.Second
		}
		timeout := time.Duration(taken)*interval + interval/2
		script := filepath.Join(b.dir, fmt.Sprintf("keys%d.bt", keys))
		text := fmt.Sprintf("config = { max_map_keys = 131072 }\nbegin { for $i : 0..%d { @[$i] = count(); } }\ninterval:s:1000 { exit(); }\n",
			keys)
		if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
			return err
		}
		object := b.btc.object(script)
		if out, err := b.btc.compile(script, object).CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		for _, format := range []string{"prometheus", "json2", "otlp"} {
			var cost []float64
			for range b.rounds {
				var cpu [2]time.Duration
				shown := taken
				for i, every := range []string{interval.String(), "1h"} {
					args := []string{
						"-q", "-f", format, "--every", every, "--timeout", timeout.String(), "-o",
						filepath.Join(b.dir, "out"),
					}
					if format != "json2" {
						args = append(args, "--max-series", "200000")
					}
					cmd := exec.Command(filepath.Join(b.dir, "btrun"), append(args, object)...)
					out, err := cmd.CombinedOutput()
					if err != nil {
						return fmt.Errorf("%w: %s", err, tail(string(out)))
					}
					for _, m := range skipped.FindAllSubmatch(out, -1) {
						n, _ := strconv.Atoi(string(m[1]))
						shown -= n
					}
					cpu[i] = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
				}
				if shown > 0 {
					cost = append(cost, (cpu[0]-cpu[1]).Seconds()*1e3/float64(shown))
				}
			}
			name := fmt.Sprintf("a snapshot of %d keys, -f %s", keys, format)
			if keys == 1 {
				name = strings.Replace(name, "keys", "key", 1)
			}
			a.add(only(name, "ms", cost...))
			if keys == 10_000 {
				percent := a.Rows[len(a.Rows)-1].Btc.Median / 10
				a.add(
					only(fmt.Sprintf("CPU of btrun --every 1s with %d keys, -f %s", keys, format), "% of one CPU",
						percent),
				)
			}
		}
	}
	return nil
}

// skipped matches the warning that a snapshot was skipped, because on a busy machine the previous one
// was not written in time.
var skipped = regexp.MustCompile(`(\d+) snapshots? (?:was|were) skipped`)

// prometheus lets Debian's Prometheus scrape a thousand hosts. Their metrics are those of one real run
// with modified numbers.
func (b *bench) prometheus(a *axis) error {
	program := filepath.Join(b.root, "build/fleet/root/usr/bin/prometheus")
	if _, err := os.Stat(program); err != nil {
		a.note("no Prometheus: tests/setup/fleet.sh unpacks one")
		return nil
	}
	page, err := b.realRun()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	began := time.Now()
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		w.Write(jittered(page, host, time.Since(began)))
	}))
	config := "global: {scrape_interval: 10s, scrape_timeout: 9s}\nscrape_configs:\n- job_name: btc\n  static_configs:\n"
	for i := range fleetHosts {
		config += fmt.Sprintf("  - {targets: ['%s'], labels: {__metrics_path__: '/%d', instance: 'host%d'}}\n",
			l.Addr(), i, i)
	}
	file := filepath.Join(b.dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		return err
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := free.Addr().String()
	free.Close()
	cmd := exec.Command(program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(b.dir, "tsdb"),
		"--web.listen-address="+address, "--log.level=error")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	time.Sleep(45 * time.Second) // four scrapes per host
	value := func(expr string) (float64, error) {
		r, err := http.Get("http://" + address + "/api/v1/query?query=" + url.QueryEscape(expr))
		if err != nil {
			return 0, err
		}
		defer r.Body.Close()
		var x struct {
			Data struct{ Result []struct{ Value [2]any } }
		}
		text, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(text, &x)
		}
		if err != nil || len(x.Data.Result) == 0 {
			return 0, fmt.Errorf("%s: no answer (%v): %.200s", expr, err, text)
		}
		return strconv.ParseFloat(fmt.Sprint(x.Data.Result[0].Value[1]), 64)
	}
	n, err := value(`count({__name__=~"btc_.*"})`)
	if err != nil {
		return err
	}
	a.add(only(fmt.Sprintf("Prometheus, %d hosts: series", fleetHosts), "", n))
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(status)) {
		if words := strings.Fields(line); words[0] == "VmHWM:" {
			kib, _ := strconv.ParseFloat(words[1], 64)
			a.add(only(fmt.Sprintf("Prometheus, %d hosts: resident memory at its peak", fleetHosts), "MiB", kib/1024))
		}
	}
	for _, q := range []struct{ name, expr string }{
		{"0.99 quantile over all hosts", `histogram_quantile(0.99, sum by (le) (rate(btc_reads_bytes_bucket[30s])))`},
		{"0.99 quantile by key over all hosts", `histogram_quantile(0.99, sum by (le, comm) (rate(btc_reads_bytes_bucket[30s])))`},
		{"ten hosts with the most reads", `topk(10, sum by (instance) (rate(btc_reads_calls_total[30s])))`},
	} {
		var took []float64
		for range b.rounds {
			start := time.Now()
			if _, err := value(q.expr); err != nil {
				return err
			}
			took = append(took, time.Since(start).Seconds()*1e3)
		}
		a.add(only("Prometheus, query: "+q.name, "ms", took...))
	}
	return nil
}

// realRun returns the metrics of a run with a histogram and a count by key.
func (b *bench) realRun() ([]byte, error) {
	script := filepath.Join(b.dir, "reads.bt")
	const text = `t:syscalls:sys_exit_read /comm == "dd" && args.ret >= 0/ { @bytes[comm] = hist(args.ret); @calls[comm] = count(); }`
	if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
		return nil, err
	}
	object, file := b.btc.object(script), filepath.Join(b.dir, "reads.prom")
	if out, err := b.btc.compile(script, object).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	cmd := exec.Command(filepath.Join(b.dir, "btrun"), "-q", "-f", "prometheus", "-o", file, "-c",
		"dd if=/dev/zero of=/dev/null bs=4096 count=1000 status=none", object)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, tail(string(out)))
	}
	return os.ReadFile(file)
}

// jittered returns a page with the numbers of another host; they grow over time.
func jittered(page []byte, host int, age time.Duration) []byte {
	factor := (1 + float64(host%97)/97) * (1 + age.Seconds())
	var out []byte
	for line := range bytes.Lines(page) {
		at := bytes.LastIndexByte(line, ' ')
		x, err := strconv.ParseFloat(string(bytes.TrimSpace(line[at+1:])), 64)
		if line[0] == '#' || err != nil {
			out = append(out, line...)
			continue
		}
		out = strconv.AppendFloat(append(out, line[:at+1]...), float64(int64(x*factor)), 'f', -1, 64)
		out = append(out, '\n')
	}
	return out
}

// mergedRuns measures btc merge with many runs.
func (b *bench) mergedRuns(a *axis) error {
	runs := mergeRuns
	if b.quick {
		runs = mergeRuns / 10
	}
	dir := filepath.Join(b.dir, "runs")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var files []string
	var size, want int64
	for host := range runs {
		name := filepath.Join(dir, fmt.Sprintf("host%d.jsonl", host))
		n, sum, err := writeRun(name, host)
		if err != nil {
			return err
		}
		files, size, want = append(files, name), size+n, want+sum
	}
	var wall, cpu, resident []float64
	for range min(b.rounds, 3) {
		cmd := exec.Command(
			filepath.Join(b.dir, "btc"),
			append([]string{"merge", "-o", filepath.Join(b.dir, "merged")}, files...)...)
		took, kib, err := process(cmd)
		if err != nil {
			return err
		}
		wall = append(wall, took.Seconds())
		cpu = append(cpu, (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
		resident = append(resident, float64(kib)/1024)
	}
	merged, err := os.ReadFile(filepath.Join(b.dir, "merged"))
	if err != nil {
		return err
	}
	have := int64(0)
	for line := range bytes.Lines(merged) {
		if at := bytes.LastIndexByte(line, ' '); at > 0 {
			n, _ := strconv.ParseInt(string(bytes.TrimSpace(line[at+1:])), 10, 64)
			have += n
		}
	}
	if have != want {
		return fmt.Errorf("btc merge: sum of all counts = %d, want %d", have, want)
	}
	name := fmt.Sprintf("btc merge of %d runs of %d keys, %d MB", runs, mergeKeys, size/1e6)
	a.add(only(name+": elapsed", "s", wall...))
	a.add(only(name+": CPU", "s", cpu...))
	a.add(only(name+": resident memory at its peak", "MiB", resident...))
	return nil
}

// writeRun writes the json2 output of a run; sum is the sum of its counts.
func writeRun(name string, host int) (size, sum int64, err error) {
	f, err := os.Create(name)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	r := rand.New(rand.NewPCG(uint64(host), 1))
	fmt.Fprintf(w,
		`{"type": "map", "time": "2026-01-01T00:00:00Z", "name": "@", "shape": "count", "object": "%064d", "host": "host%d", "signed": false, "entries": [`,
		1, host)
	for key := range mergeKeys {
		if key > 0 {
			w.WriteString(", ")
		}
		n := r.Int64N(1_000_000)
		sum += n
		fmt.Fprintf(w, `{"key": [%d,"name-of-a-process-of-a-host-%d"], "value": %d}`, 1000+key, key%500, n)
	}
	w.WriteString("]}\n")
	if err := w.Flush(); err != nil {
		return 0, 0, err
	}
	st, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	return st.Size(), sum, nil
}

// replays measures btc replay of a recording with many stacks, in several formats.
func (b *bench) replays(a *axis) error {
	object := filepath.Join(b.dir, "stacks.o")
	cmd := exec.Command(filepath.Join(b.dir, "btc"), "compile", "-e", "config = { max_map_keys = 65536; } profile:hz:99 { @[kstack, comm] = count(); }", "-o", object)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	recording := filepath.Join(b.dir, "stacks.jsonl")
	size, err := writeStacks(recording, strings.TrimSuffix(object, ".o")+".json")
	if err != nil {
		return err
	}
	for _, format := range []string{"text", "json", "folded", "pprof", "svg", "perfetto"} {
		var wall, cpu []float64
		for range min(b.rounds, 3) {
			cmd := exec.Command(filepath.Join(b.dir, "btc"), "replay", "-f", format, "-o", filepath.Join(b.dir, "replayed"), recording)
			took, _, err := process(cmd)
			if err != nil {
				return err
			}
			wall = append(wall, took.Seconds())
			cpu = append(cpu, (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
		}
		name := fmt.Sprintf("btc replay -f %s, %d samples in %d stacks, %.1f MB", format, replaySamples, replayStacks, float64(size)/1e6)
		a.add(only(name+": elapsed", "s", wall...))
		a.add(only(name+": CPU", "s", cpu...))
		if format != "folded" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(b.dir, "replayed"))
		if err != nil {
			return err
		}
		lines, sum := 0, 0
		for line := range bytes.Lines(text) {
			n, _ := strconv.Atoi(string(bytes.TrimSpace(line[bytes.LastIndexByte(line, ' ')+1:])))
			lines, sum = lines+1, sum+n
		}
		if lines != replayStacks || sum != replaySamples {
			return fmt.Errorf("btc replay: %d samples in %d stacks, want %d in %d", sum, lines, replaySamples, replayStacks)
		}
	}
	return nil
}

// writeStacks writes a recording of a run of the object with a manifest.
func writeStacks(name, manifest string) (size int, err error) {
	text, err := os.ReadFile(manifest)
	if err != nil {
		return 0, err
	}
	var out bytes.Buffer
	out.WriteString(`{"type": "head", "version": 2, "time": "2026-11-28T09:00:00Z", "host": "vm", "name": "stacks", "format": "text", "str_trunc_trailer": "..", "print_maps_on_exit": true, "args": [], "params": {}, "manifest": `)
	if err := json.Compact(&out, text); err != nil {
		return 0, err
	}
	const at = `"time": "2026-11-28T09:00:05Z"`
	fmt.Fprintf(&out, "}\n"+`{"type": "snapshot", %s, "final": true}`+"\n"+`{"type": "map", %s, "name": "@", "shape": "count", "object": "", "host": "vm", "signed": false, "entries": [`, at, at)
	counts := make([]int, replayStacks)
	for i := range replaySamples {
		counts[i*7919%replayStacks]++
	}
	r := rand.New(rand.NewPCG(1, 1))
	for i, n := range counts {
		if i > 0 {
			out.WriteString(", ")
		}
		fmt.Fprintf(&out, `{"key": [{"id": %d, "frames": [%d`, i+1, i%replayFrames)
		for range replayDepth - 1 {
			fmt.Fprintf(&out, ",%d", r.IntN(replayFrames))
		}
		fmt.Fprintf(&out, `]},"worker-%d"], "value": %d}`, i%10, n)
	}
	out.WriteString(`], "frames": [`)
	for i := range replayFrames {
		if i > 0 {
			out.WriteString(", ")
		}
		fmt.Fprintf(&out, `{"sym": "some_function_of_the_kernel_%d", "offset": %d, "address": %d}`, i, r.IntN(1000), 0xffffffff81000000+uint64(i)*256)
	}
	out.WriteString("]}\n")
	return out.Len(), os.WriteFile(name, out.Bytes(), 0o644)
}
