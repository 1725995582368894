// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"btc/loader/host"
	"btc/loader/resolve"
)

// attachIter creates the link; Iterator reads it. An iterator with a path is pinned there instead, and outlives the
// run.
func attachIter(plan *resolve.Plan, m *resolve.Match, prog *ebpf.Program, o Options, _ *host.Host) (io.Closer, error) {
	l, err := linkIter(prog.FD(), infoFor(m.Name, o.pid))
	// A kernel that does not know the task in bpf_iter_link_info returns E2BIG for bytes past the end of its own struct
	// that are not zero (bpf_check_uarg_tail_zero).
	if o.pid != 0 && (errors.Is(err, unix.E2BIG) || errors.Is(err, unix.EINVAL)) {
		return nil, fmt.Errorf("-p with an iterator needs Linux 6.1: %w", err)
	}
	if err != nil {
		return nil, err
	}
	path := resolve.PinPath(plan.Prog)
	if path == "" {
		return l, nil
	}
	err = pinIn(l, path, o)
	l.Close() // the file keeps it open
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, fmt.Errorf("%s exists: remove it to unpin the iterator there", path)
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("cannot pin to %s: the directory does not exist, or no BPF file system is mounted there (mount -t bpf bpf /sys/fs/bpf)",
			path)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES): // not a lack of capabilities
		return nil, fmt.Errorf("cannot pin to %s: not in a BPF file system (such as /sys/fs/bpf), or not writable: %v",
			path, err)
	case err != nil:
		return nil, fmt.Errorf("cannot pin to %s: %w", path, err)
	}
	return pinned{}, nil
}

// pinIn pins a link relative to its directory, so that no symbolic link in the path can leave it.
func pinIn(l iterLink, path string, o Options) error {
	if o.PinDir == nil {
		return l.pin(path)
	}
	dir, name, err := o.PinDir(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	return l.pin(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name))
}

// pinned is a link that outlives the run.
type pinned struct{}

func (pinned) Close() error { return nil }

// Iterator opens the output of an iterator's link; nil for other links. Reading it runs the program.
func Iterator(l io.Closer) (io.ReadCloser, error) {
	it, ok := l.(iterLink)
	if !ok {
		return nil, nil
	}
	return it.open()
}
