// SPDX-License-Identifier: Apache-2.0

package sites

import (
	"fmt"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/permit"
	"btc/loader/symbols"
)

// allowHint follows messages about sites of which a file proves too little.
const allowHint = "\nAllow it with --allow probe-address, or everything with --unsafe. WARNING: This option could lead to data corruption in the target process."

// unproved is the error for a site that needs the permission to probe by address.
type unproved struct{ error }

func (u *unproved) Unwrap() error { return probesUnproved }

var probesUnproved = permit.Refused{Action: &permit.Action{Permission: permit.ProbeAddress, What: "probes a program by address"}}

// atStart returns an error for a uretprobe that is not at the start of a function.
func atStart(p *manifest.Program, s *symbols.Function, off uint64) error {
	if p.Kind == probe.Uretprobe && off > 0 {
		return fmt.Errorf("uretprobes cannot be attached at function offset. (address resolved to: %s+%d)", s.Name, off)
	}
	return nil
}

// checkSite returns an error unless the file proves that an instruction begins at a site and, for a uretprobe, that
// calls enter a function there. The kernel checks neither: it writes a breakpoint over any byte, and replaces the word
// where an entry has its return address. With --allow probe-address it is a warning.
func (x *expander) checkSite(p *manifest.Program, what string, s symbols.Site) error {
	var warning string
	var err error
	switch {
	case s.Inside:
		warning = "Unsafe " + p.Kind + " in the middle of the instruction: " + what
		//lint:ignore ST1005 bpftrace's words
		err = fmt.Errorf("Could not add %s into middle of instruction: %s%s", p.Kind, what, unsafeHint)
	case !s.Start:
		warning = "Unchecked " + p.Kind + ": " + what
		//lint:ignore ST1005 bpftrace's words
		err = fmt.Errorf("Failed to check if %s is in proper place: %s (nothing in the file proves that an instruction begins there)%s", p.Kind, what, allowHint)
	case p.Kind == probe.Uretprobe && !s.Entry:
		warning = "Unchecked " + p.Kind + ": " + what
		//lint:ignore ST1005 bpftrace's words
		err = fmt.Errorf("Failed to check if %s is in proper place: %s (nothing in the file proves that calls enter a function there)%s", p.Kind, what, allowHint)
	default:
		return nil
	}
	if !x.opts.Unsafe {
		return &unproved{err}
	}
	x.warn(p, warning)
	return nil
}
