package attach

import (
	"btc/internal/arch"
	"btc/internal/manifest"
)

// onThisMachine is a program whose function, if it is a system call's, is this
// machine's. What the script calls the attach point stays.
func onThisMachine(p *manifest.Program) *manifest.Program {
	name := arch.Host().SyscallFunc(p.Attach.Name)
	if name == p.Attach.Name {
		return p
	}
	here := *p
	here.Attach.Name = name
	return &here
}
