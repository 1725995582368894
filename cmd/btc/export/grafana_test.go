// SPDX-License-Identifier: Apache-2.0

package export

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"

	"btc/internal/manifest"
)

// shapes returns a manifest with a map of each shape, without and with keys.
func shapes() *manifest.Manifest {
	signed := manifest.Layout{Kind: "int", Size: 8, Signed: true}
	text := manifest.Layout{Kind: "string", Size: 16}
	m := &manifest.Manifest{Script: manifest.Script{File: "x\n.bt"}}
	for _, shape := range []string{"count", "sum", "avg", "min", "max", "stats", "hist", "lhist", "plain"} {
		x := manifest.Map{
			Name:      "@" + shape,
			Shape:     shape,
			Value:     &signed,
			MapParams: manifest.MapParams{Max: 100, Step: 10},
			MapNames:  manifest.MapNames{Unit: "bytes", Help: `<a> "b".`},
		}
		m.Maps = append(m.Maps, x)
		x.Name, x.Key, x.KeyNames = "@keyed_"+shape, &text, []string{"args.comm"}
		m.Maps = append(m.Maps, x)
	}
	m.Maps = append(m.Maps, manifest.Map{Name: "@text", Shape: "plain", Value: &text})
	return m
}

// TestGrafanaSchema checks that a dashboard conforms strictly to Grafana's own types: every member is
// known, and no required member is missing.
func TestGrafanaSchema(t *testing.T) {
	r := cog.NewRuntime()
	for _, v := range []func(){
		func() { r.RegisterPanelcfgVariant(heatmap.VariantConfig()) }, func() { r.RegisterPanelcfgVariant(stat.VariantConfig()) },
		func() { r.RegisterPanelcfgVariant(table.VariantConfig()) }, func() { r.RegisterPanelcfgVariant(timeseries.VariantConfig()) },
		func() { r.RegisterDataqueryVariant(prometheus.VariantConfig()) },
	} {
		v()
	}
	data, left, err := Grafana(shapes(), `my object "x"`)
	if err != nil || len(left) != 1 || left[0] != "@text" {
		t.Fatal(left, err)
	}
	if err := strict(data); err != nil {
		t.Fatal(err)
	}
	for _, member := range []string{"gridPos", "legendFormat", "showHeader", "rowsFrame", "schemaVersion", "allValue"} {
		if strict(bytes.ReplaceAll(data, []byte(`"`+member+`"`), []byte(`"x`+member+`"`))) == nil {
			t.Errorf("schema without the member %s", member)
		}
	}
	//lint:ignore SA1019 version 2 of the schema is not what Grafana imports by default
	var d dashboard.Dashboard
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	if d.SchemaVersion != dashboard.NewDashboard().SchemaVersion {
		t.Errorf("schema version %d, the library's is %d", d.SchemaVersion, dashboard.NewDashboard().SchemaVersion)
	}
	if *d.Uid != "btc-my-object--x-" {
		t.Errorf("Uid = %q", *d.Uid)
	}
	kinds, ids, space := map[string]int{}, map[uint32]bool{}, map[[2]uint32]string{}
	for _, p := range d.Panels {
		var id uint32
		var title string
		var pos *dashboard.GridPos
		if p.Panel != nil {
			id, title, pos = *p.Panel.Id, *p.Panel.Title, p.Panel.GridPos
			kinds[p.Panel.Type]++
			if len(p.Panel.Targets) == 0 {
				t.Errorf("%s: no query", title)
			}
		} else {
			id, title, pos = p.RowPanel.Id, *p.RowPanel.Title, p.RowPanel.GridPos
			kinds["row"]++
		}
		if ids[id] {
			t.Errorf("duplicate id %d", id)
		}
		ids[id] = true
		for x := pos.X; x < pos.X+pos.W; x++ {
			for y := pos.Y; y < pos.Y+pos.H; y++ {
				if other := space[[2]uint32{x, y}]; other != "" || x >= columns {
					t.Fatalf("panels %q and %q overlap", title, other)
				}
				space[[2]uint32{x, y}] = title
			}
		}
	}
	if kinds["row"] != 19 || kinds["heatmap"] != 4 || kinds["stat"] != 1 || kinds["table"] != 9 {
		t.Errorf("panels by type: %v", kinds)
	}
}

// strict returns the errors of the library's strict decoder. Its functions return empty lists as
// errors.
func strict(data []byte) error {
	var errs cog.BuildErrors
	//lint:ignore SA1019 version 2 of the schema is not what Grafana imports by default
	err := new(dashboard.Dashboard).UnmarshalJSONStrict(data)
	if errors.As(err, &errs) && len(errs) == 0 {
		return nil
	}
	return err
}

// TestNoMetrics checks that maps that are not metrics are neither in the dashboard nor in the rules.
func TestNoMetrics(t *testing.T) {
	m := shapes()
	m.Maps = m.Maps[len(m.Maps)-1:]
	if _, left, err := Grafana(m, "x"); err == nil || len(left) != 1 {
		t.Error("no error for a dashboard without metrics", left)
	}
	if _, _, err := Rules(m, "x", "5m"); err == nil {
		t.Error("no error for rules without metrics")
	}
	m = shapes()
	m.Maps = m.Maps[6:8] // min
	if _, _, err := Rules(m, "x", "5m"); err == nil {
		t.Error("no error for rules for gauges")
	}
}

func TestRules(t *testing.T) {
	text, _, err := Rules(shapes(), "it's", "1h")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"# Written by btc export rules from x?.bt.\n",
		"      - record: object_args_comm:btc_it_s_keyed_hist_bytes:p99_rate1h\n        expr: 'histogram_quantile(0.99, sum by (le, object, args_comm) (rate(btc_it_s_keyed_hist_bytes_bucket{object=\"it''s\"}[1h])))'\n",
		"record: object:btc_it_s_count_bytes:rate1h\n",
		"delta(btc_it_s_avg_bytes_sum{object=\"it''s\"}[1h])) / sum by (object) (increase(",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q not found in\n%s", want, text)
		}
	}
	if strings.Contains(text, "_min") {
		t.Error("rule for a gauge")
	}
	var x map[string]any
	if data, _, _ := Grafana(shapes(), "x"); json.Unmarshal(data, &x) != nil {
		t.Error("invalid JSON")
	}
}
