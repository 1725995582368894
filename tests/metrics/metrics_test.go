// SPDX-License-Identifier: Apache-2.0

// Package metrics runs the examples of docs/metrics.md and docs/howto/fleet.md with real programs:
// Debian's node_exporter, Prometheus and promtool, and an OpenTelemetry Collector. make test-metrics
// downloads them (tests/setup/fleet.sh); a test is skipped if its program is missing. Servers listen on
// the loopback interface only.
package metrics

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// programs is the directory of btc and btrun.
var programs string

func TestMain(m *testing.M) { os.Exit(withPrograms(m)) }

func withPrograms(m *testing.M) int {
	dir, err := os.MkdirTemp("", "btc-metrics")
	if err == nil {
		defer os.RemoveAll(dir)
		cmd := exec.Command("go", "build", "-o", dir, "btc/cmd/btc", "btc/cmd/btrun")
		cmd.Env, cmd.Stderr = append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
		err = cmd.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	programs = dir
	return m.Run()
}

// tool returns the path of a Debian program: unpacked, or installed.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../build/fleet/root/usr/bin", name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if path, err = exec.LookPath(name); err != nil {
		t.Skipf("skipped: no %s: tests/setup/fleet.sh unpacks one", name)
	}
	return path
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
}

// freePort returns an unused TCP port on the loopback interface.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// output runs a program and returns what it prints.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", cmd, err, out, &stderr)
	}
	return string(out)
}

// start runs a program until the test ends.
func start(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := command(name, args...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s:\n%s", cmd, log.String()[max(0, log.Len()-3000):])
		}
	})
	run(t, cmd)
	return cmd
}

// command returns a command in its own process group.
func command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// run runs a command until the test ends.
func run(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		timer := time.AfterFunc(10*time.Second, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		cmd.Wait()
		timer.Stop()
	})
}

// get fetches a page. It waits for a server that is starting.
func get(t *testing.T, address string) string {
	t.Helper()
	var last error
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		r, err := http.Get(address)
		if err != nil {
			last = err
			continue
		}
		b, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err == nil && r.StatusCode < 500 {
			return string(b)
		}
		last = errors.Join(err, fmt.Errorf("%s: %s", r.Status, b))
	}
	t.Fatalf("%s: %v", address, last)
	return ""
}

// waitFor waits until a condition holds.
func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if is() {
			return
		}
	}
	t.Errorf("%s: not met within a minute", what)
}

// script counts the reads of dd in maps of all kinds that are exported as metrics.
const script = `// @bytes [bytes]: Bytes that each read returned.
// @calls: Reads by process.
// @mean [bytes]: Average of reads.
t:syscalls:sys_exit_read /comm == "dd" && args.ret >= 0/ {
	@bytes[comm] = hist(args.ret); @calls[comm, pid % 2] = count(); @mean[comm] = avg(args.ret); @all = stats(args.ret);
	@total = sum((uint64)args.ret); @lin = lhist(args.ret, 0, 8192, 1024);
	@least[comm] = min(args.ret); @most = max(args.ret); @last = args.ret; @signed = sum(args.ret);
}
`

const other = `t:syscalls:sys_enter_write /comm == "dd"/ { @calls[comm] = count(); }`

