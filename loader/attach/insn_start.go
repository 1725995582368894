// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"fmt"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/symbols"
)

// checkInsnStart returns an error if no instruction starts off bytes after a function's start: the kernel would still
// write a breakpoint there, and the process would misbehave. With --unsafe it is a warning.
func (x *expander) checkInsnStart(p *manifest.Program, path string, s *symbols.Function, off uint64) error {
	if p.Kind == probe.Uretprobe {
		return fmt.Errorf("uretprobes cannot be attached at function offset. (address resolved to: %s+%d)", s.Name, off)
	}
	what := fmt.Sprintf("%s:%s+%d", path, s.Name, off)
	switch {
	case s.At:
	case x.opts.Unsafe && s.Unchecked != "":
		x.warn(p, "Unchecked "+p.Kind+": "+what)
	case x.opts.Unsafe:
		x.warn(p, "Unsafe "+p.Kind+" in the middle of the instruction: "+what)
	case s.Unchecked != "":
		//lint:ignore ST1005 bpftrace's words
		return fmt.Errorf("Failed to check if %s is in proper place: %s (%s)%s", p.Kind, what, s.Unchecked, unsafeHint)
	default:
		//lint:ignore ST1005 bpftrace's words
		return fmt.Errorf("Could not add %s into middle of instruction: %s%s", p.Kind, what, unsafeHint)
	}
	return nil
}
