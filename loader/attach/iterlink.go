// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"btc/loader/resolve"
)

// iterLink is an iterator's link. The library cannot create it, because it supports only maps as parameters.
type iterLink struct{ fd int }

// Close ends the link; an iterator that is pinned lives on.
func (l iterLink) Close() error { return unix.Close(l.fd) }

// iterInfo is the parameter of an iterator: union bpf_iter_link_info of linux/bpf.h.
type iterInfo [4]uint32

// visitBelow is the order in which cgroups are visited
// (BPF_CGROUP_ITER_DESCENDANTS_PRE): each before those in it, from the root of
// version 2 on.
const visitBelow = 2

// infoFor returns the parameter of an iterator of a kind; pid is 0 for all processes.
func infoFor(kind string, pid int) iterInfo {
	switch {
	case kind == "cgroup":
		return iterInfo{visitBelow}
	case resolve.OfProcess[kind]:
		return iterInfo{0, uint32(pid)}
	}
	return iterInfo{}
}

// bpf calls bpf(2).
func bpf(cmd uintptr, attr unsafe.Pointer, size uintptr) (int, error) {
	fd, _, errno := unix.Syscall(unix.SYS_BPF, cmd, uintptr(attr), size)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// linkIter attaches an iterator's program.
func linkIter(prog int, info iterInfo) (iterLink, error) {
	attr := struct {
		prog, target, kind, flags uint32
		info                      unsafe.Pointer
		size, _                   uint32
	}{prog: uint32(prog), kind: unix.BPF_TRACE_ITER}
	if info != (iterInfo{}) { // kernels before 5.9 do not have it
		attr.info, attr.size = unsafe.Pointer(&info), uint32(unsafe.Sizeof(info))
	}
	fd, err := bpf(unix.BPF_LINK_CREATE, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	if err != nil {
		return iterLink{}, fmt.Errorf("cannot create the iterator: %w", err)
	}
	return iterLink{fd}, nil
}

// open returns a file whose reading runs the program for each object.
func (l iterLink) open() (io.ReadCloser, error) {
	attr := struct{ link, flags uint32 }{link: uint32(l.fd)}
	fd, err := bpf(unix.BPF_ITER_CREATE, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "bpf_iter"), nil
}

// pin creates a name for the link in the BPF file system.
func (l iterLink) pin(path string) error {
	name, err := unix.BytePtrFromString(path)
	if err != nil {
		return errors.New("the path contains a NUL byte")
	}
	attr := struct {
		path      unsafe.Pointer
		fd, flags uint32
	}{path: unsafe.Pointer(name), fd: uint32(l.fd)}
	_, err = bpf(unix.BPF_OBJ_PIN, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	return err
}
