// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"btc/internal/manifest"
	"btc/loader/resolve"
)

// TestOutcome checks what a failure means for the run, by the script's missing_probes and whether the probe's name is
// looked up like a pattern.
func TestOutcome(t *testing.T) {
	missing := fmt.Errorf("cannot attach kprobe:f: %w", &resolve.Missing{Text: "No matches for kprobe f."})
	failure := &resolve.Failure{Probe: "kprobe:f", Cause: errors.New("it is inlined")}
	full := fmt.Errorf("perf event: %w", unix.EMFILE)
	for _, c := range []struct {
		what, mode     string
		err            error
		usesID, unsafe bool
		warning, fatal string // parts; "" for none
		absent         bool
	}{
		{"missing", "", missing, false, false, "", "No matches for kprobe f.", true},
		{"missing, unsafe", "", missing, false, true, "", "cannot attach kprobe:f: No matches for kprobe f.", true},
		{"missing, by name", "", missing, true, false, "No matches for kprobe f. Skipping.", "", true},
		{"missing, by name, unsafe", "", missing, true, true, "No matches for kprobe f. Skipping.", "", true},
		{"missing, warn", "warn", missing, false, false, "No matches for kprobe f. Skipping.", "", true},
		{"missing, ignore", "ignore", missing, false, false, "", "", true},
		{"failure", "", failure, false, false, "", "Unable to attach probe: kprobe:f.", false},
		{"failure, by name", "", failure, true, false, "", "Unable to attach probe: kprobe:f.", false},
		{"failure, warn", "warn", failure, false, false, "Unable to attach probe: kprobe:f. Skipping.", "", false},
		{"failure, ignore", "ignore", failure, false, false, "", "", false},
		{"other error", "", errors.New("no permission"), false, false, "", "no permission", false},
		{"other error, warn", "warn", errors.New("no permission"), false, false, "", "no permission", false},
		{"no room", "ignore", full, false, false, "", "perf event: too many open files", false},
	} {
		p := &manifest.Program{Kind: "kprobe", UsesID: c.usesID, Attach: manifest.Attach{Text: "kprobe:f", Missing: c.mode}, Pos: manifest.Pos{Line: 2, Col: 1}}
		m := &manifest.Manifest{Script: manifest.Script{File: "x.bt", Source: "\nkprobe:f { }\n"}}
		warning, absent, fatal := Outcome(m, p, c.err, c.unsafe)
		text := ""
		if fatal != nil {
			text = fatal.Error()
		}
		if !strings.Contains(warning, c.warning) || (warning == "") != (c.warning == "") || !strings.Contains(text, c.fatal) || (text == "") != (c.fatal == "") || absent != c.absent {
			t.Errorf("%s: warning %q, absent %v, error %q; want %q, %v, %q", c.what, warning, absent, text, c.warning, c.absent, c.fatal)
		}
		if fatal != nil && !errors.Is(fatal, errors.Unwrap(c.err)) && errors.Unwrap(c.err) != nil {
			t.Errorf("%s: the cause is lost", c.what)
		}
	}
}
