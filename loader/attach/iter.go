package attach

import (
	"fmt"
	"io"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"btc/loader/host"
	"btc/loader/manifest"
)

// expandIter looks for the function that describes a kind of iterator, where the
// kernel's types are at hand; without them loading decides.
func expandIter(x *expander, p *manifest.Program) (Plan, error) {
	if kernel, err := x.host.Types().Kernel(); err == nil {
		switch proto, err := findFunc(kernel, "bpf_iter_"+p.Attach.Name); {
		case err != nil:
			return Plan{}, err
		case proto == nil:
			return Plan{}, &missing{fmt.Sprintf("this kernel has no iterator %s.", p.Attach.Name)}
		}
	}
	return expandOne(x, p)
}

// attachIter makes the link; Iterator reads it.
func attachIter(_ *Plan, _ *Match, prog *ebpf.Program, _ Options, _ *host.Host) (io.Closer, error) {
	l, err := link.AttachIter(link.IterOptions{Program: prog})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Iterator opens what a link of an iter program writes, nil for other links. The
// programs run while it is read.
func Iterator(l io.Closer) (io.ReadCloser, error) {
	it, ok := l.(*link.Iter)
	if !ok {
		return nil, nil
	}
	return it.Open()
}
