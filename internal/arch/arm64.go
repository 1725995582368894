// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"debug/elf"
	"strconv"
)

func arm64() *Arch {
	// struct user_pt_regs of arch/arm64/include/uapi/asm/ptrace.h, with which the kernel's
	// struct pt_regs begins.
	a := &Arch{
		Name: "aarch64", GOARCH: "arm64", Label: "arm64", Machine: elf.EM_AARCH64, Default: true,
		Macros:     []string{"__aarch64__"},
		RegsStruct: "user_pt_regs", RegsSize: 272, Marker: "pstate",
		UserMask: 0xf, UserMode: 0, // PSR_MODE_MASK, PSR_MODE_EL0t
		BigArg: true, WholeArg: true, // AAPCS64
		FP:          "r29",
		Link:        "r30",
		TagBits:     8, // TBI and MTE
		InsnSize:    4,
		FentrySince: [2]int{6, 4}, // HAVE_DYNAMIC_FTRACE_WITH_DIRECT_CALLS
		AsmRegs:     map[string]uint16{"sp": 248, "lr": 240},

		SyscallPrefix: "__arm64_sys_",
		// TIF_32BIT has had its number since before 5.10.
		SyscallRegs: &SyscallRegs{Args: [6]int16{272, 8, 16, 24, 32, 40}, Nr: 280, NrSize: 4, Field: "flags", Bit: 1 << 22},
		syscalls:    genericSyscalls + " 38 renameat",
		eventNames: map[string]string{
			"fstat": "newfstat", "uname": "newuname", "sendfile": "sendfile64", "umount2": "umount",
			"fadvise64": "fadvise64_64", "personality": "arm64_personality",
		},
	}
	for i := range 31 {
		n := strconv.Itoa(i)
		a.Regs = append(a.Regs, Reg{"r" + n, "regs[" + n + "]", 8 * i})
		a.AsmRegs["x"+n], a.AsmRegs["w"+n] = uint16(8*i), uint16(8*i)
	}
	a.Regs = append(a.Regs, Reg{"sp", "sp", 248}, Reg{"pc", "pc", 256}, Reg{"pstate", "pstate", 264})
	a.pick("r0 r1 r2 r3 r4 r5 r6 r7", "r0", "pc", "sp", "pstate")
	return a
}
