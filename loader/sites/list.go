// SPDX-License-Identifier: Apache-2.0

package sites

import (
	"fmt"
	"slices"
	"strings"

	"btc/internal/kernelfs"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/host"
	"btc/loader/resolve"
	"btc/loader/symbols"
	"github.com/cilium/ebpf/btf"
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

// listExpanded lists what attaching to the pattern would match.
func listExpanded(x *expander, kind string, parts []string) ([]string, error) {
	a := manifest.Attach{Text: kind + ":" + strings.Join(parts, ":"), Name: parts[len(parts)-1]}
	if len(parts) > 1 {
		a.Target = parts[0]
	}
	switch {
	case kind == probe.Tracepoint && len(parts) == 1:
		a.Target = "*"
	case (kind == probe.Fentry || kind == probe.Fexit) && len(parts) == 1:
		a.Target = "*" // the name is searched in all modules, and the module is shown
	case kind == probe.USDT && len(parts) == 3:
		a.Name = parts[1] + ":" + parts[2]
	case (kind == probe.Uprobe || kind == probe.Uretprobe) && len(parts) == 3:
		a.Lang = parts[1]
	}
	if (kind == probe.Fentry || kind == probe.Fexit) && parts[0] == "bpf" && len(parts) > 1 {
		id, ok := bpfTarget(strings.Join(parts[:len(parts)-1], ":"))
		if !ok {
			return nil, fmt.Errorf("%s is neither a program id nor *", parts[1])
		}
		return listBPF(kind, a.Name, id)
	}
	plan, err := resolve.One(x, &manifest.Program{Kind: kind, Attach: a})
	var out []string
	for i := range plan.Matches {
		out = append(out, plan.Matches[i].Text)
	}
	return out, err
}

// listFunctions lists traceable functions, by name only or with their module.
func listFunctions(x *expander, kind string, parts []string) ([]string, error) {
	if !haveKprobes() {
		return nil, errNoKprobes
	}
	if err := x.readFunctions(); err != nil {
		return nil, err
	}
	var out []string
	for _, f := range x.functions {
		switch {
		case resolve.Excluded(f.Name):
		case len(parts) == 1 && probe.Glob(parts[0], f.Name):
			out = append(out, kind+":"+f.Name)
		case len(parts) == 2 && probe.Glob(parts[0], f.Module) && probe.Glob(parts[1], f.Name):
			out = append(out, kind+":"+f.Module+":"+f.Name)
		}
	}
	return out, nil
}

// listCounters lists the perf events of the language; a virtual machine may have no hardware ones.
func listCounters(_ *expander, kind string, parts []string) ([]string, error) {
	var out []string
	for _, e := range probe.Events(kind) {
		if parts[0] == "" || probe.Glob(parts[0], e.Name) {
			out = append(out, kind+":"+e.Name+":")
		}
	}
	return out, nil
}

func listTimers(_ *expander, kind string, parts []string) ([]string, error) {
	var out []string
	for _, unit := range probe.Units() {
		if probe.Glob(parts[0], unit) {
			out = append(out, kind+":"+unit+":")
		}
	}
	return out, nil
}

// listSelf lists the one signal that runs a self probe.
func listSelf(_ *expander, kind string, parts []string) ([]string, error) {
	if probe.Glob(parts[0], "signal") &&
		(len(parts) == 1 || len(parts) == 2 && probe.Glob(parts[1], probe.OwnSignals)) {
		return []string{kind + ":signal:" + probe.OwnSignals}, nil
	}
	return nil, nil
}

// listIterators lists the kinds of iterators: each has a function that names its
// parameters and a struct of them.
func listIterators(x *expander, kind string, parts []string) ([]string, error) {
	kernel, err := x.host.Types().Kernel()
	if err != nil {
		return nil, err
	}
	var out []string
	for t, err := range kernel.All() {
		if err != nil {
			return out, err
		}
		s, ok := t.(*btf.Struct)
		if !ok {
			continue
		}
		name, ok := strings.CutPrefix(s.Name, "bpf_iter__")
		if !ok || !probe.Glob(parts[0], name) || kernelfs.IterOverMap[name] != "" {
			continue
		}
		if proto, err := findFunc(kernel, "bpf_iter_"+name); err == nil && proto != nil {
			out = append(out, kind+":"+name)
		}
	}
	return out, nil
}
