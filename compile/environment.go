// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"slices"
	"strconv"
	"strings"

	"btc/frontend/ast"
	"btc/frontend/check"
	"btc/frontend/diag"
)

// withEnvironment adds the settings of environment variables ("BPFTRACE_KEY=value", as returned by os.Environ) to a
// script. They override its config block.
func withEnvironment(script *ast.Script, environ []string) *ast.Script {
	keys := check.ConfigKeys()
	block := &ast.Config{Extent: script.Extent}
	for _, v := range slices.Sorted(slices.Values(environ)) {
		name, value, _ := strings.Cut(v, "=")
		key, ours := strings.CutPrefix(name, "BPFTRACE_")
		if key = strings.ToLower(key); !ours || !slices.Contains(keys, key) {
			continue
		}
		src := diag.NewSource("$"+name, value)
		at := ast.Ext(src.Span(0, len(value)))
		block.Entries = append(block.Entries,
			&ast.ConfigEntry{Extent: at, Key: &ast.Name{Extent: at, Text: key}, Value: setting(value, at)})
	}
	if len(block.Entries) == 0 {
		return script
	}
	out := *script
	out.Header = append(slices.Clone(script.Header), block)
	return &out
}

// setting returns the value of a setting in the config block's syntax.
func setting(text string, at ast.Extent) ast.Expr {
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return &ast.IntLit{Extent: at, Text: text, Value: n}
	}
	if text == "true" || text == "false" {
		return &ast.BoolLit{Extent: at, Value: text == "true"}
	}
	return &ast.StringLit{Extent: at, Text: strconv.Quote(text), Value: text}
}
