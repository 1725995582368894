// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"
	"strings"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/frontend/types"
	"btc/internal/probe"
)

// hostRows returns the rows of functions that query the host that runs the object, or act on it.
func hostRows() []Function {
	u64, none := types.TUint64, types.TNone
	return []Function{
		{Name: "kaddr", min: 1, max: 1, result: u64.WithSpace(types.Kernel), check: (*body).hostName, usage: `kaddr("symbol")`},
		{Name: "percpu_kaddr", min: 1, max: 2, result: types.MakePointer(types.TUint64, types.Kernel), check: (*body).percpuKaddr},
		{Name: "cgroupid", min: 1, max: 1, result: u64, check: (*body).hostName, text0: true, usage: `cgroupid("/path")`},
		{Name: "cgroup_path", min: 1, max: 2, check: (*body).cgroupPath},
		{Name: "errorf", min: 1, max: 128, result: none, Effect: true, check: (*body).printf, text0: true},
		{Name: "warnf", min: 1, max: 128, result: none, Effect: true, check: (*body).printf, text0: true},
		{Name: "signal", min: 1, max: 1, in: inSignal, result: none, Effect: true, unsafe: true, check: (*body).signal, usage: `signal("KILL") or signal(9)`},
		{Name: "signal_thread", min: 1, max: 1, in: inSignal, result: none, Effect: true, unsafe: true, check: (*body).signal},
		{Name: "write_user", min: 3, max: 3, result: types.TBool, Effect: true, unsafe: true, check: (*body).writeUser},
		{Name: "debugf", min: 1, max: 128, result: none, Effect: true, check: (*body).debugf},
		{Name: "kfunc_exist", min: 1, max: 1, result: types.TBool, check: (*body).kfunc},
		{Name: "kfunc_allowed", min: 1, max: 1, result: types.TBool, check: (*body).kfunc},
		{Name: "uaddr", min: 1, max: 1, in: inUser, check: (*body).uaddr, usage: `uaddr("symbol")`},
		{Name: "path", min: 1, max: 2, in: inPath, check: (*body).path, usage: "path(struct path)"},
		{Name: "socket_cookie", min: 1, max: 1, in: inTyped, result: u64, check: (*body).socketCookie},
		{Name: "skboutput", min: 4, max: 4, in: inTyped, result: types.TUint32, Effect: true, check: (*body).skbOutput},
		{Name: "unwatch", min: 1, max: 1, result: none, Effect: true, check: (*body).unwatch},
		{Name: "override", min: 1, max: 1, in: inKprobe, result: none, Effect: true, unsafe: true, check: (*body).override, usage: "override(value)"},
	}
}

// hostName checks kaddr("symbol") and cgroupid("path"), which the loader looks up. The string may be a
// parameter.
func (b *body) hostName(c *callSite) {
	text, from, ok := b.loadString(c, 0)
	c.From = from
	if ok && from == "" && c.Fn.Name != "cgroupid" && !isSymbol(text) {
		b.fail(diag.BadArguments, c.args[0], "%s() expects a string that is a valid symbol (%q provided)", c.Fn.Name,
			text)
		return
	}
	c.Text = text
}

// uaddr checks uaddr("symbol"), a pointer to a signed number of the symbol's size, as in bpftrace. The
// file may not be on this machine, or the symbol not be a number: then it points to 8 bytes.
func (b *body) uaddr(c *callSite) {
	b.hostName(c)
	elem := types.TUint64
	if p := b.point; p != nil && b.files != nil && c.From == "" && !b.severalPrograms() && !probe.IsPattern(p.Target) {
		switch size := b.files.ObjectSize(p.Target, c.Text); size {
		case 1, 2, 4, 8:
			elem = types.MakeInt(int(size), true)
		}
	}
	c.e.Type = types.MakePointer(elem, types.User)
}

// isSymbol reports whether a string has the form of a symbol name, including main.(*T).f of
// Go.
func isSymbol(text string) bool { return text != "" && !strings.ContainsAny(text, " \t\n\f\r?\"'\\") }

// percpuKaddr checks percpu_kaddr("symbol"[, cpu]).
func (b *body) percpuKaddr(c *callSite) {
	b.hostName(c)
	if len(c.args) > 1 {
		b.integer(c.args[1], c.Fn.Name)
		c.Args = c.args[1:]
	}
}

