// SPDX-License-Identifier: Apache-2.0

package check

import (
	"strings"

	"btc/frontend/diag"
	"btc/frontend/types"
	"btc/internal/probe"
)

// pinned: an iterator that the loader leaves in the BPF file system, for others
// to read. Its Target is the path.
func (p *Point) pinned() bool { return p.Kind == probe.Iter && p.Target != "" }

// pinnable checks a call against what the program of a pinned iterator can do: it runs
// after btrun has exited, so the kernel alone formats the output (bpf_seq_printf).
func (b *body) pinnable(c *callSite) {
	if b.sub != nil || !b.point.pinned() {
		return
	}
	switch c.Fn.Name {
	case "print", "exit", "time", "join", "cat", "system", "clear", "zero", "errorf", "warnf":
		b.fail(diag.NotInThisProbe, c.at, "%s() cannot be used in a pinned iterator: no loader is running to act on it", c.Fn.Name).
			Hint("printf() can")
		return
	case "printf":
	default:
		return
	}
	if strings.Contains(c.Format, "%.") || strings.Contains(strings.ReplaceAll(c.Format, "%%", ""), "*") {
		b.fail(
			diag.BadFormat,
			c.at,
			"the kernel prints the output of a pinned iterator, and does not support precision in formats",
		)
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
			b.fail(diag.BadFormat, c.Args[i], "the kernel prints the output of a pinned iterator, and cannot print %s with %%%s", t, conv).
				Hint("%%d, %%u, %%x of integers, %%p and %%s of strings")
		}
	}
}
