// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"btc/internal/kernelfs"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/host"
	"btc/loader/resolve"
)

var errNoKprobes = errors.New("this kernel has no kprobes (CONFIG_KPROBE_EVENTS)")

// CheckKprobes returns the error for every kprobe on a kernel without kprobes, in the form of the error for a missing
// function.
func (x *expander) CheckKprobes(p *manifest.Program) error {
	if haveKprobes() {
		return nil
	}
	a := &p.Attach
	what := strings.TrimPrefix(a.Text, p.Kind+":")
	if a.Name == "" {
		what = strconv.FormatUint(a.Addr, 10)
	}
	err := &resolve.Missing{
		Text:    "No matches for " + p.Kind + " " + what + ".",
		Pattern: probe.IsPattern(a.Target + a.Name),
		Why:     errNoKprobes.Error(),
	}
	if x.opts.Unsafe && !err.Pattern { // with --unsafe no list is read; the kernel decides
		err.Text = "Unable to attach probe: " + p.Kind + ":" + what + "."
	}
	return err
}

// CheckFunction checks a function against the user's list. Without one, the kernel itself
// reports when the probe is attached.
func (x *expander) CheckFunction(p *manifest.Program) error {
	if x.opts.Functions == "" {
		return nil
	}
	name := p.Attach.Name
	if err := x.readFunctions(); err != nil {
		return err
	}
	if slices.ContainsFunc(x.functions, func(f resolve.Function) bool { return f.Name == name }) {
		return nil
	}
	if !x.opts.Unsafe {
		return resolve.NoMatch(p.Kind, strings.TrimPrefix(p.Attach.Target+":"+name, ":"))
	}
	x.warn(p,
		name+` is not traceable (either non-existing, inlined, or marked as "notrace"); attaching to it will likely fail`)
	return nil
}

// Address converts an address to a function and an offset, which every kernel version accepts.
func (x *expander) Address(p *manifest.Program) (resolve.Match, error) {
	a := &p.Attach
	k, err := kernelfs.LoadKallsyms()
	if err != nil {
		return resolve.Match{}, fmt.Errorf("the addresses of kernel functions cannot be read: %w", err)
	}
	sym, off, ok := k.Lookup(a.Addr)
	if !ok {
		return resolve.Match{}, &resolve.Missing{
			Text: fmt.Sprintf("Unable to attach probe: %s:%d: no kernel function is at address %#x.", p.Kind, a.Addr,
				a.Addr),
		}
	}
	return resolve.Match{Text: a.Text, Group: sym.Module, Name: sym.Name, Offset: off}, nil
}

// haveKprobes reports whether the kernel has kprobes, as a perf event source (4.17) or in tracefs.
func haveKprobes() bool {
	if _, err := os.Stat("/sys/bus/event_source/devices/kprobe/type"); err == nil {
		return true
	}
	dir, err := kernelfs.Tracefs()
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

// readFunctions lists what can be probed: from tracefs, or, if that cannot be read, from kallsyms, which also names
// functions that the kernel will refuse.
func (x *expander) readFunctions() error {
	if x.functions != nil {
		return nil
	}
	x.functions = make([]resolve.Function, 0, 50_000) // kernels have some 40,000
	add := func(f resolve.Function) {
		if f.Module == "" {
			f.Module = resolve.Vmlinux
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
	k, err := kernelfs.LoadKallsyms()
	if err != nil {
		x.functions = nil
		return fmt.Errorf("the list of kernel functions cannot be read: %w", err)
	}
	k.Each(func(s kernelfs.Symbol) bool {
		add(resolve.Function{Name: s.Name, Module: s.Module})
		return true
	})
	return nil
}

// readFilterFunctions reads lines of the form "name" or "name [module]", from a
// file or, for "", tracefs.
func readFilterFunctions(path string, add func(resolve.Function)) error {
	if path == "" {
		dir, err := kernelfs.Tracefs()
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
		add(resolve.Function{Name: name, Module: strings.Trim(module, "[] ")})
	}
	return nil
}

func attachKprobe(plan *resolve.Plan, m *resolve.Match, prog *ebpf.Program, _ Options,
	_ *host.Host) (io.Closer, error) {
	ret := plan.Prog.Kind == probe.Kretprobe
	o := &link.KprobeOptions{Offset: m.Offset}
	attach := link.Kprobe
	if ret {
		attach = link.Kretprobe
	}
	if m.Several {
		l, err := attachNamesakes(m, prog, ret)
		if !errors.Is(err, kernelfs.ErrHiddenSymbols) {
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

// attachKprobeMulti probes all functions of a pattern with one link (kprobe.multi, 5.18). The
// kernel refuses a list if one function cannot be probed, so the list is bisected to find such
// functions, which are skipped. A link by name gets the first function of each name, so functions
// that share a name get a separate link, by address.
func attachKprobeMulti(plan *resolve.Plan, prog *ebpf.Program) (l io.Closer, refused []string, err error) {
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
		err = &resolve.Missing{Text: "none of the functions can be probed"}
	}
	if err != nil {
		all.Close()
		return nil, nil, err
	}
	return all, refused, nil
}

// bisect calls use for a list, and, if it is refused, for its halves. refused is called for each single element that
// is refused. The returned error is not related to an element.
func bisect[T any](list []T, use func([]T) error, refused func(T)) error {
	err := use(list)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ESRCH) && !errors.Is(err, os.ErrNotExist) &&
		!errors.Is(err, unix.EADDRNOTAVAIL):
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

// closers are the links of a plan with several links.
type closers []io.Closer

func (c closers) Close() error {
	var errs []error
	for _, l := range c {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// kprobeError describes the kernel's error. For a missing function kernels return ENOENT, EINVAL or EADDRNOTAVAIL,
// depending on the version and the way of attaching. The library also returns ErrNotExist for a bad offset, and for
// an existing function that is refused, because it then tries the name of a system call's function and returns that
// error.
func kprobeError(kind string, m *resolve.Match, err error) error {
	absent := errors.Is(err, os.ErrNotExist)
	k, kerr := kallsyms()
	known := kerr == nil && len(k.Find(m.Name)) > 0
	switch {
	case kerr == nil && !known, absent && kerr != nil && m.Offset == 0:
		return resolve.NoMatch(kind, strings.TrimPrefix(m.Group+":"+m.Name, ":"))
	case absent && m.Offset > 0:
		//lint:ignore ST1005 bpftrace's words
		return errors.New("Possible attachment attempt in the middle of an instruction, try a different offset.")
	case absent:
		return errors.New("the kernel has this function and refuses a kprobe on it; fentry may be possible")
	}
	var no unix.Errno
	if errors.As(err, &no) && !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES) {
		return fmt.Errorf("the kernel does not allow probing it: %w", no) // without the library's chain of errors
	}
	return err
}
