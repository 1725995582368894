// SPDX-License-Identifier: Apache-2.0

package objload

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// Other is the result of loading one object with another loader.
type Other struct {
	Name     string   `json:"other"` // name of the object
	Programs int      `json:"programs"`
	Problems []string `json:"problems,omitempty"` // empty if both loaders passed the same programs to the kernel
}

// pins is the mount point of the BPF file system.
const pins = "/sys/fs/bpf"

// Bpftool loads an object with bpftool, which uses libbpf, and with cilium/ebpf, in both cases without
// changing it, and compares the programs in the kernel. The tag of a program is a hash of its
// instructions after relocation, without the file descriptors of maps.
func (l *Loader) Bpftool(bpftool, name, path string) Other {
	o := Other{Name: name}
	problem := func(format string, args ...any) Other {
		o.Problems = append(o.Problems, fmt.Sprintf(format, args...))
		return o
	}
	dir := filepath.Join(pins, name)
	if out, err := exec.Command(bpftool, "prog", "loadall", path, dir).CombinedOutput(); err != nil {
		return problem("bpftool does not load it: %v\n%s", err, lastLines(out, 12))
	}
	defer os.RemoveAll(dir)
	object, err := os.ReadFile(path)
	if err != nil {
		return problem("%v", err)
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return problem("reading the object: %v", err)
	}
	ours, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Cache: l.cache})
	if err != nil {
		return problem("cilium/ebpf does not load it: %v", err)
	}
	defer ours.Close()
	for program, p := range ours.Programs {
		// bpftool names the pins after the functions of the programs, without dots.
		theirs, err := ebpf.LoadPinnedProgram(filepath.Join(dir, strings.ReplaceAll(program, ".", "_")), nil)
		if err != nil {
			problem("%s: bpftool has not pinned it: %v", program, err)
			continue
		}
		o.Programs++
		if difference := differ(p, theirs, len(functions(spec.Programs[program].Instructions))); difference != "" {
			problem("%s: %s", program, difference)
		}
		theirs.Close()
	}
	return o
}

// differ describes the difference between two loaded programs of so many functions, or returns "". Loaders order
// subprograms differently, which changes the tag; in this case differ compares the functions by name, as translated by
// the kernel, which since 6.8 removes those whose calls it has removed.
func differ(ours, theirs *ebpf.Program, n int) string {
	a, errA := ours.Info()
	b, errB := theirs.Info()
	if err := errors.Join(errA, errB); err != nil {
		return err.Error()
	}
	if a.Tag == b.Tag {
		return ""
	}
	insnsA, errA := a.Instructions()
	insnsB, errB := b.Instructions()
	if err := errors.Join(errA, errB); err != nil {
		return err.Error()
	}
	functionsA, functionsB := functions(insnsA), functions(insnsB)
	if n < 3 || len(functionsA) != len(functionsB) {
		return fmt.Sprintf("bpftool gives the kernel another program (tag %s) than cilium/ebpf (%s)", b.Tag, a.Tag)
	}
	for name, text := range functionsA {
		for i, insn := range text {
			if other := functionsB[name]; i >= len(other) || insn != other[i] {
				return fmt.Sprintf("in function %s instruction %d is %s for cilium/ebpf, another for bpftool", name, i, insn)
			}
		}
	}
	return ""
}

// functions returns the instructions of a program as strings, by function, without the parts that
// depend on the position of a function or the number of a map.
func functions(insns asm.Instructions) map[string][]string {
	all, name := map[string][]string{}, ""
	for _, insn := range insns {
		if f := btf.FuncMetadata(&insn); f != nil {
			name = f.Name
		}
		if insn.IsLoadFromMap() || insn.IsFunctionReference() {
			insn.Constant, insn.Offset = 0, 0
		}
		all[name] = append(all[name], fmt.Sprintf("%#x %v %v %d %d", uint8(insn.OpCode), insn.Dst, insn.Src, insn.Offset, insn.Constant))
	}
	return all
}

func lastLines(text []byte, n int) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
