// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"strings"
	"testing"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/why"
	"btc/targets/kernel"
)

// TestNotes checks that the facts about attach points are those of --why, in its words.
func TestNotes(t *testing.T) {
	attach := func(kind, target, name string) manifest.Program {
		return manifest.Program{Kind: kind, Attach: manifest.Attach{Text: kind + ":" + target + ":" + name, Target: target, Name: name}}
	}
	m := &manifest.Manifest{Programs: []manifest.Program{
		attach(probe.Tracepoint, "syscalls", "sys_enter_open"), attach(probe.Tracepoint, "syscalls", "sys_exit_open"),
		attach(probe.Tracepoint, "syscalls", "sys_enter_openat"), attach(probe.Tracepoint, "sched", "sys_exit_time"),
		attach(probe.Uprobe, "./x", "f"), attach(probe.Uprobe, "./x", "g"),
	}}
	m.Programs[4].Attach.Calls = &manifest.Calls{Sites: 5, Inlined: 3, In: []string{"bar", "baz"}}
	m.Programs[5].Attach.Calls = &manifest.Calls{Sites: 5}
	r := &Report{}
	for i := range m.Programs {
		r.note(m, &m.Programs[i], why.Known(siteOf(&m.Programs[i])))
	}
	var got []string
	for _, n := range r.Notes {
		got = append(got, n.Text)
	}
	want := `tracepoint:syscalls:sys_exit_open may miss calls: glibc makes the system call openat where programs call open(); trace tracepoint:syscalls:sys_exit_openat as well
uprobe:./x:f may miss calls: 3 of its 5 call sites in the debug information of ./x are inlined (in bar, baz): probe those`
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}

	// A function with copies in the target.
	target, err := kernel.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	name, all := "", map[string]bool{}
	for _, f := range target.Traceable() {
		all[f.Name] = true
	}
	for symbol := range all {
		if base, _, _ := strings.Cut(symbol, "."); base != symbol && all[base] && why.IsCopy(symbol, base) {
			name = base
		}
	}
	if name == "" {
		t.Fatal("the target has no function with copies")
	}
	for verdict, want := range map[Verdict]int{OK: 1, Skipped: 0} {
		c := &checker{t: target, r: &Report{Programs: []Program{{Verdict: verdict}}}, m: &manifest.Manifest{Programs: []manifest.Program{attach(probe.Kprobe, "", name)}}}
		c.notes()
		if len(c.r.Notes) != want || want > 0 && !strings.Contains(c.r.Notes[0].Text, "may miss calls: the kernel also has "+name+".") {
			t.Errorf("%s, %s: %v", name, verdict, c.r.Notes)
		}
	}
}
