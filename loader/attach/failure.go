// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"

	"btc/internal/manifest"
	"btc/loader/adapt"
	"btc/loader/diag"
	"btc/loader/resolve"
)

// Outcome returns the consequence of a failure to attach, according to the script's missing_probes: an error that ends
// the run, a warning, or neither. absent reports whether it does not exist here.
func Outcome(m *manifest.Manifest, p *manifest.Program, err error,
	unsafe bool) (warning string, absent bool, fatal error) {
	f := &diag.Error{Script: &m.Script, Pos: p.Pos, Text: err.Error(), Cause: err}
	var failed *resolve.Failure
	switch {
	case outOfRoom(err): // not something that a script can expect
		return "", false, f
	case resolve.IsMissing(err):
		absent = true
		if adapt.Mode(p) != "error" || adapt.Searched(p) || !unsafe {
			f.Text = errors.Unwrap(err).Error()
		}
		f.Hint = resolve.MissingHint
		if adapt.Mode(p) == "warn" || adapt.Mode(p) == "error" && adapt.Searched(p) {
			f.Text, f.Hint = resolve.Skipping(f.Text), ""
		}
	case errors.As(err, &failed):
		f = failed.Report(m, p)
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
