// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"io"
	"syscall"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"btc/internal/probe"
	"btc/loader/resolve"
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

// attachMulti links a program to the attach sites of a plan, file by file and process by process. If the kernel
// refuses one, it refuses all: then the list is bisected, and the refused ones are skipped.
func attachMulti(plan *resolve.Plan, progs []*ebpf.Program, o Options) (l io.Closer, refused []string, err error) {
	var links several
	var failure error
	type group struct {
		path string
		pid  int
	}
	grouped := map[group][]*resolve.Match{}
	var groups []group
	program := map[group]*ebpf.Program{}
	for i := range plan.Matches {
		m := &plan.Matches[i]
		g := group{m.Path, m.PID}
		if grouped[g] == nil {
			groups = append(groups, g)
			program[g] = progs[i]
		}
		grouped[g] = append(grouped[g], m)
	}
	for _, g := range groups {
		o.pid = g.pid
		var try func(ms []*resolve.Match) error
		try = func(ms []*resolve.Match) error {
			l, err := linkMulti(plan, pathOf(ms[0]), program[g], ms, o)
			switch {
			case err == nil:
				links = append(links, l)
				return nil
			case !refusesSite(err) || len(plan.Matches) == 1:
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
		err := try(grouped[g])
		// The process has ended: bpf_uprobe_multi_link_attach does not find its PID.
		if errors.Is(err, unix.ESRCH) && len(groups) > 1 {
			failure = err
			continue
		}
		if err != nil {
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

// refusesSite reports whether an error may be due to one of several attach sites: an instruction that cannot be
// probed, or an offset without an instruction.
func refusesSite(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, enotsupp) || errors.Is(err, unix.EOPNOTSUPP) ||
		errors.Is(err, unix.EIO) ||
		errors.Is(err, unix.ENOEXEC)
}

// multiUprobe is the part of union bpf_attr of BPF_LINK_CREATE for a link to several sites in one file (linux/bpf.h).
type multiUprobe struct {
	prog, target, kind, flags           uint32
	path                                *byte
	offsets, semaphores, cookies        *uint64
	count, multiFlags, pid, unusedAtEnd uint32
}

// ofReturns is BPF_F_UPROBE_MULTI_RETURN.
const ofReturns = 1

func linkMulti(plan *resolve.Plan, path string, prog *ebpf.Program, ms []*resolve.Match, o Options) (io.Closer, error) {
	name, err := unix.BytePtrFromString(path)
	if err != nil {
		return nil, fmt.Errorf("%q: the path contains a NUL byte", path)
	}
	offsets, semaphores, cookies := make([]uint64, len(ms)), make([]uint64, len(ms)), make([]uint64, len(ms))
	attr := multiUprobe{
		prog:    uint32(prog.FD()),
		kind:    uint32(ebpf.AttachTraceUprobeMulti),
		path:    name,
		offsets: &offsets[0],
		count:   uint32(len(ms)),
		pid:     uint32(o.process()),
	}
	// The semaphores are ref_ctr_offset of each site, 0 for none. Without any the array is left out.
	for i, m := range ms {
		if offsets[i], semaphores[i], cookies[i] = m.Offset, m.Semaphore, uint64(m.ID); m.Semaphore != 0 {
			attr.semaphores = &semaphores[0]
		}
	}
	if plan.Prog.UsesID {
		attr.cookies = &cookies[0]
	}
	if plan.Prog.Kind == probe.Uretprobe {
		attr.multiFlags = ofReturns
	}
	fd, err := bpf(unix.BPF_LINK_CREATE, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	if err != nil {
		return nil, fmt.Errorf("attaching to %d sites in %s: %w", len(ms), ms[0].Path, err)
	}
	return fds{fd}, nil
}
