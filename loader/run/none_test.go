// SPDX-License-Identifier: Apache-2.0

package run

import (
	"testing"

	"btc/internal/manifest"
)

// TestNothingToRun checks the error of a script without probes for the mode.
func TestNothingToRun(t *testing.T) {
	for _, c := range []struct {
		mode  string
		kinds []string
		want  string
	}{
		{"", []string{"test", "bench"}, "No probes attached; use --test to run test probes."},
		{"", []string{"bench"}, "No probes attached; use --bench to run benchmark probes."},
		{"", []string{"begin"}, ErrNoProbes.Error()},
		{"", nil, ErrNoProbes.Error()},
		{"test", []string{"bench"}, "x.bt has no test probes"},
		{"bench", []string{"test"}, "x.bt has no bench probes"},
	} {
		s := &session{manifest: &manifest.Manifest{Script: manifest.Script{File: "x.bt"}}}
		s.opts.Mode = c.mode
		for _, kind := range c.kinds {
			s.manifest.Programs = append(s.manifest.Programs, manifest.Program{Kind: kind})
		}
		if err := s.errNone(); err.Error() != c.want {
			t.Errorf("mode %q of %q: %v, want %s", c.mode, c.kinds, err, c.want)
		}
	}
}
