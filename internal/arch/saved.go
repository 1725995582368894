// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"strconv"
	"strings"
)

// Names of values in the saved registers of a program's context, as Arch.Saved accepts
// them. It also accepts "argN" and "reg NAME".
const (
	SavedRetval   = "retval"   // the function's result
	SavedIP       = "ip"       // instruction pointer
	SavedFunc     = "func"     // an address inside the function that a kprobe is on
	SavedUsermode = "usermode" // 1 if user space was interrupted
)

// Saved is how to read a value: the register's offset in the context and a number to add. If Mask is not 0, the value
// is 1 if the register's bits Mask equal Want, else 0.
type Saved struct {
	Offset     int
	Add        int64
	Mask, Want int64
}

// HasSaved reports whether Saved knows the name.
func (a *Arch) HasSaved(name string) bool {
	_, ok := a.Saved(name)
	return ok
}

// Saved finds a name's row. It fails for arguments that are not in registers and
// for registers that the architecture does not have.
func (a *Arch) Saved(name string) (Saved, bool) {
	switch name {
	case SavedRetval:
		return Saved{Offset: a.Result.Offset}, true
	case SavedIP:
		return Saved{Offset: a.IP.Offset}, true
	case SavedFunc:
		return Saved{Offset: a.IP.Offset, Add: -a.PastProbe}, true
	case SavedUsermode:
		return Saved{Offset: a.Mode.Offset, Mask: a.UserMask, Want: a.UserMode}, true
	}
	if reg, ok := strings.CutPrefix(name, "reg "); ok {
		r, ok := a.Reg(reg)
		return Saved{Offset: r.Offset}, ok
	}
	text, ok := strings.CutPrefix(name, "arg")
	n, err := strconv.Atoi(text)
	if !ok || err != nil || n < 0 || n >= len(a.Args) {
		return Saved{}, false
	}
	return Saved{Offset: a.Args[n].Offset}, true
}
