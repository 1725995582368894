// SPDX-License-Identifier: Apache-2.0

package promcollector_test

import (
	"bytes"
	"context"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/protobuf/testing/protocmp"

	"btc/btrace"
	"btc/btrace/promcollector"
	"btc/compile"
	"btc/targets/kernel"
)

// everyShape has a map of each shape, keys that need escapes, a key with labels of containers, and a map that is full.
const everyShape = `
let @full = hash(1);
begin {
	@hits["a\"b\\", 1] = count(); @hits["ü", 2] = count(); @hits["ü", 2] = count();
	@total = sum((uint64)7); @level = sum(-5); @least = min(-9); @most = max(12);
	@mean["x"] = avg(-3); @spread = stats(10); @plain = 4;
	@size = hist(0); @size = hist(5); @size = hist(70000); @fine["k"] = hist(9223372036854775807, 3);
	@linear = lhist(15, 0, 100, 10); @linear = lhist(-1, 0, 100, 10); @linear = lhist(1000, 0, 100, 10);
	@over = tseries(8, 1h, 2, "max");
	@group[cgroup] = count(); @name = "not a number"; @never[1] = count(); clear(@never);
	@full[1] = 1; @full[2] = 2;
}
self:signal:SIGUSR1 { exit(); }`

func object(t *testing.T, script string) *btrace.Object {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	target, err := kernel.Default(runtime.GOARCH)
	if err != nil {
		t.Skip("skipped: ", err)
	}
	out, diags := compile.Compile(compile.Input{Name: "agent.bt", Text: script, Target: target})
	if out == nil {
		t.Fatal(diags)
	}
	o, err := btrace.Parse(out.Object, out.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// attached loads and attaches a session.
func attached(t *testing.T, o *btrace.Object, opts btrace.Options) *btrace.Session {
	t.Helper()
	opts.DropEvents = true
	s, err := btrace.Load(o, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.Attach(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// served returns the address of a server with the metrics of sessions.
func served(t *testing.T, collectors ...prometheus.Collector) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	for _, c := range collectors {
		if err := registry.Register(c); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(server.Close)
	return server.URL
}

func collector(t *testing.T, s *btrace.Session, o btrace.MetricOptions) *promcollector.Collector {
	t.Helper()
	c, err := promcollector.New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// scraped returns the status and body of a scrape in the text format.
func scraped(t *testing.T, url string) (int, string) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// families parses a document of metrics. What the package's comment lists as different is checked and removed:
// metrics without series, and the sums of histograms.
func families(t *testing.T, text string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	all, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	for name, f := range all {
		if len(f.Metric) == 0 {
			delete(all, name)
		}
		for _, m := range f.Metric {
			slices.SortFunc(m.Label, func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) })
			if h := m.Histogram; h != nil {
				if h.SampleSum != nil && !math.IsNaN(*h.SampleSum) {
					t.Errorf("%s: sum %v", name, *h.SampleSum)
				}
				h.SampleSum = nil
			}
		}
		slices.SortFunc(f.Metric, func(a, b *dto.Metric) int { return strings.Compare(labels(a), labels(b)) })
	}
	return all
}

func labels(m *dto.Metric) string {
	var all []string
	for _, l := range m.Label {
		all = append(all, l.GetName()+"="+l.GetValue())
	}
	return strings.Join(all, ",")
}

// printed returns what a report with metrics prints at the end of a session.
func printed(t *testing.T, o *btrace.Object, opts btrace.Options) string {
	t.Helper()
	var out bytes.Buffer
	s, err := btrace.LoadReport(t.Context(), o, opts, &btrace.Report{Out: &out, Format: "prometheus"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Attach(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	if _, err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestSameAsReport compares a scrape, during the session and after it, with what btrun -f prometheus writes.
func TestSameAsReport(t *testing.T) {
	o := object(t, everyShape)
	want := families(t, printed(t, o, btrace.Options{}))
	if len(want) < 14 {
		t.Errorf("only %d metrics in the report", len(want))
	}
	s := attached(t, o, btrace.Options{})
	url := served(t, collector(t, s, btrace.MetricOptions{}))
	scrape := func() map[string]*dto.MetricFamily {
		status, text := scraped(t, url)
		if status != http.StatusOK {
			t.Fatalf("%d: %s", status, text)
		}
		return families(t, text)
	}
	during := scrape()
	s.Stop()
	if _, err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, scrape(), protocmp.Transform()); diff != "" {
		t.Errorf("after the session: -report +scrape\n%s", diff)
	}
	up := during["btc_up"].Metric[0].Gauge
	if up.GetValue() != 1 {
		t.Errorf("btc_up is %v while the session runs", up)
	}
	*up.Value = 0
	if diff := cmp.Diff(want, during, protocmp.Transform()); diff != "" {
		t.Errorf("during the session: -report +scrape\n%s", diff)
	}
}

// TestBudget checks the metrics of a session with a budget: their values are times.
func TestBudget(t *testing.T) {
	o := object(t, `interval:s:1000 { @n = count(); }`)
	names := func(all map[string]*dto.MetricFamily) (names []string) {
		for name, f := range all {
			for _, m := range f.Metric {
				names = append(names, name+" "+f.GetType().String()+" "+labels(m))
			}
		}
		slices.Sort(names)
		return names
	}
	opts := btrace.Options{Budget: 0.5}
	want := names(families(t, printed(t, o, opts)))
	if !slices.Contains(want, "btc_probe_up GAUGE object=agent,probe=interval:s:1000") {
		t.Errorf("the report has no costs: %q", want)
	}
	_, text := scraped(t, served(t, collector(t, attached(t, o, opts), btrace.MetricOptions{})))
	if have := names(families(t, text)); !slices.Equal(have, want) {
		t.Errorf("%q, the report has %q", have, want)
	}
}

// TestLint runs the linter of Prometheus on a scrape.
func TestLint(t *testing.T) {
	_, text := scraped(t, served(t, collector(t, attached(t, object(t, everyShape), btrace.Options{}), btrace.MetricOptions{})))
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, error %v in\n%s", problems, err, text)
	}
}

// TestTwoSessions registers two sessions of one object, and limits their series.
func TestTwoSessions(t *testing.T) {
	o := object(t, `begin { @[1] = count(); @[2] = count(); @[3] = count(); } interval:s:1000 { exit(); }`)
	s := attached(t, o, btrace.Options{})
	a, b := collector(t, s, btrace.MetricOptions{Object: "a", MaxSeries: 2}), collector(t, attached(t, o, btrace.Options{}), btrace.MetricOptions{Object: "b"})
	_, text := scraped(t, served(t, a, b))
	for _, want := range []string{`btc_a_total{key="other",object="a"} 2`, `btc_b_total{key="3",object="b"} 1`, `btc_up{object="a"} 1`, `btc_up{object="b"} 1`} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	for name, c := range map[string]struct {
		pods []string
		ok   bool
	}{
		"equal names":     {[]string{"", ""}, false},
		"a further label": {[]string{"web", "db"}, true},
	} {
		registry := prometheus.NewRegistry()
		var err error
		for _, pod := range c.pods {
			labels := prometheus.Labels{}
			if pod != "" {
				labels["pod"] = pod
			}
			err = prometheus.WrapRegistererWith(labels, registry).Register(collector(t, s, btrace.MetricOptions{}))
		}
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := promcollector.New(s, btrace.MetricOptions{MaxSeries: -1}); err == nil {
		t.Error("no error for a negative MaxSeries")
	}
}

// TestErrors checks that a map that cannot be read, and a closed session, are errors of the scrape.
func TestErrors(t *testing.T) {
	s := attached(t, object(t, `begin { @broken[1] = count(); @entire = count(); }`), btrace.Options{})
	c := collector(t, s, btrace.MetricOptions{})
	url := served(t, c)
	maps, _ := s.BPF()
	for symbol, m := range maps {
		if strings.Contains(symbol, "broken") {
			m.Close()
		}
	}
	status, text := scraped(t, url)
	if status != http.StatusInternalServerError || !strings.Contains(text, "btc_agent_broken_total") || strings.Contains(text, "btc_agent_whole") {
		t.Errorf("status %d: %s", status, text)
	}
	s.Close()
	status, text = scraped(t, url)
	if status != http.StatusInternalServerError || !strings.Contains(text, btrace.ErrClosed.Error()) {
		t.Errorf("status %d: %s", status, text)
	}
	if _, err := promcollector.New(s, btrace.MetricOptions{}); err != btrace.ErrClosed {
		t.Errorf("collector of a closed session: %v", err)
	}
}

// TestConcurrent scrapes a session from several goroutines while it runs, ends and is closed.
func TestConcurrent(t *testing.T) {
	o := object(t, `interval:ms:1 { @n[nsecs % 50] = count(); @h = hist(nsecs); }`)
	s, err := btrace.Load(o, btrace.Options{DropEvents: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	url := served(t, collector(t, s, btrace.MetricOptions{}))
	if _, text := scraped(t, url); !strings.Contains(text, `btc_up{object="agent"} 0`) {
		t.Errorf("before Attach: %s", text)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := s.Attach(ctx); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				status, text := scraped(t, url)
				if status != http.StatusOK {
					if !strings.Contains(text, btrace.ErrClosed.Error()) {
						t.Errorf("status %d: %s", status, text)
					}
					return
				}
			}
		})
	}
	s.Wait()
	s.Close()
	all.Wait()
}
