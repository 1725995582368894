// SPDX-License-Identifier: Apache-2.0

package check

import (
	"strings"

	"btc/frontend/diag"
	"btc/frontend/types"
	"btc/internal/probe"
)

// pinned reports whether p is an iterator that the loader pins in the BPF file system, for other programs to read.
// Target is the path.
func (p *Point) pinned() bool { return p.Kind == probe.Iter && p.Target != "" }

// pinnable checks that a pinned iterator can run a call: it runs after btrun has exited, so the kernel formats the
// output (bpf_seq_printf).
func (b *body) pinnable(c *callSite) {
	if b.sub != nil || !b.point.pinned() {
		return
	}
	switch c.Fn.Name {
	case "print", "exit", "time", "join", "cat", "system", "clear", "zero", "errorf", "warnf":
		b.fail(diag.NotInThisProbe, c.at, "%s() cannot be used in a pinned iterator: btrun has exited when it runs", c.Fn.Name).
			Hint("printf() can")
		return
	case "printf":
	default:
		return
	}
	if strings.Contains(c.Format, "%.") || strings.Contains(strings.ReplaceAll(c.Format, "%%", ""), "*") {
		b.fail(diag.BadFormat, c.at,
			"the kernel formats the output of a pinned iterator, and does not support precision")
		return
	}
	for i, conv := range conversions(c.Format) {
		if i >= len(c.Args) || b.out.exprs[c.Args[i]] == nil {
			return // reported
		}
		t := b.out.exprs[c.Args[i]].Type
		ok := t.IsInteger() || t.Kind == types.Pointer || t.Kind == types.Bool
		switch conv {
		case "d", "i", "u", "x", "p":
		case "s":
			ok = t.Kind == types.String
		default:
			ok = false
		}
		if !ok {
			b.fail(diag.BadFormat, c.Args[i], "the kernel formats the output of a pinned iterator, and cannot print %s with %%%s", t, conv).
				Hint("use %%d, %%u or %%x for integers, %%p for addresses, %%s for strings")
		}
	}
}
