// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"strings"

	"btc/internal/manifest"
	"btc/loader/adapt"
	"btc/loader/report"
)

// Failure is an attach point that is there and that cannot be attached to.
type Failure struct {
	Probe string
	Cause error
}

func (f *Failure) Error() string {
	return "Unable to attach probe: " + f.Probe + ": " + f.Cause.Error()
}
func (f *Failure) Unwrap() error { return f.Cause }

// report describes it in the script's terms: as an error, or as a skipped attach point.
func (f *Failure) report(m *manifest.Manifest, p *manifest.Program) *report.Error {
	out := &report.Error{
		Script: &m.Script,
		Pos:    p.Pos,
		Text:   "Unable to attach probe: " + f.Probe + "." + expected,
		Cause:  f,
	}
	if adapt.Mode(p) != "error" {
		out.Text = "Unable to attach probe: " + f.Probe + ". Skipping."
	}
	out.Notes = strings.Split(f.Cause.Error(), "\n")
	return out
}

// Outcome is what becomes of an attach point that could not be attached to, by the
// script's missing_probes: an error that ends the run, a warning, or neither.
// absent reports whether it does not exist here.
func Outcome(
	m *manifest.Manifest,
	p *manifest.Program,
	err error,
	unsafe bool,
) (warning string, absent bool, fatal error) {
	f := &report.Error{Script: &m.Script, Pos: p.Pos, Text: err.Error(), Cause: err}
	var failed *Failure
	switch {
	case outOfRoom(err): // nothing that the script can expect
		return "", false, f
	case IsMissing(err):
		absent = true
		if adapt.Mode(p) != "error" || adapt.Searched(p) || !unsafe {
			f.Text = errors.Unwrap(err).Error()
		}
		f.Hint = missingHint
		if adapt.Mode(p) == "warn" || adapt.Mode(p) == "error" && adapt.Searched(p) {
			f.Text, f.Hint = Skipping(f.Text), ""
		}
	case errors.As(err, &failed):
		f = failed.report(m, p)
	default:
		return "", false, f
	}
	switch {
	case adapt.Mode(p) == "ignore":
		return "", absent, nil
	case adapt.Mode(p) == "warn" || absent && adapt.Searched(p):
		return f.Warning(), absent, nil
	}
	return "", absent, f
}

const missingHint = "if this is expected, set the 'missing_probes' config variable to 'warn'"
