package target

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"btc/loader/hostinfo"
)

// Arch is one row of the architecture table: what the kernel's calling
// convention and register save area look like. All known architectures are
// 64 bit and little endian.
type Arch struct {
	Name   string // as `uname -m` prints it: x86_64, aarch64
	GOARCH string // amd64, arm64
	Label  string // as options, messages and manifests say it: x86_64, arm64

	// RegsStruct is the BTF struct through which a kprobe's context is read
	// (pt_regs, or the part of it that is stable ABI), RegsSize its size and
	// with it the end of the readable context.
	RegsStruct string
	RegsSize   int

	Args   []Reg // where a function finds its first integer arguments, arg0 first
	Result Reg   // where it leaves its result
	IP     Reg   // instruction pointer
	SP     Reg   // stack pointer
	FP     Reg   // frame pointer
	Regs   []Reg // every name that reg() takes, in order of offset

	// Mode is the register that holds the privilege level: user space was
	// interrupted when its bits UserMask have the value UserMode.
	Mode               Reg
	UserMask, UserMode int64
	// PastProbe is the distance in bytes from an address inside of the probed
	// function to the IP that a kprobe saves.
	PastProbe int64

	// TagBits is the number of a user pointer's upper bits that are not part of the
	// address. The bit below them is set in addresses of the kernel only.
	TagBits int64

	// SyscallPrefix begins the names of syscall entry functions in kallsyms:
	// the prefix and the syscall's name.
	SyscallPrefix string
}

// Reg is a saved register: Offset is in bytes from the start of the context,
// all are 8 bytes wide.
type Reg struct {
	Name   string // as reg() spells it
	Member string // its member in RegsStruct; for an array member with the index: "regs[3]"
	Offset int
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

// ArchByName finds a row by its Name, GOARCH or Label, or answers nil.
func ArchByName(name string) *Arch {
	for _, a := range arches() {
		if a.Name == name || a.GOARCH == name || a.Label == name {
			return a
		}
	}
	return nil
}

// arches is the table. Every Target of an architecture has the same row.
var arches = sync.OnceValue(func() []*Arch { return []*Arch{x86(), arm64()} })

// ArchLabels lists the labels of all architectures.
func ArchLabels() []string {
	var all []string
	for _, a := range arches() {
		all = append(all, a.Label)
	}
	return all
}

func x86() *Arch {
	// struct pt_regs of arch/x86/include/asm/ptrace.h: fixed by the entry code
	// and by user space ABI. cs and ss live in anonymous unions since 6.9.
	regs := []Reg{
		{"r15", "r15", 0}, {"r14", "r14", 8}, {"r13", "r13", 16}, {"r12", "r12", 24},
		{"bp", "bp", 32}, {"bx", "bx", 40}, {"r11", "r11", 48}, {"r10", "r10", 56},
		{"r9", "r9", 64}, {"r8", "r8", 72}, {"ax", "ax", 80}, {"cx", "cx", 88},
		{"dx", "dx", 96}, {"si", "si", 104}, {"di", "di", 112},
		{"orig_rax", "orig_ax", 120}, {"ip", "ip", 128}, {"pc", "ip", 128},
		{"cs", "cs", 136}, {"flags", "flags", 144}, {"sp", "sp", 152}, {"ss", "ss", 160},
	}
	a := &Arch{
		Name: "x86_64", GOARCH: "amd64", Label: "x86_64",
		RegsStruct: "pt_regs", RegsSize: 168,
		Regs:          regs,
		SyscallPrefix: "__x64_sys_",
	}
	a.pick([]string{"di", "si", "dx", "cx", "r8", "r9"}, "ax", "ip", "sp", "bp")
	a.Mode, _ = a.Reg("cs")
	a.UserMask, a.UserMode = 3, 3 // the requested privilege level, 3 for user space
	a.PastProbe = 1               // IP is behind the probe, whichever way it was placed
	return a
}

func arm64() *Arch {
	// struct user_pt_regs of arch/arm64/include/uapi/asm/ptrace.h, with which
	// the kernel's struct pt_regs begins.
	var regs []Reg
	for i := range 31 {
		n := strconv.Itoa(i)
		regs = append(regs, Reg{"r" + n, "regs[" + n + "]", 8 * i})
	}
	regs = append(regs, Reg{"sp", "sp", 248}, Reg{"pc", "pc", 256}, Reg{"pstate", "pstate", 264})
	a := &Arch{
		Name: "aarch64", GOARCH: "arm64", Label: "arm64",
		RegsStruct: "user_pt_regs", RegsSize: 272,
		Regs:          regs,
		SyscallPrefix: "__arm64_sys_",
	}
	a.pick([]string{"r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7"}, "r0", "pc", "sp", "r29")
	a.Mode, _ = a.Reg("pstate")
	a.UserMask, a.UserMode = 0xf, 0 // PSR_MODE_MASK, PSR_MODE_EL0t
	a.TagBits = 8                   // TBI and MTE
	return a
}

// pick fills the rôles from the register list by name.
func (a *Arch) pick(args []string, result, ip, sp, fp string) {
	reg := func(name string) Reg {
		i := slices.IndexFunc(a.Regs, func(r Reg) bool { return r.Name == name })
		if i < 0 {
			panic("BUG: no register " + name + " on " + a.Name)
		}
		return a.Regs[i]
	}
	for _, name := range args {
		a.Args = append(a.Args, reg(name))
	}
	a.Result, a.IP, a.SP, a.FP = reg(result), reg(ip), reg(sp), reg(fp)
}

// SyscallNames gives the names of an architecture's system calls by number, ""
// where there is none.
func SyscallNames(arch string) []string { return hostinfo.SyscallNames(arch) }

// SyscallFunc is the function or pattern that means on this architecture what the
// name of a system call's function (SyscallPrefix) means on another; other names
// stay.
func (a *Arch) SyscallFunc(name string) string {
	for _, other := range arches() {
		if call, ok := strings.CutPrefix(name, other.SyscallPrefix); ok {
			return a.SyscallPrefix + call
		}
	}
	return name
}
