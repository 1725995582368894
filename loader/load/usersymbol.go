// SPDX-License-Identifier: Apache-2.0

package load

import (
	"fmt"
	"slices"

	"btc/loader/resolve"
	"btc/loader/sites"
)

// userSymbol returns the distance of a symbol of the probed file from the probe (fromProbe), or from the first byte of
// the file's code, which is mm.start_code in a process that runs the file.
func userSymbol(exp *sites.Expansion, program, symbol string, fromProbe bool) (uint64, error) {
	i := slices.IndexFunc(exp.Plans, func(p resolve.Plan) bool { return p.Prog.Name == program })
	if i < 0 || len(exp.Plans[i].Matches) == 0 {
		return 0, nil // a missing probe that is skipped
	}
	matches := exp.Plans[i].Matches
	first := matches[0]
	for _, m := range matches[1:] {
		if m.Path != first.Path || fromProbe && m.Offset != first.Offset {
			return 0, fmt.Errorf("uaddr() needs a probe with a single attach site, but this one has %d", len(matches))
		}
	}
	a, err := exp.Address(&first, symbol)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%s: %w", first.Path, err)
	case !a.Known:
		//lint:ignore ST1005 bpftrace's words
		return 0, fmt.Errorf("Could not resolve symbol: %s:%s", first.Path, symbol)
	case !fromProbe && a.HasCodeStart && !a.Program:
		return 0, fmt.Errorf("uaddr() in a uretprobe or usdt probe works only for programs, and %s is a library",
			first.Path)
	case fromProbe && a.HasFrom:
		return a.Value - a.From, nil
	case !fromProbe && a.HasCodeStart:
		return a.Value - a.CodeStart, nil
	}
	return 0, fmt.Errorf("%s has no code there", first.Path)
}
