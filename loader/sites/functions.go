// SPDX-License-Identifier: Apache-2.0

package sites

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"btc/internal/kernelfs"
	"btc/internal/manifest"
	"btc/internal/probe"
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

// Several reports whether several functions have the name of a kprobe. It is false on kernels that report this
// themselves when the probe is attached: those with kprobe.session (6.10).
func (x *expander) Several(a *manifest.Attach) (bool, error) {
	ofModule := a.Target != "" && a.Target != "vmlinux"
	if ofModule { // the kernel ignores the module
		return true, nil
	}
	if x.host.KprobeSession() || x.opts.Functions != "" {
		return false, nil
	}
	if err := x.readFunctions(); err != nil {
		return false, nil // the list is not needed to attach
	}
	n := 0
	for i := range x.functions {
		if x.functions[i].Name == a.Name {
			n++
		}
	}
	return n > 1, nil
}
