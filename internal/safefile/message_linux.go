// SPDX-License-Identifier: Apache-2.0

package safefile

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// SendMessage sends bytes with descriptors. It and ReceiveMessage do not use the functions of package unix, which
// would link the code for all kinds of addresses.
func SendMessage(fd int, b []byte, files []int) (n int, err error) {
	var control []byte
	if len(files) > 0 {
		control = unix.UnixRights(files...)
	}
	return message(unix.SYS_SENDMSG, fd, b, control, unix.MSG_NOSIGNAL, nil)
}

// ReceiveMessage receives bytes, and at most two descriptors.
func ReceiveMessage(fd int, b []byte) (n int, files []int, err error) {
	control, got := make([]byte, unix.CmsgSpace(4*maxMessageFiles)), uint64(0)
	n, err = message(unix.SYS_RECVMSG, fd, b, control, unix.MSG_CMSG_CLOEXEC, &got)
	h := (*unix.Cmsghdr)(unsafe.Pointer(&control[0]))
	if err != nil || got < unix.SizeofCmsghdr || h.Level != unix.SOL_SOCKET || h.Type != unix.SCM_RIGHTS {
		return n, nil, err
	}
	for at := unix.CmsgLen(0); at+4 <= int(min(h.Len, got)); at += 4 {
		files = append(files, int(int32(binary.NativeEndian.Uint32(control[at:]))))
	}
	return n, files, nil
}

const maxMessageFiles = 2

func message(call uintptr, fd int, b, control []byte, flags uintptr, got *uint64) (n int, err error) {
	iov := unix.Iovec{Base: unsafe.SliceData(b)}
	iov.SetLen(len(b))
	msg := unix.Msghdr{Iov: &iov, Control: unsafe.SliceData(control)}
	msg.SetIovlen(1)
	msg.SetControllen(len(control))
	r, _, errno := unix.Syscall(call, uintptr(fd), uintptr(unsafe.Pointer(&msg)), flags)
	for errno == unix.EINTR {
		r, _, errno = unix.Syscall(call, uintptr(fd), uintptr(unsafe.Pointer(&msg)), flags)
	}
	if errno != 0 {
		return 0, errno
	}
	if got != nil {
		*got = uint64(msg.Controllen)
	}
	return int(r), nil
}
