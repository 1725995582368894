// SPDX-License-Identifier: Apache-2.0

package manifest

import "strings"

// HostValue is what the loader looks up for a constant before it loads an object. Package loader/load has a function
// for each.
type HostValue string

// Host values. Those before HostStart depend on Global.Text, and Global.Host names them; a file with one requires the
// feature host-values. The others have constants of their own name.
const (
	HostKaddr        HostValue = "kaddr"         // the address of the kernel symbol Text
	HostKaddrOr0     HostValue = "kaddr_or_0"    // the same, 0 if there is none
	HostKfuncExist   HostValue = "kfunc_exist"   // 1 if the kernel has the function Text
	HostKfuncAllowed HostValue = "kfunc_allowed" // 1 if also the kind of probe after the name in Text may call it
	HostUaddr        HostValue = "uaddr"         // Text is a program and a symbol: the symbol's distance from the address that the program probes
	HostUaddrCode    HostValue = "uaddr_code"    // the same, from the first byte of the file's code
	HostCgroupID     HostValue = "cgroupid"      // the ID of the cgroup at the path Text

	HostStart     HostValue = "start_ns"   // boot clock at the start of the run, in ns
	HostPIDNSDev  HostValue = "pidns_dev"  // device number of the loader's PID namespace; 0: the initial one
	HostPIDNSIno  HostValue = "pidns_ino"  // its inode number
	HostTAIOff    HostValue = "tai_off"    // ns that TAI is ahead of the boot clock
	HostNcpus     HostValue = "ncpus"      // number of possible CPUs
	HostCpid      HostValue = "cpid"       // process ID of the command of -c; 0: none
	HostOwnReader HostValue = "own_reader" // 1: btc's loader reads the events
	HostUnwind    HostValue = "unwind"     // user stacks that use unwind tables: 0 none, 1 those of dw_ustack, 2 all
)

// Functions that unwind a user stack by tables have names that begin with these: those of dw_ustack, and of ustack. They
// return -1 if the kernel's helper is to find the stack.
const (
	UnwindMarked = "unwind_dw_"
	UnwindAny    = "unwind_any_"
)

// UnwindStates is the number of walks that may be nested on a CPU, each with an element of the map unwind_state; package
// passes (scratch.go) says why there are more than nesting levels.
const UnwindStates = 4

// HostValues lists the host values, in the order above.
var HostValues = []HostValue{HostKaddr, HostKaddrOr0, HostKfuncExist, HostKfuncAllowed, HostUaddr, HostUaddrCode, HostCgroupID,
	HostStart, HostPIDNSDev, HostPIDNSIno, HostTAIOff, HostNcpus, HostCpid, HostOwnReader, HostUnwind}

// numOfText is the number of values in HostValues that depend on Global.Text.
const numOfText = 7

// Named reports whether constants with the value have its name, and no Global.Host.
func (h HostValue) Named() bool { return h.index() >= numOfText }

func (h HostValue) index() int {
	for i, v := range HostValues {
		if v == h {
			return i
		}
	}
	return -1
}

// Value returns what the loader looks up for a global; "" for others.
func (g *Global) Value() HostValue {
	if h := HostValue(g.Name); g.Host == "" && strings.HasPrefix(g.Section, ".rodata") && h.Named() {
		return h
	}
	return g.Host
}