// compiled writes a script and compiles it.
func compiled(t *testing.T, dir, name, text string) string {
	t.Helper()
	bt, o := filepath.Join(dir, name+".bt"), filepath.Join(dir, name+".o")
	if err := os.WriteFile(bt, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	output(t, filepath.Join(programs, "btc"), "compile", "--no-warnings", bt, "-o", o)
	return o
}

// workload makes dd read 4096 bytes 100 times, again and again.
func workload(t *testing.T) {
	start(t, "sh", "-c", "while :; do dd if=/dev/zero of=/dev/null bs=4096 count=100 status=none; sleep 0.2; done")
}

// prometheus is a running Prometheus server.
type prometheus struct {
	t       *testing.T
	address string
}

// startPrometheus starts a server that scrapes targets every second.
func startPrometheus(t *testing.T, rules string, targets ...string) *prometheus {
	t.Helper()
	program := tool(t, "prometheus")
	dir := t.TempDir()
	config := "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
	if rules != "" {
		config += "rule_files: [" + strconv.Quote(rules) + "]\n"
	}
	config += "scrape_configs:\n- job_name: node\n  static_configs: [{targets: ['" + strings.Join(targets,
		"', '") + "']}]\n"
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	p := &prometheus{t, freePort(t)}
	start(t, program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+p.address, "--log.level=warn")
	get(t, "http://"+p.address+"/-/ready")
	return p
}

// series is one series of the result of a query.
type series struct {
	Metric map[string]string
	Value  [2]any // time and value
}

func (s *series) number() float64 {
	x, err := strconv.ParseFloat(fmt.Sprint(s.Value[1]), 64)
	if err != nil {
		return -1
	}
	return x
}

// query returns the current value of an expression.
func (p *prometheus) query(expr string) []series {
	p.t.Helper()
	var answer struct {
		Status, Error string
		Data          struct{ Result []series }
	}
	text := get(p.t, "http://"+p.address+"/api/v1/query?query="+url.QueryEscape(expr))
	if err := json.Unmarshal([]byte(text), &answer); err != nil || answer.Status != "success" {
		p.t.Errorf("%s: %s %v", expr, answer.Error, err)
	}
	return answer.Data.Result
}

// expressions returns the queries of a dashboard.
func expressions(t *testing.T, dashboard string) []string {
	t.Helper()
	var d struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal([]byte(dashboard), &d); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, p := range d.Panels {
		for _, x := range p.Targets {
			all = append(all, x.Expr)
		}
	}
	return all
}

// TestPrometheus goes from two objects to results of Prometheus: node_exporter accepts their files,
// every query of the dashboard and every recording rule has a result, and the quantiles are those of
// the reads.
func TestPrometheus(t *testing.T) {
	needRoot(t)
	exporter, promtool := tool(t, "prometheus-node-exporter"), tool(t, "promtool")
	dir := t.TempDir()
	textfiles := filepath.Join(dir, "textfiles")
	if err := os.Mkdir(textfiles, 0o755); err != nil {
		t.Fatal(err)
	}
	object, second := compiled(t, dir, "reads", script), compiled(t, dir, "writes", other)
	btc, btrun := filepath.Join(programs, "btc"), filepath.Join(programs, "btrun")
	rules := filepath.Join(dir, "rules.yml")
	if err := os.WriteFile(rules, []byte(output(t, btc, "export", "rules", "--window", "10s", object)), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := output(t, promtool, "check", "rules", rules); !strings.Contains(out, "SUCCESS: 15 rules found") {
		t.Error(out)
	}
	workload(t)
	for _, o := range []string{object, second} {
		start(t, btrun, "-q", "--every", "500ms", "-f", "prometheus", "-o",
			filepath.Join(textfiles, strings.TrimSuffix(filepath.Base(o), ".o")+".prom"), o)
	}
	address := freePort(t)
	start(t, exporter, "--collector.disable-defaults", "--collector.textfile",
		"--collector.textfile.directory="+textfiles, "--web.listen-address="+address)
	page := ""
	waitFor(t, "both objects are exported", func() bool {
		page = get(t, "http://"+address+"/metrics")
		return strings.Contains(page, "btc_reads_bytes_bucket") && strings.Contains(page, "btc_writes_calls_total")
	})
	if !strings.Contains(page, "node_textfile_scrape_error 0\n") ||
		!strings.Contains(page, "# HELP btc_reads_bytes Bytes that each read returned.\n") {
		t.Errorf("node_exporter: %s", page)
	}
	lint := exec.Command(promtool, "check", "metrics")
	lint.Stdin = strings.NewReader(page)
	if out, err := lint.CombinedOutput(); err != nil && strings.Contains(string(out), "error while linting") {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
	p := startPrometheus(t, rules, address)
	waitFor(t, "Prometheus has rates", func() bool {
		s := p.query(`sum by (comm) (rate(btc_reads_calls_total[10s]))`)
		return len(s) == 1 && s[0].Metric["comm"] == "dd" && s[0].number() > 0
	})
	if s := p.query(`histogram_quantile(0.5, sum by (le) (rate(btc_reads_bytes_bucket[10s])))`); len(s) != 1 ||
		s[0].number() < 4095 ||
		s[0].number() > 8191 {
		t.Errorf("median of reads of 4096 bytes = %v", s)
	}
	if s := p.query(`min(btc_up)`); len(s) != 1 || s[0].number() != 1 {
		t.Errorf("btc_up = %v", s)
	}
	replace := strings.NewReplacer("$__rate_interval", "10s", "$__range", "30s", "$instance", ".*")
	all := expressions(t, output(t, btc, "export", "grafana", object))
	if len(all) < 20 {
		t.Errorf("dashboard has %d queries", len(all))
	}
	for _, expr := range all {
		waitFor(t, expr, func() bool {
			s := p.query(replace.Replace(expr))
			return len(s) > 0 && !slices.ContainsFunc(s, func(x series) bool { return fmt.Sprint(x.Value[1]) == "NaN" })
		})
	}
	for line := range strings.Lines(output(t, "cat", rules)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "- record: "); ok {
			waitFor(t, name, func() bool { return len(p.query(name)) > 0 })
		}
	}
	if s := p.query(`object_comm:btc_reads_mean_bytes:mean10s`); len(s) != 1 || s[0].number() < 1000 ||
		s[0].number() > 4100 {
		t.Errorf("mean of the rule = %v", s)
	}
}

// TestOpenMetricsImport checks that Prometheus reads the OpenMetrics output: promtool creates blocks
// from the file, and a query runs on them.
func TestOpenMetricsImport(t *testing.T) {
	needRoot(t)
	promtool, program := tool(t, "promtool"), tool(t, "prometheus")
	dir := t.TempDir()
	file := filepath.Join(dir, "reads.om")
	object := compiled(t, dir, "reads", script)
	output(t, filepath.Join(programs, "btrun"), "-q", "-f", "openmetrics", "-o", file, "-c",
		"dd if=/dev/zero of=/dev/null bs=4096 count=100 status=none", object)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// Samples without a time cannot be stored in blocks.
	var timed strings.Builder
	now := time.Now().Unix()
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			timed.WriteString(line)
		} else {
			fmt.Fprintf(&timed, "%s %d\n", strings.TrimSuffix(line, "\n"), now)
		}
	}
	if err := os.WriteFile(file, []byte(timed.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	output(t, promtool, "tsdb", "create-blocks-from", "openmetrics", file, data)
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, []byte("global: {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	p := &prometheus{t, freePort(t)}
	start(t, program, "--config.file="+config, "--storage.tsdb.path="+data, "--web.listen-address="+p.address,
		"--log.level=warn")
	get(t, "http://"+p.address+"/-/ready")
	if s := p.query(`btc_reads_total_total`); len(s) != 0 {
		t.Errorf("counter with a duplicate name: %v", s)
	}
	// dd also reads its libraries.
	if s := p.query(`btc_reads_bytes_bucket{le="8191.0"} - ignoring (le) btc_reads_bytes_bucket{le="4095.0"}`); len(s) != 1 ||
		s[0].number() != 100 {
		t.Errorf("reads of 4096 bytes = %v, want 100", s)
	}
}

// TestTenCommands runs the commands of docs/howto/fleet.md as printed: they lead from a script to a
// result of Prometheus.
func TestTenCommands(t *testing.T) {
	needRoot(t)
	page, err := os.ReadFile("../../docs/howto/fleet.md")
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	for line := range strings.Lines(string(page)) {
		if c, ok := strings.CutPrefix(line, "    # "); ok {
			commands = append(commands, strings.TrimSpace(c))
		}
	}
	if len(commands) != 10 {
		t.Fatalf("found %d commands: %q", len(commands), commands)
	}
	dir := filepath.Dir(tool(t, "prometheus-node-exporter"))
	tool(t, "prometheus")
	tool(t, "promtool")
	var m [][]byte
	for _, wait := range []string{"sleep 15", "sleep 45"} { // the second is for a busy machine
		text := strings.Replace(strings.Join(commands, "\n"), "sleep 15", wait, 1)
		for _, port := range []string{"127.0.0.1:9100", "127.0.0.1:9090"} {
			text = strings.ReplaceAll(text, port, freePort(t))
		}
		out, err := shell(t, text, programs+":"+dir)
		if m = regexp.MustCompile(`\{\} => ([0-9.]+) @`).FindSubmatch(out); err == nil && m != nil {
			break
		}
		t.Logf("%v: no result in\n%s", err, out)
	}
	if m == nil {
		t.Fatal("no result of Prometheus")
	}
	if x, err := strconv.ParseFloat(string(m[1]), 64); err != nil || x < 4096 || x > 8191 {
		t.Errorf("0.99 quantile of reads of 4096 bytes = %s", m[1])
	}
}

// shell runs commands in a directory of their own, kills those that are left, and returns all output.
func shell(t *testing.T, text, path string) ([]byte, error) {
	t.Helper()
	cmd := command("sh", "-c", text)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "PATH="+path+":"+os.Getenv("PATH"))
	out, err := os.Create(filepath.Join(cmd.Dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	runError := cmd.Run()
	syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
	time.Sleep(time.Second)
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	b, err := os.ReadFile(out.Name())
	return b, errors.Join(runError, err)
}
