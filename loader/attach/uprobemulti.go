package attach

import (
	"errors"
	"io"
	"slices"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"btc/internal/probe"
)

// several is a set of links that are closed together.
type several []io.Closer

func (s several) Close() error {
	var errs []error
	for _, l := range s {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// attachMulti links a program to the places of a plan, file by file. Of many
// places the kernel refuses all when it refuses one: then they are tried in
// halves, and those that it will not have are left out.
func attachMulti(plan *Plan, prog *ebpf.Program, o Options) (l io.Closer, refused []string, err error) {
	var links several
	var failure error
	byFile := map[string][]*Match{}
	var files []string
	for i := range plan.Matches {
		m := &plan.Matches[i]
		if byFile[m.Path] == nil {
			files = append(files, m.Path)
		}
		byFile[m.Path] = append(byFile[m.Path], m)
	}
	for _, path := range files {
		ex, err := link.OpenExecutable(path)
		if err != nil {
			links.Close()
			return nil, nil, err
		}
		var try func(ms []*Match) error
		try = func(ms []*Match) error {
			l, err := linkMulti(plan, ex, prog, ms, o)
			switch {
			case err == nil:
				links = append(links, l)
				return nil
			case !refusesPlace(err) || len(plan.Matches) == 1:
				return err
			case len(ms) == 1:
				refused, failure = append(refused, ms[0].Text), err
				return nil
			}
			half := len(ms) / 2
			if err := try(ms[:half]); err != nil {
				return err
			}
			return try(ms[half:])
		}
		if err := try(byFile[path]); err != nil {
			links.Close()
			return nil, nil, err
		}
	}
	if len(links) == 0 {
		return nil, nil, failure
	}
	return links, refused, nil
}

// enotsupp is an error number of the kernel that C libraries do not know.
const enotsupp = syscall.Errno(524)

// refusesPlace: errors that may be due to one of several places: an instruction
// that cannot be probed, or an offset where there is none.
func refusesPlace(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, enotsupp) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EIO) || errors.Is(err, unix.ENOEXEC)
}

func linkMulti(plan *Plan, ex *link.Executable, prog *ebpf.Program, ms []*Match, o Options) (link.Link, error) {
	opts := &link.UprobeMultiOptions{PID: uint32(o.process())}
	counted := slices.ContainsFunc(ms, func(m *Match) bool { return m.Semaphore != 0 })
	for _, m := range ms {
		opts.Addresses = append(opts.Addresses, m.Offset)
		if plan.Prog.UsesID {
			opts.Cookies = append(opts.Cookies, uint64(m.ID))
		}
		if counted {
			opts.RefCtrOffsets = append(opts.RefCtrOffsets, m.Semaphore)
		}
	}
	if plan.Prog.Kind == probe.Uretprobe {
		return ex.UretprobeMulti(nil, prog, opts)
	}
	return ex.UprobeMulti(nil, prog, opts)
}
