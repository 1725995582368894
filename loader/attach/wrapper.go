// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"btc/internal/arch"
	"btc/internal/manifest"
)

// onThisMachine translates the function of a program, if it is a system call's, to this
// machine's. The script's name of the attach point stays.
func onThisMachine(p *manifest.Program) *manifest.Program {
	name := arch.Host().SyscallFunc(p.Attach.Name)
	if name == p.Attach.Name {
		return p
	}
	here := *p
	here.Attach.Name = name
	return &here
}
