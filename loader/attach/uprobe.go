// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"runtime"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"btc/internal/probe"
	"btc/internal/safefile"
	"btc/loader/host"
	"btc/loader/resolve"
)

// pathOf returns a path for the kernel that leads to the file of a match, whatever is at the file's own path by now:
// that path only if no user but root can change what it names. Lists of the kernel's links show it.
func pathOf(m *resolve.Match) string {
	if m.File == nil {
		return m.Path
	}
	if path, err := safefile.PathOf(m.File); err == nil && safefile.OfRoot(path) {
		return path
	}
	return fmt.Sprintf("/proc/self/fd/%d", m.File.Fd())
}

// attachUprobe links a program to an offset in a file.
func attachUprobe(plan *resolve.Plan, m *resolve.Match, prog *ebpf.Program, o Options,
	h *host.Host) (io.Closer, error) {
	attr, err := probeEvent("uprobe", plan.Prog.Kind == probe.Uretprobe)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("this kernel has no uprobes (CONFIG_UPROBE_EVENTS)")
	}
	if err != nil {
		return nil, err
	}
	path, err := unix.BytePtrFromString(pathOf(m))
	if err != nil || m.Semaphore > math.MaxUint32 {
		return nil, fmt.Errorf("%q cannot be probed: the path contains a NUL byte, or the counter's offset %#x is too large",
			m.Path, m.Semaphore)
	}
	attr.Ext1, attr.Ext2 = uint64(uintptr(unsafe.Pointer(path))), m.Offset
	attr.Config |= m.Semaphore << 32 // PERF_UPROBE_REF_CTR_OFFSET_SHIFT
	pid, cpu := o.process(), -1
	if pid == 0 {
		pid, cpu = -1, h.Online[0] // one event serves all CPUs
	}
	l, err := linkEvent(attr, pid, cpu, prog)
	runtime.KeepAlive(path)
	runtime.KeepAlive(m.File)
	return l, err
}
