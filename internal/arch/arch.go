// SPDX-License-Identifier: Apache-2.0

// Package arch describes the architectures of the kernels that programs are compiled
// for and run on: one row for each, with all that differs between them.
//
// It imports nothing of this module. Compiler and loader read the same rows. It never
// asks the running machine for anything.
package arch

import (
	"debug/elf"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// Arch is one row of the table. All architectures are 64 bit and little endian.
type Arch struct {
	Name    string      // as `uname -m` prints it, also in names of files: x86_64, aarch64
	GOARCH  string      // as Go names it: amd64, arm64
	Label   string      // in options, messages and manifests: x86_64, arm64
	Machine elf.Machine // in ELF files
	Default bool        // objects support it unless --arch or --target says otherwise
	Macros  []string    // macros that a C compiler predefines as 1

	// RegsStruct is the BTF struct through which a kprobe's context is read (pt_regs, or the part of it that is
	// stable ABI). RegsSize is its size, and so the end of the readable context.
	RegsStruct string
	RegsSize   int
	// Marker is a member of the kernel's struct pt_regs that no other architecture has.
	Marker string

	Args   []Reg // registers with a function's first integer arguments, arg0 first
	Result Reg   // register with a function's result
	IP     Reg   // instruction pointer
	SP     Reg   // stack pointer
	Regs   []Reg // every name that reg() accepts, in order of offset

	// Mode is the register with the privilege level: user space was interrupted if its bits UserMask have the value
	// UserMode.
	Mode               Reg
	UserMask, UserMode int64
	// PastProbe is the distance in bytes from an address inside the probed function to the IP that a kprobe saves.
	PastProbe int64
	// FP is the frame pointer, as reg() spells it.
	FP string
	// Link is the register with the return address at a function's entry, as reg() spells it; empty where the address
	// is at SP.
	Link string
	// StackArg is the offset from SP, at a function's entry, of the first argument on the
	// stack; 0 where sargN is not supported.
	StackArg int
	// BigArg reports whether a composite of more than 16 bytes is passed by its address, in one argument register;
	// otherwise it is on the stack. WholeArg reports whether all words of a smaller one that contains an integer are
	// in integer registers; otherwise only the words that contain an integer are.
	BigArg, WholeArg bool
	// ResultArg reports whether a function's first argument register has the address of a
	// result of more than 16 bytes.
	ResultArg bool

	// TagBits is the number of a user pointer's upper bits that are not part of the address.
	// The bit below them is set in addresses of the kernel only.
	TagBits int64
	// InsnSize is the size of each instruction in bytes; 0 if it varies.
	InsnSize int
	// FentrySince is the first Linux release (major, minor) with fentry on kernel functions; zero if it is before
	// 5.10.
	FentrySince [2]int

	// AsmRegs maps names of registers in assembly operands, as in USDT arguments, to their offsets in the context.
	AsmRegs map[string]uint16

	// SyscallPrefix is the prefix of the names of syscall entry functions in kallsyms; the
	// syscall's name follows.
	SyscallPrefix string
	// SyscallRegs describes the registers of a system call; nil if system calls cannot be traced through the raw
	// tracepoints sys_enter and sys_exit.
	SyscallRegs *SyscallRegs

	// syscalls lists the system calls: runs of a number and the names from that number on.
	syscalls string
	// eventNames are the system calls whose tracepoints have another name, that of the kernel's function
	// (SYSCALL_DEFINE).
	eventNames map[string]string
}

// Reg is a saved register: Offset is in bytes from the start of the context, all are 8
// bytes wide.
type Reg struct {
	Name   string // as reg() spells it
	Member string // member in RegsStruct; for an array member with the index: "regs[3]"
	Offset int
}

// SyscallRegs is where struct pt_regs has the arguments and the number of a system call, and how to recognize a call
// through the 32-bit ABI.
type SyscallRegs struct {
	Args   [6]int16 // offsets in struct pt_regs
	Nr     int16    // offset of the number
	NrSize int      // size of the number in bytes
	// Field is a member of struct thread_info, read as u32; Bit is set in it during a call through the 32-bit ABI.
	Field string
	Bit   int32
}

// All lists the rows. The target of the first is the base of the other embedded targets.
func All() []*Arch { return rows() }

var rows = sync.OnceValue(func() []*Arch { return []*Arch{x86(), arm64(), riscv64()} })

// ByName finds a row by its Name, GOARCH or Label, or nil if there is none.
func ByName(name string) *Arch {
	return find(func(a *Arch) bool { return a.Name == name || a.GOARCH == name || a.Label == name })
}

// ByMachine finds the row of an ELF machine, or nil if there is none.
func ByMachine(m elf.Machine) *Arch { return find(func(a *Arch) bool { return a.Machine == m }) }

// Host returns the row of the architecture that this program is built for, or nil if there is none.
func Host() *Arch { return ByName(runtime.GOARCH) }

// HostLabel returns the label of Host; Go's name of the architecture when there is no row.
func HostLabel() string {
	if a := Host(); a != nil {
		return a.Label
	}
	return runtime.GOARCH
}

func find(is func(*Arch) bool) *Arch {
	if i := slices.IndexFunc(rows(), is); i >= 0 {
		return rows()[i]
	}
	return nil
}

// Labels lists the labels of all rows.
func Labels() []string { return labels(func(*Arch) bool { return true }) }

// Defaults lists the labels of the rows that an object supports by default.
func Defaults() []string { return labels(func(a *Arch) bool { return a.Default }) }

func labels(is func(*Arch) bool) []string {
	var all []string
	for _, a := range rows() {
		if is(a) {
			all = append(all, a.Label)
		}
	}
	return all
}

// Reg finds a register by the name that reg() uses.
func (a *Arch) Reg(name string) (Reg, bool) {
	for _, r := range a.Regs {
		if r.Name == name {
			return r, true
		}
	}
	return Reg{}, false
}

// pick sets the registers with a role, by name.
func (a *Arch) pick(args, result, ip, sp, mode string) {
	for _, name := range strings.Fields(args) {
		a.Args = append(a.Args, *a.reg(name))
	}
	a.Result, a.IP, a.SP, a.Mode = *a.reg(result), *a.reg(ip), *a.reg(sp), *a.reg(mode)
}

// reg is like Reg, for a name that must exist.
func (a *Arch) reg(name string) *Reg {
	for i := range a.Regs {
		if a.Regs[i].Name == name {
			return &a.Regs[i]
		}
	}
	panic("BUG: no register " + name + " on " + a.Name)
}

// AuditArch returns the architecture's number in the kernel's audit records and seccomp data:
// AUDIT_ARCH_X86_64, for example.
func (a *Arch) AuditArch() uint32 {
	const wide, littleEndian = 0x80000000, 0x40000000 // __AUDIT_ARCH_64BIT, __AUDIT_ARCH_LE
	return uint32(a.Machine) | wide | littleEndian
}

// SyscallFunc translates the name or pattern of a system call's function (SyscallPrefix)
// from another architecture to this one; other names are unchanged. A nil row changes no
// names.
func (a *Arch) SyscallFunc(name string) string {
	if a == nil {
		return name
	}
	for _, other := range rows() {
		if call, ok := strings.CutPrefix(name, other.SyscallPrefix); ok {
			return a.SyscallPrefix + call
		}
	}
	return name
}
