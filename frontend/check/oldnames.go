// SPDX-License-Identifier: Apache-2.0

package check

import (
	"btc/frontend/ast"
	"btc/frontend/diag"
)

// oldNames maps names of builtins from the language's first year, when stacks and symbols were the kernel's only, to
// their current names.
var oldNames = map[string]string{"stack": "kstack", "sym": "ksym"}

// oldName types a use of an old name like builtin, with a warning.
func (b *body) oldName(at ast.Expr, name string, args []ast.Expr, e *Expr) bool {
	now, ok := oldNames[name]
	if !ok || !b.builtin(at, now, args, e) {
		return false
	}
	b.fail(diag.Deprecated, at, "%s is deprecated and has been renamed to %s", name, now).Hint("write %s", now)
	return true
}
