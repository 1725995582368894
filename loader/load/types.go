// SPDX-License-Identifier: Apache-2.0

package load

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"

	"btc/internal/kernelfs"
	"btc/loader/adapt"
	"btc/loader/diag"
	"btc/loader/kerneltypes"
	"btc/loader/object"
)

// findKernelTypes reads the kernel's types that the object names, if the object has relocations. They are the
// kernel's own, or supplied by the user; types that the kernel lacks are searched in its modules.
func (p *programs) findKernelTypes() error {
	names := p.coreTypes()
	if len(names) == 0 {
		return nil
	}
	path, err := p.typesFile()
	if err != nil {
		if p.opts.BTF == "" && p.fixRecords() {
			return p.findKernelTypes()
		}
		return p.noTypes(path, err)
	}
	blob, missing, err := kerneltypes.Subset(path, names)
	if err == nil {
		p.types, err = btf.LoadSpecFromReader(bytes.NewReader(blob))
	}
	if err != nil && path == kerneltypes.Path { // the library may be able to read types that this process cannot
		p.types, err = p.cache.Kernel()
	}
	if err != nil {
		return p.noTypes(path, err)
	}
	if i := slices.Index(missing, adapt.SyscallRecord); i >= 0 {
		p.fixRecords()
		missing = slices.Delete(missing, i, i+1)
	}
	if len(missing) > 0 && path == kerneltypes.Path {
		return p.findModuleTypes(missing)
	}
	return nil
}

// fixRecords makes programs read the records of system calls at fixed offsets if the kernel's types do not describe
// them; adapt.Tracepoint then checks the format files. It reports whether it changed any program.
func (p *programs) fixRecords() bool {
	found := false
	for name, s := range p.object.Spec.Programs {
		found = adapt.FixRecord(p.object.Manifest, name, s.Instructions) || found
	}
	return found
}

// findModuleTypes adds the types of the modules that have one of the names.
func (p *programs) findModuleTypes(names []string) error {
	modules, err := kerneltypes.Modules(names)
	if err != nil {
		return p.noTypes(kerneltypes.Path, err)
	}
	for _, m := range modules {
		spec, err := p.cache.Module(m)
		switch {
		case errors.Is(err, fs.ErrNotExist): // unloaded by now
		case err != nil:
			return p.noTypes(m, err)
		default:
			p.moduleTypes = append(p.moduleTypes, spec)
		}
	}
	return nil
}

// typesFile returns the file with the kernel's types: the user's, or the kernel itself. For a kernel that does not
// expose types, the file is in the directory btf next to the object, or from a distribution's package.
func (p *programs) typesFile() (string, error) {
	if given := p.opts.BTF; given != "" {
		fi, err := os.Stat(given)
		if err != nil || !fi.IsDir() {
			return given, err
		}
		k, err := runningKernel()
		if err != nil {
			return given, err
		}
		path, err := k.InDir(given)
		if err != nil {
			return given, err
		}
		return path, nil
	}
	_, missing := os.Stat(kerneltypes.Path)
	if !errors.Is(missing, fs.ErrNotExist) {
		return kerneltypes.Path, nil
	}
	k, err := runningKernel()
	if err != nil {
		return kerneltypes.Path, missing
	}
	dir := filepath.Join(filepath.Dir(p.object.Path), "btf")
	if _, err := os.Stat(dir); err == nil && p.object.Path != object.StreamName {
		path, err := k.InDir(dir)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return path, err
		}
	}
	for _, image := range k.Images() {
		if fi, err := os.Stat(image); err == nil && fi.Mode().IsRegular() {
			return image, nil
		}
	}
	return kerneltypes.Path, missing
}

func runningKernel() (*kerneltypes.Kernel, error) {
	k := &kerneltypes.Kernel{}
	var err error
	if k.Release, err = kernelfs.Release(); err != nil {
		return nil, err
	}
	if k.Machine, err = kernelfs.Machine(); err != nil {
		return nil, err
	}
	for _, path := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		if b, err := os.ReadFile(path); err == nil {
			k.System = string(b)
			break
		}
	}
	return k, nil
}

// noTypes reports that the kernel's types are unavailable.
func (p *programs) noTypes(path string, err error) error {
	if p.opts.BTF != "" {
		var at *fs.PathError
		if errors.As(err, &at) {
			err = at.Err
		}
		return fmt.Errorf("--btf %s: %w", p.opts.BTF, err)
	}
	f := &diag.Error{Script: &p.object.Manifest.Script, Cause: err}
	switch {
	case path == kerneltypes.Path && errors.Is(err, fs.ErrNotExist):
		f.Text = "this kernel has no BTF (" + kerneltypes.Path + " is missing), and the script uses kernel structures"
		if uses := p.object.Manifest.Fields; len(uses) > 0 {
			f.Pos = uses[0].Pos
		}
		f.Hint = "supply its types with --btf FILE, or --btf DIR for an unpacked archive of btfhub; or use a kernel built with CONFIG_DEBUG_INFO_BTF=y"
	case path == kerneltypes.Path:
		f.Text = "the kernel's types cannot be read: " + err.Error()
	default:
		f.Text = "the types of " + path + " cannot be read: " + err.Error()
	}
	return f
}

// coreTypes returns the names of the types that the object's relocations may refer to: all named types in its BTF,
// without the flavor after "___", including types of values that are printed whole. It is empty if there are no
// relocations.
func (p *programs) coreTypes() []string {
	whole := adapt.WholeTypes(p.object.Manifest)
	relocated := false
	for _, s := range p.object.Spec.Programs {
		for i := range s.Instructions {
			relocated = relocated || btf.CORERelocationMetadata(&s.Instructions[i]) != nil
		}
	}
	if !relocated || p.object.Spec.Types == nil {
		return whole
	}
	names := whole
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
