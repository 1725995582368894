// SPDX-License-Identifier: Apache-2.0

package sites

import (
	"fmt"
	"slices"
	"strings"

	"btc/internal/probe"
	"btc/loader/host"
	"btc/loader/resolve"
	"btc/loader/symbols"
)

// List returns the attach points of this host that fit a pattern such as
// "kprobe:tcp_*", "usdt:/bin/x:*" or, in every kind of the kernel, "*tcp*".
// A kind that cannot be listed here is an error only if the pattern names it.
func List(h *host.Host, pattern string, opts Options) ([]string, error) {
	opts.Unsafe = true // include symbols of size 0
	x := &expander{host: h, opts: opts, files: symbols.NewFiles(symbols.Process, func(string) {})}
	defer x.files.Close()
	defer x.files.Release("")
	kind, rest, named := strings.Cut(pattern, ":")
	if !named {
		kind, rest = "*", pattern
	}
	var out []string
	found := probe.Find(kind)
	known := found != nil // some kinds, such as watchpoint, have nothing to list
	for _, t := range probe.Types() {
		list := providers[t.Kind].list
		if list == nil {
			continue
		}
		exact := found != nil && found.Kind == t.Kind
		parts := strings.Split(rest, ":")
		// A pattern matches user-space probes if it names a file or -p names a process.
		user := t.Space == probe.UserSpace
		file := strings.Contains(parts[0], "/")
		searched := t.Searched && (!user && !file || user && (file || len(opts.PIDs) > 0))
		if !exact && !(probe.IsPattern(kind) && probe.Glob(kind, t.Kind) && searched) {
			continue
		}
		known = true
		if user && !file && len(parts) == 1 && len(opts.PIDs) > 0 {
			parts = []string{"*", parts[0]} // in all files of the process
		}
		if user && len(parts) == 1 && probe.IsPattern(parts[0]) && !file {
			parts = []string{"*", parts[0]} // in all programs in PATH
		}
		all, err := list(x, t.Kind, parts)
		if err != nil && exact && !resolve.IsMissing(err) {
			return nil, fmt.Errorf("%s: %w", t.Kind, err)
		}
		out = append(out, all...)
	}
	if !known {
		return nil, fmt.Errorf("unknown kind of probe %s", kind)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// listKernel lists attach points that depend on the kernel only, and those in BPF programs.
func listKernel(x *expander, kind string, parts []string) ([]string, error) {
	if (kind == probe.Fentry || kind == probe.Fexit) && parts[0] == "bpf" && len(parts) > 1 {
		id, ok := bpfTarget(strings.Join(parts[:len(parts)-1], ":"))
		if !ok {
			return nil, fmt.Errorf("%s is neither a program id nor *", parts[1])
		}
		return listBPF(kind, parts[len(parts)-1], id)
	}
	return resolve.List(x, kind, strings.Join(parts, ":"))
}

// listUser lists what attaching to a pattern for programs would match.
func listUser(x *expander, kind string, parts []string) ([]string, error) {
	p := resolve.Pattern(kind, strings.Join(parts, ":"))
	switch {
	case len(parts) != 3:
	case kind == probe.USDT:
		p.Attach.Name = parts[1] + ":" + parts[2]
	default:
		p.Attach.Lang = parts[1]
	}
	return resolve.ListMatches(x, p)
}
