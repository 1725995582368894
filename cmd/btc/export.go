// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"

	"btc/cmd/btc/export"
	"btc/internal/manifest"
	"btc/internal/option"
	"btc/loader/metrics"
	"btc/loader/object"
)

// exportCommand writes configurations for other programs that run objects or show their metrics.
func exportCommand() *command {
	return &command{
		name:     "export",
		operands: "PROGRAM ...",
		summary:  "write the configuration for another program that runs an object or shows its metrics",
		sub:      []*command{exportEBPFExporter(), exportGadget(), exportGrafana(), exportRules()},
	}
}

func exportEBPFExporter() *command {
	return &command{
		name: "ebpf_exporter", operands: "FILE.o", summary: "write the YAML file with which ebpf_exporter exports an object's counters", files: []string{"o"},
		about: "ebpf_exporter reads NAME.yaml and NAME.bpf.o from one directory. Counts and sums become counters; anything it " +
			"cannot show is listed on standard error. See docs/loaders.md.",
		run: func(line *option.Line) int {
			operands := line.All()
			if len(operands) != 1 {
				return fail("expected one object: FILE.o from `btc compile`")
			}
			o, err := object.Read(operands[0])
			if err != nil {
				return fail("%v", err)
			}
			text, left, err := export.EBPFExporter(o.Manifest)
			for _, l := range left {
				fmt.Fprintf(os.Stderr, "btc: omitted: %s\n", l)
			}
			if err != nil {
				return fail("%s: %v", operands[0], err)
			}
			fmt.Print(text)
			return 0
		},
	}
}

func exportGrafana() *command {
	return &command{
		name: "grafana", operands: "FILE.o", summary: "write a Grafana dashboard for the metrics of an object", files: []string{"o"},
		about: "The dashboard shows the metrics that btrun -f prometheus and -f openmetrics write. When it is imported, " +
			"Grafana asks for a Prometheus data source. See docs/howto/fleet.md.",
		run: func(line *option.Line) int { return exportMetrics(line, export.Grafana) },
	}
}

func exportRules() *command {
	window := "5m"
	return &command{
		name: "rules", operands: "FILE.o", summary: "write Prometheus recording rules for the metrics of an object", files: []string{"o"},
		about: "The rules compute rates, averages and quantiles over all hosts, in total and by key. Add the file to " +
			"rule_files in Prometheus' configuration.",
		options: option.Table{{Name: "window", Value: "TIME", To: func(text string) error {
			if !promDuration().MatchString(text) {
				return fmt.Errorf("--window: %q is not a time such as 5m or 1h", text)
			}
			window = text
			return nil
		}, Help: "time over which rates are computed, at least four times the interval of --every; default: 5m"}},
		run: func(line *option.Line) int {
			return exportMetrics(line, func(m *manifest.Manifest, object string) ([]byte, []string, error) {
				text, left, err := export.Rules(m, object, window)
				return []byte(text), left, err
			})
		},
	}
}

// promDuration matches a PromQL duration with a single unit.
var promDuration = pattern(`^[1-9][0-9]*(s|m|h|d|w|y)$`)

// exportMetrics writes the result of make for the metrics of an object.
func exportMetrics(line *option.Line, make func(m *manifest.Manifest, object string) ([]byte, []string, error)) int {
	operands := line.All()
	if len(operands) != 1 {
		return fail("expected one object: FILE.o from `btc compile`")
	}
	m, err := object.ReadManifest(operands[0])
	if err != nil {
		return fail("%v", err)
	}
	data, left, err := make(m, metrics.ObjectName(operands[0]))
	for _, l := range left {
		fmt.Fprintf(os.Stderr, "btc: omitted: %s: its values are not numbers\n", l)
	}
	if err != nil {
		return fail("%s: %v", operands[0], err)
	}
	os.Stdout.Write(data)
	return 0
}
