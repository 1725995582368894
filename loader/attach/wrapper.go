package attach

import (
	"runtime"
	"strings"

	"btc/loader/manifest"
)

// syscallWrappers begin the names of the kernel's functions for system calls, the
// rest is the call's name; by architecture as Go calls it.
var syscallWrappers = map[string]string{"amd64": "__x64_sys_", "arm64": "__arm64_sys_"}

// wrapperName is the function or pattern that means on this machine what the name
// of a system call's function means on another.
func wrapperName(name, goarch string) string {
	here, ok := syscallWrappers[goarch]
	for _, there := range syscallWrappers {
		if call, found := strings.CutPrefix(name, there); ok && found {
			return here + call
		}
	}
	return name
}

// onThisMachine is a program whose function, if it is a system call's, is this
// machine's. What the script calls the attach point stays.
func onThisMachine(p *manifest.Program) *manifest.Program {
	name := wrapperName(p.Attach.Name, runtime.GOARCH)
	if name == p.Attach.Name {
		return p
	}
	here := *p
	here.Attach.Name = name
	return &here
}
