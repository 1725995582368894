// SPDX-License-Identifier: Apache-2.0

package sites

import (
	"slices"
	"strings"
	"testing"

	"btc/internal/kernelfs"
)

func TestList(t *testing.T) {
	h := look(t)
	for _, c := range []struct {
		pattern string
		want    []string
	}{
		{"software:cpu*", []string{"software:cpu-clock:", "software:cpu-migrations:", "software:cpu:"}},
		{"s:dummy", []string{"software:dummy:"}},
		{"Interval:*", []string{"interval:hz:", "interval:ms:", "interval:s:", "interval:us:"}},
		{"software:no-such*", nil},
	} {
		have, err := List(h, c.pattern, Options{})
		if err != nil || !slices.Equal(have, c.want) {
			t.Errorf("%s: list %q, error = %v; want %q", c.pattern, have, err, c.want)
		}
	}
	for pattern, want := range map[string]string{
		"nokind:*":             "unknown kind of probe nokind",
		"usdt:/etc/passwd:a:b": "bad magic number",
		"usdt:nofile":          "needs -p",
	} {
		if _, err := List(h, pattern, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error = %v, want %q", pattern, err, want)
		}
	}
}

func TestListTracepoints(t *testing.T) {
	if dir, err := kernelfs.Tracefs(); err != nil || !canTrace(dir, "sched", "sched_switch") {
		t.Skip("skipped: cannot read tracefs")
	}
	have, err := List(look(t), "t:sched:sched_swi*", Options{})
	if err != nil || !slices.Equal(have, []string{"tracepoint:sched:sched_switch"}) {
		t.Errorf("list %q, error = %v", have, err)
	}
}
