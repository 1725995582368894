// SPDX-License-Identifier: Apache-2.0

package parse

import (
	"fmt"
	"strings"
	"testing"

	"btc/frontend/diag"
)

func TestAttachPoint(t *testing.T) {
	tests := []struct{ text, provider, parts string }{
		{"kprobe:f", "kprobe", "kprobe|f"},
		{"Kprobe:f", "kprobe", "Kprobe|f"},
		{"k:mod:f+0x10", "kprobe", "k|mod|f+0x10"},
		{"kfunc:f", "fentry", "kfunc|f"},
		{"BEGIN", "begin", "BEGIN"},
		{"u:/bin/a:f", "uprobe", "u|/bin/a|f"},
		{"U:/bin/a:f", "usdt", "U|/bin/a|f"},
		{"usdt::ns:name", "usdt", "usdt||ns|name"},
		{`uprobe:/bin/a:"net.(*conn).Write:x\"y"+4`, "uprobe", `uprobe|/bin/a|net.(*conn).Write:x"y+4 quoted`},
		{"uprobe:/bin/a*:cpp:f*", "uprobe", "uprobe|/bin/a* wild|cpp|f* wild"},
		{"uprobe:./bin@src/main.c:12:3", "uprobe", "uprobe|./bin|src/main.c:12:3 location"},
		{"tracepoint:syscalls:sys_enter_*", "tracepoint", "tracepoint|syscalls|sys_enter_* wild"},
		{"tracepoint:*", "tracepoint", "tracepoint|* wild"},
		{"interval:s:$1", "interval", "interval|s|$1 params[1]"},
		{`usdt:$2:"$1"`, "usdt", "usdt|$2 params[2]|$1 quoted"},
		{"$1", "", "$1 params[1]"},
		{"BEG$1", "", "BEG$1 params[1]"},
		{"k*:vmlinux:f", "", "k* wild|vmlinux|f"},
		{"name=profile:hz:99", "profile", "profile|hz|99"},
	}
	for _, tt := range tests {
		src := diag.NewSource("t", tt.text)
		var l diag.List
		ap := AttachPoint(src.Span(0, len(tt.text)), &l)
		if l.Len() > 0 {
			t.Errorf("unexpected errors: %v", l.Err())
		}
		var parts []string
		for _, p := range ap.Parts {
			s := p.Text
			if p.Wildcard {
				s += " wild"
			}
			if p.Quoted {
				s += " quoted"
			}
			if p.Location {
				s += " location"
			}
			if len(p.Params) > 0 {
				s += fmt.Sprint(" params", p.Params)
			}
			parts = append(parts, s)
		}
		if got := strings.Join(parts, "|"); got != tt.parts || ap.Provider != tt.provider {
			t.Errorf("%s: provider %q, parts %s, want %q, %s", tt.text, ap.Provider, got, tt.provider, tt.parts)
		}
		if label, _, ok := strings.Cut(tt.text, "="); ok && (ap.Label == nil || ap.Label.Text != label || ap.Raw != "profile:hz:99") {
			t.Errorf("%s: label %v, raw %s", tt.text, ap.Label, ap.Raw)
		}
	}
}
