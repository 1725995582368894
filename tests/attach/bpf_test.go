// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// nextID returns the ID of the next program, map or link after id, from bpf(2).
func nextID(cmd int, id uint32) (uint32, error) {
	attr := struct{ start, next, flags uint32 }{start: id}
	_, _, errno := unix.Syscall(unix.SYS_BPF, uintptr(cmd), uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if errno != 0 {
		return 0, errno
	}
	return attr.next, nil
}
