// SPDX-License-Identifier: Apache-2.0

package check

import (
	"btc/frontend/ast"
	"btc/frontend/diag"
)

// oldNames are builtins of the language's first year, when only the kernel had
// stacks and symbols, by the names that they have now.
var oldNames = map[string]string{"stack": "kstack", "sym": "ksym"}

// oldName is builtin for an old name. It warns.
func (b *body) oldName(at ast.Expr, name string, args []ast.Expr, e *Expr) bool {
	now, ok := oldNames[name]
	if !ok || !b.builtin(at, now, args, e) {
		return false
	}
	b.fail(diag.Deprecated, at, "%s is deprecated and has been renamed to %s", name, now).Hint("write %s", now)
	return true
}
