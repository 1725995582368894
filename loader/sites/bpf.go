// SPDX-License-Identifier: Apache-2.0

package sites

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/host"
	"btc/loader/resolve"
)

// bpfTarget reads the target "bpf" or "bpf:ID" of a fentry or fexit of BPF
// programs; the id is 0 for any program.
func bpfTarget(target string) (ebpf.ProgramID, bool) {
	word, number, given := strings.Cut(target, ":")
	if word != "bpf" {
		return 0, false
	}
	if !given || number == "*" {
		return 0, true
	}
	id, err := strconv.ParseUint(number, 0, 32)
	return ebpf.ProgramID(id), err == nil && id != 0
}

// expandBPF finds the functions, subprograms included, of the BPF programs that
// are loaded now. The kernel does not allow tracing of tracing programs.
func expandBPF(p *manifest.Program, only ebpf.ProgramID) (resolve.Plan, error) {
	plan := resolve.Plan{Strategy: resolve.PerMatch}
	err := eachProgram(func(id ebpf.ProgramID, typ ebpf.ProgramType, functions []string) {
		if only != 0 && id != only || typ == ebpf.Tracing || typ == ebpf.Extension {
			return
		}
		for _, name := range functions {
			if probe.Glob(p.Attach.Name, name) {
				plan.Matches = append(plan.Matches, resolve.Match{
					Text: fmt.Sprintf("%s:bpf:%d:%s", p.Kind, id, name), Group: "bpf", Name: name, BPF: id,
				})
			}
		}
	})
	if err != nil {
		return resolve.Plan{}, err
	}
	if len(plan.Matches) == 0 {
		return resolve.Plan{}, resolve.NoMatch(p.Kind, p.Attach.Target+":"+p.Attach.Name)
	}
	return plan, nil
}

// eachProgram visits the loaded BPF programs that have types, with the names of
// their functions. Finding programs needs CAP_SYS_ADMIN.
func eachProgram(visit func(ebpf.ProgramID, ebpf.ProgramType, []string)) error {
	id := ebpf.ProgramID(0)
	for {
		next, err := ebpf.ProgramGetNextID(id)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			if errors.Is(err, unix.EPERM) {
				return fmt.Errorf("cannot list BPF programs: %w (%s)", err, host.Reason("CAP_SYS_ADMIN"))
			}
			return fmt.Errorf("cannot list BPF programs: %w", err)
		}
		id = next
		prog, err := ebpf.NewProgramFromID(id)
		if err != nil { // unloaded in the meantime
			continue
		}
		if functions := functionNames(prog); len(functions) > 0 {
			visit(id, prog.Type(), functions)
		}
		prog.Close()
	}
}

func functionNames(prog *ebpf.Program) []string {
	info, err := prog.Info()
	if err != nil {
		return nil
	}
	funcs, err := info.FuncInfos()
	if err != nil {
		return nil
	}
	var names []string
	for _, f := range funcs {
		if f.Func != nil {
			names = append(names, f.Func.Name)
		}
	}
	return names
}

// listBPF lists the functions of BPF programs.
func listBPF(kind, name string, only ebpf.ProgramID) ([]string, error) {
	plan, err := expandBPF(&manifest.Program{Kind: kind, Attach: manifest.Attach{Target: "bpf", Name: name}}, only)
	if resolve.IsMissing(err) {
		return nil, nil
	}
	var out []string
	for i := range plan.Matches {
		out = append(out, plan.Matches[i].Text)
	}
	return out, err
}
