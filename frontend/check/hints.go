// SPDX-License-Identifier: Apache-2.0

package check

import (
	"strings"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/frontend/types"
)

// usage describes the calls of functions with several or unusual arguments.
var usage = map[string]string{
	"count": "@x = count()", "sum": "@x = sum(number)", "avg": "@x = avg(number)", "min": "@x = min(number)",
	"max": "@x = max(number)", "stats": "@x = stats(number)", "hist": "@x = hist(number) or hist(number, bits)",
	"lhist":   "@x = lhist(number, min, max, step)",
	"tseries": "@x = tseries(number, interval, intervals[, aggregation]), as in tseries(1, 1s, 10)",
	"str":     "str(pointer[, length])", "buf": "buf(pointer or array[, length])",
	"strncmp": "strncmp(string, string, length), which is 0 for equal strings", "strcontains": "strcontains(haystack, needle)",
	"strftime": `strftime("%H:%M:%S", nsecs)`, "ntop": "ntop([family, ]address)",
	"printf": `printf("format", values...)`, "print": "print(value), print(@map) or print(@map, top, divisor)",
	"delete": "delete(@map, key)", "has_key": "has_key(@map, key)", "clear": "clear(@map)", "zero": "zero(@map)",
	"len": "len(@map)", "stack_len": "stack_len(kstack)", "join": "join(argv[, separator])", "kstack": "kstack, kstack(frames) or kstack(mode, frames)",
	"ustack": "ustack, ustack(frames) or ustack(mode, frames)", "reg": `reg("ip")`, "exit": "exit() or exit(code)",
	"ksym": "ksym(address)", "usym": "usym(address)", "kaddr": `kaddr("symbol")`, "uaddr": `uaddr("symbol")`,
	"system": `system("command", values...)`, "cat": `cat("/path")`, "signal": `signal("KILL") or signal(9)`,
	"getopt": `getopt("name", default[, "what it does"])`, "cgroupid": `cgroupid("/path")`, "macaddr": "macaddr(address)",
	"override": "override(value)", "path": "path(struct path)", "bswap": "bswap(number)",
}

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
			b.unknown.said.Hint("string literals need double quotes: \"%s\"", id.Name)
		}
	}
}
