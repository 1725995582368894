package attach

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"btc/loader/host"
	"btc/loader/hostinfo"
	"btc/loader/manifest"
)

// function is a kernel function that may be probed.
type function struct{ name, module string }

var errNoKprobes = errors.New("this kernel has no kprobes (CONFIG_KPROBE_EVENTS)")

// expandKprobe handles kprobes and kretprobes: a name stands for itself, a
// pattern for the functions that the kernel says can be traced.
func expandKprobe(x *expander, p *manifest.Program) (Plan, error) {
	a := &p.Attach
	if !haveKprobes() {
		return Plan{}, errNoKprobes
	}
	if a.Name == "" {
		return expandAddress(a)
	}
	if a.Target != "" && a.Target != "vmlinux" && !isPattern(a.Target) && !moduleLoaded(a.Target) {
		return Plan{}, &missing{"specified module " + a.Target + " in probe " + a.Text + " is not loaded."}
	}
	if !isPattern(a.Name) && !isPattern(a.Target) {
		return Plan{Matches: []Match{{Text: a.Text, Group: a.Target, Name: a.Name, Offset: a.Offset}}}, nil
	}
	if err := x.readFunctions(); err != nil {
		return Plan{}, err
	}
	plan := Plan{}
	for _, f := range x.functions {
		if glob(a.Name, f.name) && (a.Target == "" || glob(a.Target, f.module)) {
			text := p.Kind + ":"
			if a.Target != "" {
				text += f.module + ":"
			}
			plan.Matches = append(plan.Matches, Match{Text: text + f.name, Group: f.module, Name: f.name})
		}
	}
	if len(plan.Matches) == 0 {
		what := a.Name
		if a.Target != "" {
			what = a.Target + ":" + a.Name
		}
		return Plan{}, noMatch(p.Kind, what)
	}
	if len(plan.Matches) > 1 && !p.UsesID && x.host.KprobeMulti() {
		plan.Multi, plan.AttachType = true, ebpf.AttachTraceKprobeMulti
	}
	return plan, nil
}

// expandAddress turns an address into the function it lies in and an offset: the
// kernel takes it in this form on every version.
func expandAddress(a *manifest.Attach) (Plan, error) {
	k, err := hostinfo.LoadKallsyms()
	if err != nil {
		return Plan{}, fmt.Errorf("the addresses of kernel functions cannot be read: %w", err)
	}
	sym, off, ok := k.Lookup(a.Addr)
	if !ok {
		return Plan{}, &missing{fmt.Sprintf("no kernel function is at address %#x.", a.Addr)}
	}
	return Plan{Matches: []Match{{Text: a.Text, Group: sym.Module, Name: sym.Name, Offset: off}}}, nil
}

// haveKprobes: as a perf event source (4.17) or by tracefs.
func haveKprobes() bool {
	if _, err := os.Stat("/sys/bus/event_source/devices/kprobe/type"); err == nil {
		return true
	}
	dir, err := hostinfo.Tracefs()
	if err != nil {
		return false
	}
	_, err = os.Stat(dir + "/kprobe_events")
	return err == nil
}

func moduleLoaded(name string) bool {
	if strings.ContainsAny(name, "/\x00") || name == ".." {
		return false
	}
	_, err := os.Stat("/sys/module/" + name)
	return err == nil
}

// readFunctions lists what can be probed: by tracefs, or where that cannot be
// read by kallsyms, which also names functions that the kernel will refuse.
func (x *expander) readFunctions() error {
	if x.functions != nil {
		return nil
	}
	seen := map[function]bool{}
	add := func(f function) {
		if f.module == "" {
			f.module = "vmlinux"
		}
		if !seen[f] && !strings.HasPrefix(f.name, "__ftrace_invalid_address__") && !strings.HasPrefix(f.name, "__pfx_") && !strings.HasPrefix(f.name, "__cfi_") {
			seen[f] = true
			x.functions = append(x.functions, f)
		}
	}
	if err := readFilterFunctions(add); err == nil && len(x.functions) > 0 {
		x.sortFunctions()
		return nil
	}
	k, err := hostinfo.LoadKallsyms()
	if err != nil {
		return fmt.Errorf("the list of kernel functions cannot be read: %w", err)
	}
	k.Each(func(s hostinfo.Symbol) bool {
		add(function{s.Name, s.Module})
		return true
	})
	x.sortFunctions()
	return nil
}

func (x *expander) sortFunctions() {
	slices.SortFunc(x.functions, func(a, b function) int {
		if c := strings.Compare(a.name, b.name); c != 0 {
			return c
		}
		return strings.Compare(a.module, b.module)
	})
}

// readFilterFunctions reads lines of the form "name" or "name [module]".
func readFilterFunctions(add func(function)) error {
	dir, err := hostinfo.Tracefs()
	if err != nil {
		return err
	}
	f, err := os.Open(dir + "/available_filter_functions")
	if err != nil {
		return err
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	for s.Scan() {
		name, module, _ := strings.Cut(s.Text(), " ")
		add(function{name, strings.Trim(module, "[] ")})
	}
	return s.Err()
}

func attachKprobe(plan *Plan, m *Match, prog *ebpf.Program, _ Options, _ *host.Host) (io.Closer, error) {
	ret := plan.Prog.Kind == "kretprobe"
	if plan.Multi {
		o := link.KprobeMultiOptions{}
		for i := range plan.Matches {
			o.Symbols = append(o.Symbols, plan.Matches[i].Name)
		}
		slices.Sort(o.Symbols)
		o.Symbols = slices.Compact(o.Symbols)
		if ret {
			return link.KretprobeMulti(prog, o)
		}
		return link.KprobeMulti(prog, o)
	}
	o := &link.KprobeOptions{Offset: m.Offset}
	attach := link.Kprobe
	if ret {
		attach = link.Kretprobe
	}
	l, err := attach(m.Name, prog, o)
	if err != nil {
		return nil, kprobeError(m, err)
	}
	return l, nil
}

// kprobeError puts the kernel's answer in words. For a function that does not
// exist kernels answer ENOENT, EINVAL or EADDRNOTAVAIL by version and by way.
func kprobeError(m *Match, err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return &missing{"there is no function " + m.Name + " that can be probed (it may be inlined or not traceable)"}
	}
	if k, kerr := hostinfo.LoadKallsyms(); kerr == nil && len(k.Find(m.Name)) == 0 {
		return &missing{"there is no kernel function " + m.Name}
	}
	return err
}
