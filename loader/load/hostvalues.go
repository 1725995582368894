// SPDX-License-Identifier: Apache-2.0

package load

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"btc/internal/kernelfs"
	"btc/internal/manifest"
	"btc/loader/diag"
	"btc/loader/host"
	"btc/loader/object"
	"btc/loader/rewrite"
	"btc/loader/sites"
)

// hostSource is what host values are taken from.
type hostSource struct {
	host  *host.Host
	exp   *sites.Expansion
	child int // process ID of the command; 0: none

	unwind rewrite.Unwind
}

// setHostValues looks up the constants that the host decides.
func setHostValues(o *object.Object, from *hostSource) error {
	for i := range o.Manifest.Globals {
		g := &o.Manifest.Globals[i]
		value := g.Value()
		if value == "" {
			continue
		}
		v, err := from.lookUp(value, g.Text)
		if err != nil {
			f := &diag.Error{Script: &o.Manifest.Script, Text: err.Error(), Cause: err, Severe: true}
			if g.Pos != nil {
				f.Pos = *g.Pos
			}
			return f
		}
		if err := set(o, g.Name, manifest.Number(v, g.Size)); err != nil {
			return err
		}
	}
	return nil
}

func (s *hostSource) lookUp(value manifest.HostValue, text string) (uint64, error) {
	switch value {
	case manifest.HostKaddr:
		addr, ok, err := kernelfs.SymbolAddress(text)
		if err == nil && !ok {
			//lint:ignore ST1005 bpftrace's words
			err = fmt.Errorf("Failed to resolve kernel symbol: %s", text)
		}
		return addr, err
	case manifest.HostKaddrOr0:
		addr, _, err := kernelfs.SymbolAddress(text)
		return addr, err
	case manifest.HostKfuncExist:
		id, err := kfuncID(text)
		return truth(id != 0), err
	case manifest.HostKfuncAllowed:
		name, kind, _ := strings.Cut(text, " ")
		return kfuncAllowed(name, kind)
	case manifest.HostUaddr, manifest.HostUaddrCode:
		program, symbol, _ := strings.Cut(text, " ")
		return userSymbol(s.exp, program, symbol, value == manifest.HostUaddr)
	case manifest.HostCgroupID:
		return cgroupID(text)
	case manifest.HostStart:
		return s.host.Start, nil
	case manifest.HostPIDNSDev:
		return s.host.PIDNS.Dev, nil
	case manifest.HostPIDNSIno:
		return s.host.PIDNS.Ino, nil
	case manifest.HostTAIOff:
		return s.host.SoftTAI(), nil
	case manifest.HostNcpus:
		return uint64(s.host.Possible), nil
	case manifest.HostCpid:
		return uint64(s.child), nil
	case manifest.HostOwnReader:
		return 1, nil
	case manifest.HostUnwind:
		return uint64(s.unwind), nil
	}
	panic("BUG: no code for the host value " + string(value))
}

func truth(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// kfuncID returns the number of a kernel function's type in the kernel's BTF, 0 when
// there is none.
func kfuncID(name string) (btf.TypeID, error) {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return 0, fmt.Errorf("cannot read the kernel's types: %w", err)
	}
	var f *btf.Func
	switch err := spec.TypeByName(name, &f); {
	case errors.Is(err, btf.ErrNotFound):
		return 0, nil
	case err != nil:
		return 0, err
	}
	return spec.TypeID(f)
}

// kfuncAllowed probes whether a kind of probe may call a kernel function: if not, the kernel refuses a program that
// calls it with a characteristic message.
func kfuncAllowed(name, kind string) (uint64, error) {
	id, err := kfuncID(name)
	if err != nil || id == 0 {
		return 0, err
	}
	spec := &ebpf.ProgramSpec{Type: object.ProgramType(kind), License: "GPL", Instructions: asm.Instructions{
		{OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.Call), Src: asm.PseudoKfuncCall, Constant: int64(id)},
		asm.Return(),
	}}
	if spec.Type == ebpf.Tracing {
		spec.AttachType, spec.AttachTo = ebpf.AttachTraceRawTp, "sys_enter"
	}
	p, err := ebpf.NewProgramWithOptions(spec, ebpf.ProgramOptions{LogLevel: ebpf.LogLevelBranch})
	if err == nil {
		p.Close()
		return 1, nil
	}
	var ve *ebpf.VerifierError
	if !errors.As(err, &ve) || len(ve.Log) == 0 {
		return 0, nil // before 5.13 no program can call one
	}
	log := strings.Join(ve.Log, "\n")
	refused := strings.Contains(log, "calling kernel function "+name+" is not allowed") ||
		strings.Contains(log, "reserved fields") // before 5.13
	return truth(!refused), nil
}

// cgroupID returns the id of the cgroup at a path: its inode's number.
func cgroupID(path string) (uint64, error) {
	var fs unix.Statfs_t
	var st unix.Stat_t
	err := unix.Statfs(path, &fs)
	if err == nil {
		err = unix.Stat(path, &st)
	}
	if err == nil && fs.Type != unix.CGROUP2_SUPER_MAGIC && fs.Type != unix.CGROUP_SUPER_MAGIC {
		err = errors.New("not in a cgroup file system")
	}
	if err != nil {
		//lint:ignore ST1005 bpftrace's words
		return 0, fmt.Errorf("Failed to get `cgroupid` for path: %q: %w", path, err)
	}
	return st.Ino, nil
}
