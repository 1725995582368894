// SPDX-License-Identifier: Apache-2.0

package sites

import (
	"fmt"
	"strings"
	"testing"

	"btc/internal/manifest"
)

func TestFillParts(t *testing.T) {
	tests := []struct {
		kind, parts, params, want string
	}{
		{"interval", "s $1", "3", "interval:s:3 unit=s count=3"},
		{"interval", "$1 $2", "hz 1e2", "interval:hz:100 unit=hz count=100"},
		{"interval", "$1", "250ms", "interval:us:250000 unit=us count=250000"},
		{"profile", "$1", "hz:99", "profile:hz:99 unit=hz count=99"},
		{"kprobe", "$1", "vfs_read+4", "kprobe:vfs_read+4 name=vfs_read offset=4"},
		{"kretprobe", "$2 $1", "f nf", "kretprobe:nf:f target=nf name=f"},
		{"uprobe", "$1 f$2", "/bin/x 12", "uprobe:/bin/x:f12 target=/bin/x name=f12"},
		{"uprobe", "/bin/x $1", "0x10", "uprobe:/bin/x:0x10 target=/bin/x addr=16"},
		{"usdt", "$1 p n", "/bin/x", "usdt:/bin/x:p:n target=/bin/x name=p:n"},
		{"tracepoint", "$1", "sched:sched_*", "tracepoint:sched:sched_* target=sched name=sched_*"},
		{"software", "faults $1", "5", "software:faults:5 target=faults count=5"},
		{"watchpoint", "$1 $2 w", "0x100 8", "watchpoint:0x100:8:w addr=256 len=8 mode=w"},
		{"interval", "s $1", "", "parameter $1 is not given"},
		{"interval", "s $1", "x", "is interval:s:x: Invalid rate of interval probe: invalid integer: x"},
		{"interval", "s $1", "0", "frequency should be a positive integer"},
		{"interval", "$1", "5ns", "Minimum is 1000 or 1us. Found: 5 nanoseconds"},
		{"profile", "hz $1", "1:2", "requires 1 or 2 arguments, found 3"},
		{"kprobe", "$1", "0x1234", "an address cannot be given"},
		{"tracepoint", "$1", "sched", "requires 2 arguments, found 1"},
		{"uprobe", "/a:b $1", "f", "uprobe:/a:b:f target=/a:b name=f"},
		{"watchpoint", "$1 3 w", "1", "watchpoint length"},
		{"begin", "$1", "1", "this kind of probe cannot have parameters"},
	}
	for _, tt := range tests {
		p := &manifest.Program{Kind: tt.kind, Attach: manifest.Attach{Substitute: strings.Fields(tt.parts)}}
		err := fill(p, strings.Fields(tt.params))
		a := p.Attach
		got := a.Text
		for _, f := range []struct {
			name string
			v    any
		}{{"target", a.Target}, {"name", a.Name}, {"offset", a.Offset}, {"addr", a.Addr}, {"len", a.Len}, {"mode", a.Mode}, {"unit", a.Unit}, {"count", a.Count}} {
			if s := fmt.Sprint(f.v); s != "" && s != "0" {
				got += " " + f.name + "=" + s
			}
		}
		if err != nil {
			got = err.Error()
		}
		if got != tt.want && (err == nil || !strings.Contains(got, tt.want)) {
			t.Errorf("%s %s with %q: %s, want %s", tt.kind, tt.parts, tt.params, got, tt.want)
		}
	}
}
