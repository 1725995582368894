// SPDX-License-Identifier: Apache-2.0

package kernel

import "btc/internal/spell"

// SuggestFunc returns the traceable function that a misspelt name most probably means, or
// "". It decodes all function names (some 20 ms): for error messages only.
func (t *Target) SuggestFunc(name string) string { return spell.Nearest(name, t.Funcs("*")) }

// SuggestTracepoint returns the event, as "category:event", that a misspelt one most
// probably means, or "".
func (t *Target) SuggestTracepoint(category, event string) string {
	return spell.Nearest(category+":"+event, t.Tracepoints("*", "*"))
}

// SuggestStruct returns the struct tag that a misspelt one most probably means, or "".
func (t *Target) SuggestStruct(name string) string { return spell.Nearest(name, t.StructNames("*")) }
