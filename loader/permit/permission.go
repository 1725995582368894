// SPDX-License-Identifier: Apache-2.0

package permit

import "unsafe"

// Permission is one that the operator can grant separately.
type Permission string

// In limits a permission to a directory and what is below it, or to a file. The path must be absolute.
func (p Permission) In(path string) Permission { return p + "=" + Permission(path) }

// Permissions are those that an operator grants: names, or names with a path.
type Permissions []Permission

// Strings returns the same list as one of strings: both have the same form in memory.
func (p *Permissions) Strings() *[]string { return (*[]string)(unsafe.Pointer(p)) }

// The permissions. Files and Pins are granted for a directory or a file.
const (
	System       Permission = "system"        // run shell commands
	Signal       Permission = "signal"        // send signals to processes
	Override     Permission = "override"      // change what kernel functions return
	WriteUser    Permission = "write-user"    // change the memory of processes
	ProbeAddress Permission = "probe-address" // probe the kernel by address, programs where nothing proves that an instruction begins
	LongLoops    Permission = "long-loops"    // loops without a limit of time
	TracePrintk  Permission = "trace-printk"  // write to the kernel's trace buffer
	Files        Permission = "files"         // write files
	Pins         Permission = "pins"          // pin programs in the BPF file system

	none Permission = "" // allowed only by --unsafe
)

// Permissions that only a policy has: without one, whoever runs btrun needs none.
const (
	Command Permission = "command" // run the command of -c
	Output  Permission = "output"  // write the files of -o and --capture
	Read    Permission = "read"    // print files with cat(), read those of --btf and --traceable-functions
	Unsafe  Permission = "unsafe"  // --unsafe
)

// OfPolicy lists the permissions that a policy can grant besides those of All.
var OfPolicy = []Permission{Command, Output, Read, Unsafe}

// All lists the permissions with their descriptions for --help.
var All = []struct {
	Name Permission
	Path bool // needs a directory or file
	Help string
}{
	{System, false, "run shell commands: system()"},
	{Signal, false, "send signals: signal(), signal_thread()"},
	{Override, false, "change return values of kernel functions: override()"},
	{WriteUser, false, "write memory of processes: write_user()"},
	{ProbeAddress, false, "probe the kernel by address, and programs where the file does not prove that an instruction begins"},
	{LongLoops, false, "loops that take more than 0.25 s of CPU time in a run"},
	{TracePrintk, false, "write to the kernel's trace buffer: debugf()"},
	{Files, true, "write files: skboutput()"},
	{Pins, true, "pin iterators in the BPF file system: iter:KIND:NAME"},
}
