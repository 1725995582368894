// SPDX-License-Identifier: Apache-2.0

package irgen

import (
	"slices"
	"strings"

	"btc/frontend/ast"
	"btc/frontend/check"
	"btc/frontend/types"
	"btc/internal/arch"
	"btc/ir"
)

// nameTable is the table for strerror and similar functions: the name of each number from 0 on, the name for numbers
// that have none (or "" in the table), and whether a negative number is negated first.
type nameTable struct {
	names    func(arch string) []string
	other    string
	absolute bool
	perArch  bool // each architecture has its own names
}

var nameTables = map[string]nameTable{
	"strerror":     {errorNames, "Unknown error", true, false},
	"signal_name":  {signalNames, "N/A", false, false},
	"syscall_name": {syscallNames, "Unknown syscall", false, true},
}

// laterSyscalls are system calls that bpftrace 0.27 has no names for.
var laterSyscalls = []string{"uprobe", "listns", "rseq_slice_yield"}

// x32Syscalls are the names of the numbers of the x32 ABI on x86_64, from x32First on
// (arch/x86/entry/syscalls/syscall_64.tbl).
var x32Syscalls = strings.Fields(`
	rt_sigaction rt_sigreturn ioctl readv writev recvfrom
	sendmsg recvmsg execve ptrace rt_sigpending rt_sigtimedwait
	rt_sigqueueinfo sigaltstack timer_create mq_notify kexec_load waitid
	set_robust_list get_robust_list vmsplice move_pages preadv pwritev
	rt_tgsigqueueinfo recvmmsg sendmmsg process_vm_readv process_vm_writev setsockopt
	getsockopt io_setup io_submit execveat preadv2 pwritev2
`)

const x32First = 512

func syscallNames(machine string) []string {
	names := slices.Clone(arch.ByName(machine).SyscallNames())
	for i, name := range names {
		if slices.Contains(laterSyscalls, name) {
			names[i] = ""
		}
	}
	if machine == "x86_64" {
		names = append(names, make([]string, x32First-len(names))...)
		names = append(names, x32Syscalls...)
	}
	return names
}

// numberName copies the name that a number has (of a signal, of an error) from a constant table of the object to dst.
func numberName(f *fn, c *check.Call, dst *ir.Value, capacity int) {
	t := nameTables[c.Fn.Name]
	name := c.Fn.Name + "_table"
	g := f.m.Global(name)
	if g == nil {
		g = &ir.Global{Name: name, Kind: ir.GlobalConst}
		for _, a := range f.m.Served() {
			if t.perArch || len(g.Init) == 0 {
				g.Init = append(g.Init, nameBytes(t.names(a.Name), t.other)...)
			}
		}
		g.Size = len(g.Init)
		f.m.Globals = append(f.m.Globals, g)
	}
	// With several architectures, their tables follow each other.
	size := func(a *arch.Arch) int64 { return int64(len(t.names(a.Name)) + 1) }
	last := f.PerArch(f.m.Served(), func(a *arch.Arch) int64 { return size(a) - 1 })
	first := f.PerArch(f.m.Served(), func(a *arch.Arch) int64 {
		at := int64(0)
		for _, before := range f.m.Served() {
			if before == a || !t.perArch {
				break
			}
			at += size(before)
		}
		return at
	})
	n := f.Extend(ir.S32, f.num(c.Args[0]))
	if t.absolute {
		n = f.Select(f.ICmp(ir.SLT, n, ir.Const(0)), f.Sub(ir.Const(0), n), n)
	}
	n = f.Add(f.Select(f.ICmp(ir.ULT, n, last), n, last), first)
	from := f.Cast(ir.TKAddr, f.GlobalAddr(ir.TMapVal(".rodata", false), name, 0))
	from = f.Add(from, f.Mul(n, ir.Const(check.NameSize)))
	f.Emit(ir.OpStr, ir.TI64, dst, from, ir.Const(int64(capacity))).Imm = int64(capacity)
}

// nameBytes encodes the table: NameSize bytes for each name, the last entry for all other numbers.
func nameBytes(names []string, other string) []byte {
	out := make([]byte, (len(names)+1)*check.NameSize)
	for i, name := range append(names, other) {
		if name == "" {
			name = other
		}
		copy(out[i*check.NameSize:], name)
	}
	return out
}

// pton writes the bytes of an address.
func (f *fn) pton(_ ast.Expr, c *check.Call, dst *ir.Value) {
	if c.Param != nil {
		f.copy(dst, f.GlobalAddr(ir.TMapVal(paramSection, false), addrParam(c.Param.N), 0), 4)
		return
	}
	s := f.Emit(ir.OpStrLit, ir.TVoid, dst)
	s.Sym, s.Imm = c.Text, int64(len(c.Text))
}

// macaddr copies 6 bytes.
func (f *fn) macaddr(_ ast.Expr, c *check.Call, dst *ir.Value) {
	f.zero(dst, types.TMac.Store().Size)
	if t := f.body.Type(c.Args[0]); t.Kind == types.Int || t.Kind == types.Pointer {
		f.Emit(ir.OpReadMem, ir.TVoid, dst, f.address(c.Args[0])).Imm = 6
		return
	} else if t.Kind == types.Buffer {
		f.copy(dst, f.AddImm(f.addr(c.Args[0]), 4), 6) // after the length
		return
	}
	f.bytesOf(c.Args[0], dst, 6)
}

// bytesOf copies the first n bytes of an array, struct or string.
func (f *fn) bytesOf(x ast.Expr, dst *ir.Value, n int) {
	e := f.body.Expr(x)
	if lit, ok := f.literal(x); ok {
		s := f.Emit(ir.OpStrLit, ir.TVoid, dst)
		s.Sym, s.Imm = lit[:min(len(lit), n)], int64(n)
		return
	}
	if e.Location == nil {
		f.copy(dst, f.addr(x), n)
		return
	}
	w := f.locate(e.Location)
	if w.base.Type.Kind == ir.Ctx {
		w.base = f.Cast(ir.TKAddr, w.base)
	}
	addr := f.apply(w)
	if addr.Type.IsPtr() {
		f.copy(dst, addr, n)
		return
	}
	f.Emit(ir.OpReadMem, ir.TVoid, dst, addr).Imm = int64(n)
}
