// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/host"
	"btc/loader/hostinfo"
)

// function is a kernel function that may be probed.
type function struct {
	name, module string
	several      bool // functions of one module have the name
}

var errNoKprobes = errors.New("this kernel has no kprobes (CONFIG_KPROBE_EVENTS)")

// expandKprobe handles kprobes and kretprobes: a name matches itself, a pattern the
// functions that the kernel lists as traceable.
func expandKprobe(x *expander, p *manifest.Program) (Plan, error) {
	a := &p.Attach
	if a.Target != "" && a.Target != "vmlinux" && !probe.IsPattern(a.Target) && !moduleLoaded(a.Target) {
		return Plan{}, &missing{text: "specified module " + a.Target + " in probe " + a.Text + " is not loaded."}
	}
	if !haveKprobes() {
		return Plan{}, x.noKprobes(p)
	}
	if a.Name == "" {
		return expandAddress(p)
	}
	p = onThisMachine(p)
	a = &p.Attach
	if !probe.IsPattern(a.Name) && !probe.IsPattern(a.Target) {
		if err := x.checkFunction(p); err != nil {
			return Plan{}, err
		}
		several, err := x.severalOf(a)
		return Plan{
			Matches: []Match{{Text: a.Text, Group: a.Target, Name: a.Name, Offset: a.Offset, Several: several}},
		}, err
	}
	if err := x.readFunctions(); err != nil {
		return Plan{}, err
	}
	plan := Plan{}
	for _, f := range x.matching(a) {
		text := p.Kind + ":"
		if a.Target != "" {
			text += f.module + ":"
		}
		plan.Matches = append(
			plan.Matches,
			Match{Text: text + f.name, Group: f.module, Name: f.name, Several: f.several},
		)
	}
	if len(plan.Matches) == 0 {
		what := a.Name
		if a.Target != "" {
			what = a.Target + ":" + a.Name
		}
		return Plan{}, noMatch(p.Kind, what)
	}
	return plan, nil
}

// noKprobes is the error of every kprobe on a kernel without them, in the words of
// any function that is not there.
func (x *expander) noKprobes(p *manifest.Program) error {
	a := &p.Attach
	what := strings.TrimPrefix(a.Text, p.Kind+":")
	if a.Name == "" {
		what = strconv.FormatUint(a.Addr, 10)
	}
	err := &missing{
		text:    "No matches for " + p.Kind + " " + what + ".",
		pattern: probe.IsPattern(a.Target + a.Name),
		why:     errNoKprobes.Error(),
	}
	if x.opts.Unsafe && !err.pattern { // no list is asked then, only the kernel
		err.text = "Unable to attach probe: " + p.Kind + ":" + what + "."
	}
	return err
}

// distinct reports whether all functions have names of their own: links of many
// functions find them by name only.
func distinct(matches []Match) bool {
	names := map[string]bool{}
	for i := range matches {
		if names[matches[i].Name] {
			return false
		}
		names[matches[i].Name] = true
	}
	return true
}

// checkFunction checks a function against the user's list. Without one, the kernel itself
// reports when the probe is attached.
func (x *expander) checkFunction(p *manifest.Program) error {
	if x.opts.Functions == "" {
		return nil
	}
	name := p.Attach.Name
	if err := x.readFunctions(); err != nil {
		return err
	}
	if slices.ContainsFunc(x.functions, func(f function) bool { return f.name == name }) {
		return nil
	}
	if !x.opts.Unsafe {
		return noMatch(p.Kind, strings.TrimPrefix(p.Attach.Target+":"+name, ":"))
	}
	x.warn(
		p,
		name+` is not traceable (either non-existing, inlined, or marked as "notrace"); attaching to it will likely fail`,
	)
	return nil
}