// cgroupPath checks cgroup_path(id[, filter]).
func (b *body) cgroupPath(c *callSite) {
	t := b.integer(c.args[0], c.Fn.Name)
	filter, ok := "", true
	if len(c.args) > 1 {
		filter, c.From, ok = b.loadString(c, 1)
	}
	if invalid(t) || !ok {
		return
	}
	c.Args = c.args[:1]
	c.e.Type = types.MakeCgroupPath(filter, c.From)
}

// signals are the names of signals that signal() accepts, without "SIG". Numbers are the
// same on x86-64 and arm64.
var signals = map[string]int64{
	"HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "TRAP": 5, "ABRT": 6, "BUS": 7, "FPE": 8, "KILL": 9, "USR1": 10, "SEGV": 11,
	"USR2": 12, "PIPE": 13, "ALRM": 14, "TERM": 15, "STKFLT": 16, "CHLD": 17, "CONT": 18, "STOP": 19, "TSTP": 20, "TTIN": 21,
	"TTOU": 22, "URG": 23, "XCPU": 24, "XFSZ": 25, "VTALRM": 26, "PROF": 27, "WINCH": 28, "IO": 29, "PWR": 30, "SYS": 31,
}

// signal checks signal(n) or signal("NAME").
func (b *body) signal(c *callSite) {
	if _, ok := ast.Unparen(c.args[0]).(*ast.Positional); ok { // only the compiler knows the names of signals
		b.integer(c.args[0], c.Fn.Name)
		c.Args = c.args
		return
	}
	t := b.asString(c.args[0])
	k := b.out.Expr(c.args[0]).Const
	switch {
	case invalid(t):
	case k != nil && k.IsStr:
		n, ok := signals[signalName(k.Str)]
		if !ok {
			suggest(b.fail(diag.BadArguments, c.args[0], "%s is not a valid signal", k.Str), signalName(k.Str), "SIG",
				namesOf(signals))
		}
		c.N = n
	case !t.IsInteger():
		b.fail(diag.BadArguments, c.args[0],
			"%s() only supports integer and string literals as its argument (%s provided)", c.Fn.Name, t)
	case k != nil && (k.Int < 1 || k.Int > 64):
		b.fail(diag.BadArguments, c.args[0], "%d is not a valid signal, allowed range: [1,64]", k.Int)
	default:
		c.Args = c.args
	}
}

// signalName returns a signal's name in capitals without "SIG".
func signalName(text string) string {
	up := []byte(text)
	for i, ch := range up {
		if ch >= 'a' && ch <= 'z' {
			up[i] = ch - 'a' + 'A'
		}
	}
	if len(up) > 3 && string(up[:3]) == "SIG" {
		up = up[3:]
	}
	return string(up)
}

// writeUser checks write_user(address, source, length).
func (b *body) writeUser(c *callSite) {
	if t := b.value(c.args[0]); !invalid(t) && !t.IsInteger() && t.Kind != types.Pointer {
		b.fail(diag.BadArguments, c.args[0],
			"write_user() only supports integer and pointer arguments as its destination (%s provided)", t)
	}
	n, ok := b.constInt(c.args[2], c.Fn.Name)
	t := b.value(c.args[1])
	switch {
	case !ok || invalid(t):
	case t.IsInteger() || t.Kind == types.Pointer: // address of the bytes
		size := maxWrite
		if isAddress(c.args[1]) && t.Elem.Kind != types.None {
			size = min(size, t.Elem.Size)
		}
		b.writeLength(c, n, size)
	case t.Kind != types.String && t.Kind != types.Array && t.Kind != types.Struct:
		b.fail(diag.BadArguments, c.args[1],
			"write_user() takes an address, string, array or struct as its source (%s provided)", t)
	default:
		b.writeLength(c, n, t.Size)
	}
	c.Args, c.N = c.args[:2], n
}

// maxWrite is the maximum number of bytes that write_user() copies from an address.
const maxWrite = 1024

// writeLength reports an error if n, the length to write, is not 1 to size.
func (b *body) writeLength(c *callSite, n int64, size int) {
	if n < 1 || n > int64(size) {
		b.fail(diag.BadArguments, c.args[2], "length must be 1 to %d, %d given", size, n)
	}
}

// override checks override(value): the probed function returns value instead of running.
func (b *body) override(c *callSite) {
	b.integer(c.args[0], c.Fn.Name)
	c.Args = c.args
	if b.point.Offset != 0 {
		b.fail(diag.NotInThisProbe, c.at, "override() can only be used at the entry of a function")
	}
}

