// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"btc/cmd/btc/cost"
	"btc/internal/manifest"
	"btc/internal/probe"
)

func TestRates(t *testing.T) {
	c := new(coster)
	for _, text := range []string{"100k/s", "kprobe:vfs_*=2.5M/s", "kprobe:vfs_write=10/s"} {
		if err := c.addRate(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"", "100", "100k", "k/s", "-1/s", "1e3/s", "=5/s", "NaN/s", "1.2.3/s", "9999G/s"} {
		if err := new(coster).addRate(text); err == nil {
			t.Errorf("no error for %q", text)
		}
	}
	m := &manifest.Manifest{Programs: []manifest.Program{
		{Name: "i", Kind: probe.Interval, Attach: manifest.Attach{Unit: "ms", Count: 10}},
		{Name: "p", Kind: probe.Profile, Attach: manifest.Attach{Unit: "hz", Count: 99}},
	}}
	for _, x := range []struct {
		p    cost.Program
		want float64
	}{
		{cost.Program{Probe: "tracepoint:a:b", Kind: probe.Tracepoint}, 100e3},
		{cost.Program{Probe: "kprobe:vfs_read", Kind: probe.Kprobe}, 2.5e6},
		{cost.Program{Probe: "kprobe:vfs_write", Kind: probe.Kprobe}, 10},
		{cost.Program{Name: "i", Probe: "interval:ms:10", Kind: probe.Interval}, 100}, // a timer has its own rate
		{cost.Program{Name: "p", Probe: "profile:hz:99", Kind: probe.Profile}, 99},
	} {
		if have := c.rateOf(&x.p, m); have != x.want {
			t.Errorf("%s: %v events per second, want %v", x.p.Probe, have, x.want)
		}
	}
}
