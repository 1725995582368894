package load

import (
	"errors"
	"os"

	"github.com/cilium/ebpf/btf"

	"btc/loader/report"
)

// findKernelTypes gets the kernel's types when the object has relocations.
func (p *programs) findKernelTypes() error {
	needed := false
	for _, s := range p.object.Spec.Programs {
		for i := range s.Instructions {
			if btf.CORERelocationMetadata(&s.Instructions[i]) != nil {
				needed = true
			}
		}
	}
	if !needed {
		return nil
	}
	spec, err := btf.LoadKernelSpec()
	if err == nil {
		p.types = spec
		return nil
	}
	f := &report.Fault{Script: &p.object.Manifest.Script, Cause: err, Text: "the kernel's types cannot be read: " + err.Error()}
	if _, statErr := os.Stat("/sys/kernel/btf/vmlinux"); errors.Is(statErr, os.ErrNotExist) {
		f.Text = "this kernel has no BTF (/sys/kernel/btf/vmlinux is missing), and the script uses kernel structures"
		f.Hint = "use a kernel built with CONFIG_DEBUG_INFO_BTF=y"
	}
	return f
}