// debugf checks debugf(format, ...). The kernel formats the output, so it has few conversions and at most 3 arguments.
func (b *body) debugf(c *callSite) {
	b.printf(c)
	b.fail(diag.Ignored, c.at,
		"The debugf() builtin is not recommended for production use. For more information see bpf_trace_printk in bpf-helpers(7).")
	if len(c.Args) > 3 {
		b.fail(diag.BadArguments, c.at, "cannot use more than 3 conversion specifiers")
		return
	}
	for i, conv := range conversions(c.Format) {
		if i >= len(c.Args) {
			break
		}
		t := b.out.Expr(c.Args[i]).Type
		switch {
		case invalid(t),
			conv == "s" && t.Kind == types.String,
			conv != "s" && slices.Contains(printkConversions, conv) && (t.IsInteger() || t.Kind == types.Pointer):
		default:
			b.fail(diag.BadFormat, c.Args[i], "unsupported format specifier for type '%s' in debugf(): %s", t, conv).
				Hint("the kernel supports %%%s for numbers and %%s for strings", strings.Join(printkConversions, " %"))
		}
	}
}

// printkConversions are the conversions of numbers that bpf_trace_printk supports.
var printkConversions = []string{"d", "u", "x", "p"}

// kfunc checks kfunc_exist("name") and kfunc_allowed("name"): decided on the host, or by the target where a constant is
// required.
func (b *body) kfunc(c *callSite) {
	name, from, ok := b.loadString(c, 0)
	if !ok {
		return
	}
	c.Text, c.From = name, from
	if from != "" { // nothing is known of it before
		return
	}
	n := int64(0)
	if b.t.HasFunc(name) {
		n = 1
	}
	c.e.Const = &Const{Int: n, Host: true}
}

// path checks path(p[, size]) of a struct path or a pointer to one.
func (b *body) path(c *callSite) {
	limit := b.info.Config.MaxStrlen
	t := b.value(c.args[0])
	c.N = int64(limit)
	if len(c.args) > 1 {
		n, ok := b.constInt(c.args[1], "path")
		switch {
		case !ok:
		case n < 1 || n > int64(limit):
			b.fail(diag.BadArguments, c.args[1], "path: the size must be 1 to %d, %d given", limit, n)
		default:
			c.N = n
		}
	}
	c.e.Type = types.MakeString(int(c.N))
	if t.Kind == types.Pointer && t.Elem != nil {
		t = t.Elem
	}
	if invalid(t) {
		c.e.Type = types.TInvalid
	} else if t.Kind != types.Struct {
		b.fail(diag.BadArguments, c.args[0], "path() only supports pointer or C type argument (%s provided)", t)
		c.e.Type = types.TInvalid
	} else {
		b.wantsTrusted(c, c.args[0])
	}
}

// socketCookie checks socket_cookie(sk) of a struct sock *.
func (b *body) socketCookie(c *callSite) {
	switch t := b.value(c.args[0]); {
	case invalid(t):
	case t.Kind != types.Pointer || t.Elem == nil || t.Elem.Kind != types.Struct || t.Elem.String() != "struct sock":
		b.fail(diag.BadArguments, c.args[0],
			"socket_cookie() only supports 'struct sock *' as the argument ('%s' provided)", t)
	default:
		b.wantsTrusted(c, c.args[0])
	}
}

// skbOutput checks skboutput("file", skb, length, offset) of a struct sk_buff *.
func (b *body) skbOutput(c *callSite) {
	name, from, ok := b.loadString(c, 0)
	if ok && name == "" && from == "" {
		b.fail(diag.BadArguments, c.args[0], "skboutput() needs a file name")
	}
	switch t := b.value(c.args[1]); {
	case invalid(t):
	case t.Kind != types.Pointer || t.Elem == nil || t.Elem.String() != "struct sk_buff":
		b.fail(diag.BadArguments, c.args[1],
			"skboutput() only supports 'struct sk_buff *' as the second argument ('%s' provided)", t)
	default:
		b.wantsTrusted(c, c.args[1])
	}
	b.integer(c.args[2], c.Fn.Name)
	if n, ok := b.constInt(c.args[3], c.Fn.Name); ok && n < 0 {
		b.fail(diag.BadArguments, c.args[3], "skboutput(): the offset cannot be negative (%d provided)", n)
	} else {
		c.N = n
	}
	c.Text, c.From, c.Args = name, from, c.args[2:3]
}

// unwatch checks unwatch(address).
func (b *body) unwatch(c *callSite) {
	t := b.value(c.args[0])
	c.Args = c.args
	if !invalid(t) && !t.IsInteger() && t.Kind != types.Pointer {
		b.fail(diag.BadArguments, c.args[0], "unwatch() only supports integer arguments (%s provided)", t)
	}
}
