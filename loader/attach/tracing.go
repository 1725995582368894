// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"io"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"btc/loader/host"
	"btc/loader/resolve"
)

// attachTracing attaches fentry, fexit and typed raw tracepoints: the target was
// fixed when the program was loaded.
func attachTracing(_ *resolve.Plan, m *resolve.Match, prog *ebpf.Program, _ Options, _ *host.Host) (io.Closer, error) {
	l, err := link.AttachTracing(link.TracingOptions{Program: prog})
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EINVAL) {
		return nil, fmt.Errorf("the kernel does not let %s be traced: %w", m.Name, err)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}