// expandAddress turns an address into the function it is in and an offset: which every
// kernel version accepts.
func expandAddress(p *manifest.Program) (Plan, error) {
	a := &p.Attach
	k, err := hostinfo.LoadKallsyms()
	if err != nil {
		return Plan{}, fmt.Errorf("the addresses of kernel functions cannot be read: %w", err)
	}
	sym, off, ok := k.Lookup(a.Addr)
	if !ok {
		return Plan{}, &missing{
			text: fmt.Sprintf(
				"Unable to attach probe: %s:%d: no kernel function is at address %#x.",
				p.Kind,
				a.Addr,
				a.Addr,
			),
		}
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
	x.functions = make([]function, 0, 50_000) // kernels have some 40,000
	add := func(f function) {
		if f.module == "" {
			f.module = "vmlinux"
		}
		if dangerous(f.name) ||
			strings.HasPrefix(f.name, "__") &&
				(strings.HasPrefix(f.name, "__ftrace_invalid_address__") || strings.HasPrefix(f.name, "__pfx_") || strings.HasPrefix(f.name, "__cfi_")) {
			return
		}
		x.functions = append(x.functions, f)
	}
	err := readFilterFunctions(x.opts.Functions, add)
	if x.opts.Functions != "" && err != nil {
		x.functions = nil
		return err
	}
	if x.opts.Functions != "" || err == nil && len(x.functions) > 0 {
		return nil
	}
	k, err := hostinfo.LoadKallsyms()
	if err != nil {
		x.functions = nil
		return fmt.Errorf("the list of kernel functions cannot be read: %w", err)
	}
	k.Each(func(s hostinfo.Symbol) bool {
		add(function{name: s.Name, module: s.Module})
		return true
	})
	return nil
}

// dangerous are functions that the kernel lists as traceable but that patterns do not
// match: machines have hung. The kernel's own tests of multi-kprobe links exclude the same
// ones (kprobe_multi_test.c). They can be given by name.
func dangerous(name string) bool {
	switch name {
	case "arch_cpu_idle", "default_idle", "bpf_dispatcher_xdp_func":
		return true
	}
	return strings.HasPrefix(name, "rcu_")
}

// matching are the functions that match an attach point's pattern, sorted, with static
// functions of one name and module listed once.
func (x *expander) matching(a *manifest.Attach) []function {
	var out []function
	for _, f := range x.functions {
		if probe.Glob(a.Name, f.name) && (a.Target == "" || probe.Glob(a.Target, f.module)) {
			out = append(out, f)
		}
	}
	sort.Slice(out, func(i, j int) bool {
		if out[i].name != out[j].name {
			return out[i].name < out[j].name
		}
		return out[i].module < out[j].module
	})
	kept := out[:0]
	for _, f := range out {
		if n := len(kept); n > 0 && kept[n-1].name == f.name && kept[n-1].module == f.module {
			kept[n-1].several = true
			continue
		}
		kept = append(kept, f)
	}
	return kept
}

// readFilterFunctions reads lines of the form "name" or "name [module]", from a
// file or, for "", tracefs.
func readFilterFunctions(path string, add func(function)) error {
	if path == "" {
		dir, err := hostinfo.Tracefs()
		if err != nil {
			return err
		}
		path = dir + "/available_filter_functions"
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		name, module, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		add(function{name: name, module: strings.Trim(module, "[] ")})
	}
	return nil
}

func attachKprobe(plan *Plan, m *Match, prog *ebpf.Program, _ Options, _ *host.Host) (io.Closer, error) {
	ret := plan.Prog.Kind == probe.Kretprobe
	o := &link.KprobeOptions{Offset: m.Offset}
	attach := link.Kprobe
	if ret {
		attach = link.Kretprobe
	}
	if m.Several {
		l, err := attachNamesakes(m, prog, ret)
		if !errors.Is(err, hostinfo.ErrHiddenSymbols) {
			return l, err
		}
	}
	l, err := attach(m.Name, prog, o)
	if errors.Is(err, unix.EADDRNOTAVAIL) { // several functions have the name: tracing since 6.7
		return attachNamesakes(m, prog, ret)
	}
	if err != nil {
		return nil, kprobeError(plan.Prog.Kind, m, err)
	}
	return l, nil
}

// attachKprobeMulti probes all functions of a pattern. The kernel refuses a list
// with one function that cannot be probed, so the list is bisected until these are
// alone; they are left out. A link that names functions has the first of each name:
// those that share a name with others have a link of their own, by address.
func attachKprobeMulti(plan *Plan, prog *ebpf.Program) (l io.Closer, refused []string, err error) {
	names := map[string]uint64{}
	several := map[string]bool{}
	for i := range plan.Matches {
		m := &plan.Matches[i]
		_, again := names[m.Name]
		several[m.Name] = several[m.Name] || m.Several || again
		names[m.Name] = uint64(m.ID)
	}
	addrs, err := addressesOf(several, plan.Prog.Attach.Target)
	if err != nil {
		return nil, nil, err
	}
	attach := link.KprobeMulti
	if plan.Prog.Kind == probe.Kretprobe {
		attach = link.KretprobeMulti
	}
	var all closers
	use := func(opts link.KprobeMultiOptions, of []string) error {
		if plan.Prog.UsesID {
			for _, name := range of {
				opts.Cookies = append(opts.Cookies, names[name])
			}
		}
		l, err := attach(prog, opts)
		if err == nil {
			all = append(all, l)
		}
		return err
	}
	byName := slices.DeleteFunc(slices.Sorted(maps.Keys(names)), func(name string) bool { return len(addrs[name]) > 1 })
	if len(byName) > 0 {
		err = bisect(byName, func(part []string) error { return use(link.KprobeMultiOptions{Symbols: part}, part) },
			func(name string) { refused = append(refused, name) })
	}
	for _, name := range slices.Sorted(maps.Keys(addrs)) {
		if err != nil || len(addrs[name]) < 2 {
			continue
		}
		bad := 0
		err = bisect(addrs[name], func(part []uintptr) error {
			return use(link.KprobeMultiOptions{Addresses: part}, slices.Repeat([]string{name}, len(part)))
		}, func(uintptr) { bad++ })
		if bad == len(addrs[name]) {
			refused = append(refused, name)
		}
	}
	if err == nil && len(all) == 0 {
		err = &missing{text: "none of the functions can be probed"}
	}
	if err != nil {
		all.Close()
		return nil, nil, err
	}
	return all, refused, nil
}

// bisect calls use for a list, and, if it is refused, for its halves. refused is called for
// single elements that are refused. The error is one that has nothing to do with the
// elements.
func bisect[T any](list []T, use func([]T) error, refused func(T)) error {
	err := use(list)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ESRCH) && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.EADDRNOTAVAIL):
		return err
	case len(list) == 1:
		refused(list[0])
		return nil
	}
	half := len(list) / 2
	if err := bisect(list[:half], use, refused); err != nil {
		return err
	}
	return bisect(list[half:], use, refused)
}

