// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"debug/elf"
	"fmt"
	"io"
	"os"
	"runtime"
)

// platform is one row of the table of supported guest architectures.
type platform struct {
	goarch     string   // GOARCH
	qemu       string   // program
	machine    []string // arguments that describe machine and processor
	kernelArgs string
	// ports returns the serial ports; file maps the name of a stream to its file.
	ports func(file func(string) string) []string
}

func platforms() []platform {
	return []platform{
		{
			goarch: "amd64", qemu: "qemu-system-x86_64",
			// no_timer_check: the kernel would panic ("8254 timer not connected to IO-APIC") if QEMU gets no CPU while
			// it counts timer interrupts during boot (check_timer, arch/x86/kernel/apic/io_apic.c).
			machine: []string{"-M", "q35", "-cpu", "max"}, kernelArgs: "console=ttyS0 no_timer_check",
			ports: func(file func(string) string) []string {
				var args []string
				for _, port := range []string{"console", "stdout", "stderr", "control"} {
					args = append(args, "-serial", "file:"+file(port))
				}
				return args
			},
		},
		{
			// A CPU with its own atomic instructions (v8.1) but without pointer authentication, which
			// is slow to emulate.
			goarch: "arm64", qemu: "qemu-system-aarch64",
			machine: []string{"-M", "virt", "-cpu", "neoverse-n1"}, kernelArgs: "console=ttyAMA0",
			// The board has one serial port; a PCI card with four provides the others.
			ports: func(file func(string) string) []string {
				args := []string{"-serial", "file:" + file("console"), "-chardev", "null,id=port0"}
				card := "pci-serial-4x,chardev1=port0"
				for i, port := range []string{"stdout", "stderr", "control"} {
					args = append(args, "-chardev", fmt.Sprintf("file,id=port%d,path=%s", i+1, file(port)))
					card += fmt.Sprintf(",chardev%d=port%d", i+2, i+1)
				}
				return append(args, "-device", card)
			},
		},
		{
			goarch: "riscv64", qemu: "qemu-system-riscv64",
			machine: []string{"-M", "virt", "-cpu", "rv64"}, kernelArgs: "console=ttyS0",
			// The board has one serial port; a PCI card with four provides the others.
			ports: func(file func(string) string) []string {
				args, card := []string{"-serial", "file:" + file("console"), "-chardev", "null,id=port4"}, "pci-serial-4x,chardev4=port4"
				for i, port := range []string{"stdout", "stderr", "control"} {
					args = append(args, "-chardev", fmt.Sprintf("file,id=port%d,path=%s", i+1, file(port)))
					card += fmt.Sprintf(",chardev%d=port%d", i+1, i+1)
				}
				return append(args, "-device", card)
			},
		},
	}
}

// platformOf returns the architecture of a kernel image, from its contents.
func platformOf(image string) (platform, error) {
	f, err := os.Open(image)
	if err != nil {
		return platform{}, err
	}
	defer f.Close()
	// Magic numbers of ELF (vmlinux), of the Image of arm64 and riscv64 and of the x86 bzImage.
	head := make([]byte, 0x210)
	if _, err := io.ReadFull(f, head); err != nil {
		return platform{}, fmt.Errorf("%s: %w", image, err)
	}
	arch := ""
	switch {
	case string(head[:4]) == elf.ELFMAG && elf.Machine(head[18]) == elf.EM_X86_64, string(head[0x202:0x206]) == "HdrS":
		arch = "amd64"
	case string(head[0x38:0x3c]) == "ARM\x64":
		arch = "arm64"
	case string(head[0x38:0x3c]) == "RSC\x05":
		arch = "riscv64"
	}
	for _, p := range platforms() {
		if p.goarch == arch {
			return p, nil
		}
	}
	return platform{}, fmt.Errorf("%s is not a kernel image that can be booted (x86 vmlinux or bzImage, arm64 or riscv64 Image)", image)
}

// Arch returns the architecture of a kernel image as GOARCH: amd64, arm64 or riscv64.
func Arch(image string) (string, error) {
	p, err := platformOf(image)
	return p.goarch, err
}

// native reports whether programs of this machine run in the guest.
func (p platform) native() bool { return p.goarch == runtime.GOARCH }
