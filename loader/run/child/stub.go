// SPDX-License-Identifier: Apache-2.0

//go:build amd64 || arm64 || riscv64

package child

import (
	"debug/elf"
	"encoding/binary"
	"os"

	"golang.org/x/sys/unix"

	"btc/internal/arch"
)

// The stub is the program that waits in the process of -c until it executes the command. It is not
// this program, because the Go runtime has several threads: their names, system calls and exits
// would show up as events of the traced process.

// stubCode is the stub's code, written in stub_*.s. It is never called here: a copy of it is the
// only segment of an in-memory ELF file.
var stubCode *[stubSize]byte

// stubSize is at least the length of that code. What follows it in the copy is the code of other
// functions, and is never executed.
const stubSize = 512

// stubAddr is the load address, a multiple of the largest page size.
const stubAddr = 1 << 22

// stubImage returns the stub as an ELF file with one segment (elf(5)).
func stubImage() []byte {
	const (
		fileHeader, segmentHeader = 64, 56
		headers                   = fileHeader + segmentHeader
		largestPage               = 1 << 16
	)
	b := []byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT), 15: 0}
	half := func(v uint16) { b = binary.LittleEndian.AppendUint16(b, v) }
	word := func(v uint32) { b = binary.LittleEndian.AppendUint32(b, v) }
	long := func(v uint64) { b = binary.LittleEndian.AppendUint64(b, v) }
	half(uint16(elf.ET_EXEC))
	half(uint16(arch.Host().Machine))
	word(uint32(elf.EV_CURRENT))
	long(stubAddr + headers) // e_entry
	long(fileHeader)         // e_phoff
	long(0)                  // e_shoff: no sections
	word(0)                  // e_flags
	half(fileHeader)
	half(segmentHeader)
	half(1) // segments
	half(0) // section headers: size, number, index of names
	half(0)
	half(0)
	word(uint32(elf.PT_LOAD))
	word(uint32(elf.PF_R | elf.PF_X))
	long(0) // all of the file
	long(stubAddr)
	long(stubAddr)
	long(headers + stubSize)
	long(headers + stubSize)
	long(largestPage)
	return append(b, stubCode[:]...)
}

// openStub creates a memfd with the stub; it returns nil if the kernel has no memfd_create. A
// kernel that forbids executable memfds (sysctl vm.memfd_noexec) fails here or when the stub is
// executed.
func openStub() *os.File {
	const name, exec = "btrun-child", 0x10 // MFD_EXEC (Linux 6.3)
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|exec)
	if err == unix.EINVAL {
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	}
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := f.Write(stubImage()); err != nil {
		f.Close()
		return nil
	}
	return f
}