// closers are the links of one plan that needed several.
type closers []io.Closer

func (c closers) Close() error {
	var errs []error
	for _, l := range c {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// kprobeError puts the kernel's error in words. For a function that does not exist kernels
// return ENOENT, EINVAL or EADDRNOTAVAIL, by version and by the way of attaching. The library
// returns ErrNotExist for a bad offset, too, and for a function that exists and is refused: it
// tries the name of a system call's function then, and returns the error of that.
func kprobeError(kind string, m *Match, err error) error {
	absent := errors.Is(err, os.ErrNotExist)
	k, kerr := kallsyms()
	known := kerr == nil && len(k.Find(m.Name)) > 0
	switch {
	case kerr == nil && !known, absent && kerr != nil && m.Offset == 0:
		return noMatch(kind, strings.TrimPrefix(m.Group+":"+m.Name, ":"))
	case absent && m.Offset > 0:
		//lint:ignore ST1005 bpftrace's words
		return errors.New("Possible attachment attempt in the middle of an instruction, try a different offset.")
	case absent:
		return errors.New("the kernel has this function and refuses a kprobe on it; fentry may be possible")
	}
	var no unix.Errno
	if errors.As(err, &no) && !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES) {
		return fmt.Errorf("the kernel does not let it be probed: %w", no) // without the library's many steps
	}
	return err
}
