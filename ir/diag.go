// SPDX-License-Identifier: Apache-2.0

package ir

import (
	"fmt"
	"strings"
)

// Diag is an error in the script that is found after checking: too much stack, an unbounded
// loop, an access that no instruction expresses. Passes that can refuse return []Diag, the
// backend returns one as its error, and the driver prints them like the checker's. A broken
// invariant is a panic that begins with "BUG:" instead.
type Diag struct {
	Pos  Pos
	Text string // one sentence, lower case, no full stop
	Hint string // what the user can do about it; may be empty
}

func (d Diag) Error() string {
	if d.Pos.Line == 0 {
		return d.Text
	}
	return fmt.Sprintf("%d:%d: %s", d.Pos.Line, d.Pos.Col, d.Text)
}

// Diags are several errors as one.
type Diags []Diag

func (all Diags) Error() string {
	lines := make([]string, len(all))
	for i, d := range all {
		lines[i] = d.Error()
	}
	return strings.Join(lines, "\n")
}
