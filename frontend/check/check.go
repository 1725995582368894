package check

import (
	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/ir/target"
)

// Check checks a script for a target. Errors and warnings go to l; when l has
// errors afterwards, the Info must not be built from.
func Check(script *ast.Script, t *target.Target, l *diag.List) *Info {
	return &Info{Script: script, Target: t}
}
