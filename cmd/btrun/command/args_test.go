// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"btc/btrace"
	"btc/loader/options"
)

// commandOnly are the options that are not those of a run or of its report.
var commandOnly = []string{"verify", "color", "output", "record", "rotate", "keep", "inspect", "remote", "list", "capture", "tools", "help", "version", "parameters", "request-reload"}

// TestOptionsReachRun checks that each other option of the table changes the options of a run or of its report.
func TestOptionsReachRun(t *testing.T) {
	file := t.TempDir()
	values := map[string]string{
		"pid": "1", "cgroup": "/", "container": "x", "pod": "x", "command": "true", "timeout": "5s", "max-events": "5", "btf": file,
		"traceable-functions": file, "every": "5s", "max-series": "5", "buckets": "1us..1s", "top": "5", "allow": "system", "max-memory": "5M", "budget": "5%", "reload": "x", "map": "@m", "unwind-cache": "x", "raw-stacks": "5,50", "why": "5s",
	}
	needs := map[string][]string{"follow-forks": {"-p1"}, "wait": {"--container=x"}, "max-series": {"-fprometheus"}, "buckets": {"-fprometheus"}, "map": {"-ffolded"}, "symbolize": {"-fjson2"}, "rate": {"--every=1s"}}
	t.Setenv("BPFTRACE_BTF", "")
	parsed := func(args ...string) string {
		t.Helper()
		o, err := parseArgs(append(args, "x.o"), nil)
		if err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		o.Run.Getenv, o.Process = nil, nil // functions and pointers differ
		return fmt.Sprintf("%+v %+v", o.Run, o.Report)
	}
	for _, row := range new(options.Values).Table() {
		if slices.Contains(commandOnly, row.Name) {
			continue
		}
		option := "--" + row.Name
		if row.Value != "" {
			value := values[row.Name]
			if n := len(row.Choices); value == "" && n > 0 {
				value = row.Choices[n-1].Name // the first is the default
			}
			if value == "" {
				t.Errorf("%s: the test has no value for it", option)
				continue
			}
			option += "=" + value
		}
		with := needs[row.Name]
		if parsed(with...) == parsed(append(slices.Clone(with), option)...) {
			t.Errorf("%s changes no option of a run", option)
		}
	}
}

// TestArgumentsReachRun checks the parameters of a script.
func TestArgumentsReachRun(t *testing.T) {
	o, err := parseArgs([]string{"x.o", "1", "two", "--", "3", "--name=value", "--flag", "4", "--limit", "5"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	o.scriptArgs([]btrace.Param{{Name: "flag", Type: "bool"}, {Name: "limit", Type: "int"}})
	if !slices.Equal(o.Args, []string{"1", "two", "3", "4"}) || !reflect.DeepEqual(o.Params, map[string]string{"name": "value", "flag": "true", "limit": "5"}) {
		t.Errorf("arguments %q, parameters %q", o.Args, o.Params)
	}
}
