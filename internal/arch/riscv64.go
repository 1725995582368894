// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"debug/elf"
	"math"
	"strings"
)

func riscv64() *Arch {
	// struct user_regs_struct of arch/riscv/include/uapi/asm/ptrace.h, with which the
	// kernel's struct pt_regs begins (pc is called epc there).
	a := &Arch{
		Name: "riscv64", GOARCH: "riscv64", Label: "riscv64", Machine: elf.EM_RISCV,
		Macros:     []string{"__riscv"},
		RegsStruct: "user_regs_struct", RegsSize: 256, Marker: "epc",
		// The status register is not in a perf event's context; addresses of the kernel
		// have the highest bit.
		UserMask: math.MinInt64, UserMode: 0,
		BigArg: true, ResultArg: true, // the integer calling convention of RISC-V
		FP:          "s0",
		Link:        "ra",
		FentrySince: [2]int{6, 8},                // HAVE_DYNAMIC_FTRACE_WITH_DIRECT_CALLS
		AsmRegs:     map[string]uint16{"fp": 64}, // s0

		SyscallPrefix: "__riscv_sys_",
		syscalls:      genericSyscalls + " 258 riscv_hwprobe riscv_flush_icache",
		eventNames: map[string]string{
			"fstat": "newfstat", "uname": "newuname", "sendfile": "sendfile64", "umount2": "umount", "fadvise64": "fadvise64_64",
		},
	}
	names := "pc ra sp gp tp t0 t1 t2 s0 s1 a0 a1 a2 a3 a4 a5 a6 a7 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 t3 t4 t5 t6"
	for i, name := range strings.Fields(names) {
		a.Regs = append(a.Regs, Reg{name, name, 8 * i})
		a.AsmRegs[name] = uint16(8 * i)
	}
	a.pick("a0 a1 a2 a3 a4 a5 a6 a7", "a0", "pc", "sp", "pc")
	return a
}
