package load

import (
	"bytes"
	"errors"
	"os"
	"strings"

	"github.com/cilium/ebpf/btf"

	"btc/loader/kerneltypes"
	"btc/loader/report"
)

// findKernelTypes gets the kernel's types when the object has relocations: only
// those that the object names, where all are the kernel's own. With one in a
// module, or with BTF that we cannot read, the library looks at everything.
func (p *programs) findKernelTypes() error {
	names := p.coreTypes()
	if len(names) == 0 {
		return nil
	}
	blob, err := kerneltypes.Subset(kerneltypes.Path, names)
	if err == nil {
		if p.types, err = btf.LoadSpecFromReader(bytes.NewReader(blob)); err == nil {
			return nil
		}
		p.types = nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		if _, err = btf.LoadKernelSpec(); err == nil {
			return nil
		}
	}
	f := &report.Fault{Script: &p.object.Manifest.Script, Cause: err, Text: "the kernel's types cannot be read: " + err.Error()}
	if errors.Is(err, os.ErrNotExist) {
		f.Text = "this kernel has no BTF (" + kerneltypes.Path + " is missing), and the script uses kernel structures"
		if uses := p.object.Manifest.Fields; len(uses) > 0 {
			f.Pos = uses[0].Pos
		}
		f.Hint = "use a kernel built with CONFIG_DEBUG_INFO_BTF=y"
	}
	return f
}

// coreTypes names the types that the object's relocations may refer to: all named
// ones of its own BTF, without the flavour behind "___". None when there are no
// relocations.
func (p *programs) coreTypes() []string {
	relocated := false
	for _, s := range p.object.Spec.Programs {
		for i := range s.Instructions {
			relocated = relocated || btf.CORERelocationMetadata(&s.Instructions[i]) != nil
		}
	}
	if !relocated || p.object.Spec.Types == nil {
		return nil
	}
	var names []string
	for t, err := range p.object.Spec.Types.All() {
		if err != nil {
			break
		}
		switch t.(type) {
		case *btf.Struct, *btf.Union, *btf.Enum:
			if name, _, _ := strings.Cut(t.TypeName(), "___"); name != "" {
				names = append(names, name)
			}
		}
	}
	return names
}
