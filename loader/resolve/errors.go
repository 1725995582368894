// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"errors"
	"strings"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/adapt"
	"btc/loader/diag"
)

// Missing is the error for an attach point that does not exist on a kernel. The script's
// missing_probes determines the consequence.
type Missing struct {
	Text    string
	Pattern bool   // a pattern without a match
	Why     string // details, or ""
	// Foreign means that this architecture cannot have the attach point, but another one can. In a
	// script for both that is only a warning.
	Foreign bool
}

func (m *Missing) Error() string { return m.Text }

// notes returns the additional lines of the message.
func (m *Missing) notes() []string {
	if m.Why == "" {
		return nil
	}
	return []string{m.Why}
}

// NoMatch returns the error for a pattern or name without a match.
func NoMatch(kind, what string) error {
	return &Missing{Text: "No matches for " + kind + " " + what + ".", Pattern: probe.IsPattern(what)}
}

// NoFunction returns the error for a function that a file does not have; stripped is the file if its symbols were removed.
func NoFunction(kind, what, stripped string) error {
	m := &Missing{Text: "No matches for " + kind + " " + what + ".", Pattern: probe.IsPattern(what)}
	if stripped != "" {
		m.Why = stripped + " is stripped: only what it exports has a name; probe a build with symbols, or an address (" + kind + ":FILE:0x...)"
	}
	return m
}

func notLoaded(a *manifest.Attach) error {
	return &Missing{Text: "specified module " + a.Target + " in probe " + a.Text + " is not loaded."}
}

// IsMissing reports whether an error means that the attach point does not exist on the kernel.
func IsMissing(err error) bool {
	var gone *Missing
	return errors.As(err, &gone)
}

// Unknown is the error for an attach point for which the Kernel does not have enough information.
type Unknown struct{ Text string }

func (u *Unknown) Error() string { return u.Text }

// Failure is the error for an attach point that exists but cannot be attached to.
type Failure struct {
	Probe string
	Cause error
}

func (f *Failure) Error() string {
	return "Unable to attach probe: " + f.Probe + ": " + f.Cause.Error()
}
func (f *Failure) Unwrap() error { return f.Cause }

// Report formats the error with the script's position, as an error or as a skipped attach point.
func (f *Failure) Report(m *manifest.Manifest, p *manifest.Program) *diag.Error {
	out := &diag.Error{
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

// RemovedProbe is the warning for a clause whose attach points are all missing.
const RemovedProbe = "Probe has no valid attach points. " +
	"It is being removed which may cause issues with program behavior."

// expected is appended to errors that missing_probes can turn into warnings.
const expected = " If this is expected, set the 'missing_probes' config variable to 'warn'."

// NoAttachPoints is the error for such a clause.
const NoAttachPoints = "Probe has no valid attach points." + expected

// MissingHint is the hint for an attach point that does not exist.
const MissingHint = "if this is expected, set the 'missing_probes' config variable to 'warn'"

// Skipping returns the warning for a missing attach point.
func Skipping(text string) string { return strings.TrimSuffix(text, ".") + ". Skipping." }
