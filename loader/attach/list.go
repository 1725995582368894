package attach

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"btc/loader/host"
	"btc/loader/hostinfo"
	"btc/loader/manifest"
)

// listed is a kind of attach point that List can find: its names, and whether a
// search that names no kind covers it.
type listed struct {
	names  []string
	always bool
	find   func(x *expander, kind string, parts []string) ([]string, error)
}

func listedKinds() []listed {
	return []listed{
		{[]string{"fentry", "f", "kfunc"}, true, listExpanded},
		{[]string{"fexit", "fr", "kretfunc"}, false, listExpanded},
		{[]string{"hardware", "h"}, true, listCounters},
		{[]string{"interval", "i"}, false, listTimers},
		{[]string{"iter", "it"}, true, listIterators},
		{[]string{"kprobe", "k"}, true, listFunctions},
		{[]string{"kretprobe", "kr"}, false, listFunctions},
		{[]string{"profile", "p"}, false, listTimers},
		{[]string{"rawtracepoint", "rt"}, true, listExpanded},
		{[]string{"self"}, false, listSelf},
		{[]string{"software", "s"}, true, listCounters},
		{[]string{"tracepoint", "t"}, true, listExpanded},
		{[]string{"uprobe", "u"}, false, listExpanded},
		{[]string{"uretprobe", "ur"}, false, listExpanded},
		{[]string{"usdt", "U"}, false, listExpanded},
	}
}

// List gives the attach points of this host that fit a pattern such as
// "kprobe:tcp_*", "usdt:/bin/x:*" or, in every kind of the kernel, "*tcp*".
// What a kind cannot list here is no error unless the pattern names it.
func List(h *host.Host, pattern string, opts Options) ([]string, error) {
	x := &expander{host: h, opts: opts}
	kind, rest, named := strings.Cut(pattern, ":")
	if !named {
		kind, rest = "*", pattern
	}
	var out []string
	known := false
	for _, k := range listedKinds() {
		word := kind
		if word != "U" { // the only alias that differs in case
			word = strings.ToLower(word)
		}
		exact := slices.Contains(k.names, word)
		parts := strings.Split(rest, ":")
		// A pattern stands for probes of user space when it names a file or -p a process.
		user := k.names[0] == "uprobe" || k.names[0] == "usdt"
		file := strings.Contains(parts[0], "/")
		if !exact && !(isPattern(kind) && glob(kind, k.names[0]) && (k.always && !file || user && (file || opts.PID != 0))) {
			continue
		}
		known = true
		if user && !file && len(parts) == 1 && opts.PID != 0 {
			parts = []string{"*", parts[0]} // of all files of the process
		}
		all, err := k.find(x, k.names[0], parts)
		var gone *missing
		if err != nil && exact && !errors.As(err, &gone) {
			return nil, fmt.Errorf("%s: %w", k.names[0], err)
		}
		out = append(out, all...)
	}
	if !known {
		return nil, fmt.Errorf("no kind of probe is called %s", kind)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// listExpanded finds what attaching to the pattern would find.
func listExpanded(x *expander, kind string, parts []string) ([]string, error) {
	a := manifest.Attach{Text: kind + ":" + strings.Join(parts, ":"), Name: parts[len(parts)-1]}
	if len(parts) > 1 {
		a.Target = parts[0]
	}
	switch {
	case kind == "tracepoint" && len(parts) == 1:
		a.Target = "*"
	case (kind == "fentry" || kind == "fexit") && len(parts) == 1:
		a.Target = "*" // the module is shown, and the name is looked for
	case kind == "usdt" && len(parts) == 3:
		a.Name = parts[1] + ":" + parts[2]
	case (kind == "uprobe" || kind == "uretprobe") && len(parts) == 3:
		a.Lang = parts[1]
	}
	if (kind == "fentry" || kind == "fexit") && parts[0] == "bpf" && len(parts) > 1 {
		id, ok := bpfTarget(strings.Join(parts[:len(parts)-1], ":"))
		if !ok {
			return nil, fmt.Errorf("%s is neither an id of a program nor *", parts[1])
		}
		return listBPF(kind, a.Name, id)
	}
	plan, err := providers[kind].expand(x, &manifest.Program{Kind: kind, Attach: a})
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
		case len(parts) == 1 && glob(parts[0], f.name):
			out = append(out, kind+":"+f.name)
		case len(parts) == 2 && glob(parts[0], f.module) && glob(parts[1], f.name):
			out = append(out, kind+":"+f.module+":"+f.name)
		}
	}
	return out, nil
}

// listCounters lists the perf events that this machine has.
func listCounters(_ *expander, kind string, parts []string) ([]string, error) {
	events, typ := softwareEvents, uint32(unix.PERF_TYPE_SOFTWARE)
	if kind == "hardware" {
		events, typ = hardwareEvents, unix.PERF_TYPE_HARDWARE
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(events)) {
		if !glob(parts[0], name) {
			continue
		}
		attr := &unix.PerfEventAttr{Type: typ, Size: unix.PERF_ATTR_SIZE_VER5, Config: events[name].config, Bits: unix.PerfBitDisabled}
		fd, err := unix.PerfEventOpen(attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err != nil {
			continue
		}
		unix.Close(fd)
		out = append(out, kind+":"+name+":")
	}
	return out, nil
}

func listTimers(_ *expander, kind string, parts []string) ([]string, error) {
	var out []string
	for _, unit := range []string{"hz", "ms", "s", "us"} {
		if glob(parts[0], unit) {
			out = append(out, kind+":"+unit+":")
		}
	}
	return out, nil
}

// listSelf lists the one signal that runs a self probe.
func listSelf(_ *expander, kind string, parts []string) ([]string, error) {
	if glob(parts[0], "signal") && (len(parts) == 1 || len(parts) == 2 && glob(parts[1], "SIGUSR1")) {
		return []string{kind + ":signal:SIGUSR1"}, nil
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
		if !ok || !glob(parts[0], name) || hostinfo.IterOverMap[name] != "" {
			continue
		}
		if proto, err := findFunc(kernel, "bpf_iter_"+name); err == nil && proto != nil {
			out = append(out, kind+":"+name)
		}
	}
	return out, nil
}
