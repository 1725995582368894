// SPDX-License-Identifier: Apache-2.0

package check

import (
	"strings"

	"btc/frontend/ast"
	"btc/frontend/diag"
)

// uniqueName reports a second test or benchmark with the same name.
func (c *checker) uniqueName(p *Point, ap *ast.AttachPoint) bool {
	for _, other := range c.info.Programs {
		if other.Point.Kind == p.Kind && other.Point.Name == p.Name {
			c.fail(diag.BadAttachPoint, ap, "%q was used as the name for more than one %s probe", p.Name, strings.ToUpper(p.Kind)).
				Note(other.Point.At, "this is the other instance")
			return false
		}
	}
	return true
}
