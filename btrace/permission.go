// SPDX-License-Identifier: Apache-2.0

package btrace

import (
	"btc/loader/permit"
)

// Permission is something besides observing that Options.Allow may permit.
type Permission = permit.Permission

// Permissions are those that Options.Allow grants.
type Permissions = permit.Permissions

// The permissions. AllowFiles and AllowPins need a directory or a file: AllowFiles.In("/var/log/mine").
const (
	AllowSystem       = permit.System       // run shell commands
	AllowSignal       = permit.Signal       // send signals to processes
	AllowOverride     = permit.Override     // change what kernel functions return
	AllowWriteUser    = permit.WriteUser    // change the memory of processes
	AllowProbeAddress = permit.ProbeAddress // probe the kernel by address, programs where nothing proves that an instruction begins
	AllowLongLoops    = permit.LongLoops    // loops that take more than 0.25 s of CPU time in a run
	AllowTracePrintk  = permit.TracePrintk  // write to the kernel's trace buffer
	AllowFiles        = permit.Files        // write files
	AllowPins         = permit.Pins         // pin iterators in the BPF file system
)

// Action is something that an object does besides observing.
type Action struct {
	Permission Permission // "" if only Options.Unsafe permits it
	Path       string     // AllowFiles, AllowPins: absolute
	What       string     // as in "sends signals"
	Line, Col  int        // in the script, from 1
	// IfUnproved means that Attach asks for the permission only if the files of the host do not prove that the action
	// is safe.
	IfUnproved bool
}

// Actions lists what the object does besides observing, as btrun --inspect does.
func (o *Object) Actions() ([]Action, error) {
	x, err := o.files.Parse()
	if err != nil {
		return nil, err
	}
	var all []Action
	for _, a := range permit.Actions(x) {
		all = append(all, Action{a.Permission, a.Path, a.What, a.Pos.Line, a.Pos.Col, a.OnHost})
	}
	return all, nil
}
