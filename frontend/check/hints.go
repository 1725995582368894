// SPDX-License-Identifier: Apache-2.0

package check

import (
	"strings"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/frontend/types"
)

// otherProbe suggests a probe that has the value that this one lacks: arguments at the entry of a function, the
// return value at its return.
func (p *Point) otherProbe(what string) string {
	kernel, user := "fexit:"+p.Name, strings.Replace(p.Text, p.Kind, "uretprobe", 1)
	if p.Name == "" {
		return ""
	}
	switch what + " " + p.Kind {
	case "args kprobe":
		return "a kprobe has arg0, arg1, ...; fentry:" + p.Name + " has named, typed args"
	case "args kretprobe":
		return kernel + " has named, typed args and retval"
	case "retval kprobe":
		return "kretprobe:" + p.Name + " and " + kernel + " have it: the function has not run yet here"
	case "retval uprobe":
		return user + " has it: the function has not run yet here"
	case "arg kretprobe":
		return kernel + " has args and retval; or keep it: kprobe:" + p.Name + " { @a[tid] = arg0; }"
	case "arg uretprobe":
		return "keep it: " + strings.Replace(p.Text, p.Kind, "uprobe", 1) + " { @a[tid] = arg0; }"
	case "arg fentry", "arg fexit":
		return p.Kind + " has named args: args.name"
	case "arg tracepoint":
		return "a tracepoint has named args: args.name"
	}
	return ""
}

// hinted adds a hint unless it is empty.
func hinted(d *diag.Diagnostic, hint string) {
	if hint != "" {
		d.Hint("%s", hint)
	}
}

// quotesMissing adds a hint to the message about an unknown name that is compared with a
// string.
func (b *body) quotesMissing(x *ast.Binary, left, right *types.Type) {
	for _, side := range []struct {
		x     ast.Expr
		other *types.Type
	}{{x.X, right}, {x.Y, left}} {
		if id, ok := ast.Unparen(side.x).(*ast.Ident); ok && side.other.Kind == types.String && b.unknown.at == id {
			b.unknown.diag.Hint("string literals need double quotes: \"%s\"", id.Name)
		}
	}
}
