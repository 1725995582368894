// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"btc/internal/kernelfs"
	"btc/internal/probe"
	"btc/loader/host"
	"btc/loader/resolve"
)

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
	if errors.Is(err, unix.EADDRNOTAVAIL) { // several functions have the name: __trace_kprobe_create since 6.7
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
	// The cookie is the number of the attach point, which bpf_get_attach_cookie returns. The kernel sorts addresses and
	// cookies together (bpf_kprobe_multi_link_attach), so their order here does not matter.
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
	// Any other error is not due to an element. The kernel returns ESRCH for a list with a name that no function has
	// (ftrace_lookup_symbols in kernel/trace/ftrace.c), which the library turns into ErrNotExist, and refuses a list with an
	// address that ftrace has no entry for (ftrace_set_filter_ips).
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
