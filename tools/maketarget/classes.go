// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// classes prints every tracepoint whose class, as capture derives it from layouts and prototypes,
// differs from that in the kernel image, where each event's struct trace_event_call points to its
// class. Symbol addresses come from the archive's kallsyms.
func classes(dir, arch string) error {
	data, err := describe(dir, arch)
	if err != nil {
		return err
	}
	truth, err := classesOf(dir)
	if err != nil {
		return err
	}
	right, wrong, none := 0, 0, 0
	for _, ev := range data.Events {
		want, ok := truth[ev.Name]
		if !ok || ev.Category == "ftrace" { // the tracer's own records have no class struct
			none++
			continue
		}
		if want = "trace_event_raw_" + want; ev.Class == want {
			right++
			continue
		}
		wrong++
		fmt.Printf("%s:%s is %q, derived %q\n", ev.Category, ev.Name, want, ev.Class)
	}
	fmt.Printf("%d right, %d wrong, %d without a class in the image\n", right, wrong, none)
	return nil
}

// classesOf reads event -> class from the kernel image.
func classesOf(dir string) (map[string]string, error) {
	archive, err := os.Open(filepath.Join(dir, "tracefs.tar"))
	if err != nil {
		return nil, err
	}
	defer archive.Close()
	tree, err := untar(archive)
	if err != nil {
		return nil, err
	}
	text, err := fs.ReadFile(tree, "kallsyms")
	if err != nil {
		return nil, err
	}
	image, err := elf.Open(filepath.Join(dir, "vmlinux"))
	if err != nil {
		return nil, err
	}
	defer image.Close()

	events, classAt := map[string]uint64{}, map[uint64]string{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) < 3 {
			continue
		}
		addr, err := strconv.ParseUint(f[0], 16, 64)
		if err != nil {
			continue
		}
		if class, ok := strings.CutPrefix(f[2], "event_class_"); ok {
			classAt[addr] = class
		} else if event, ok := strings.CutPrefix(f[2], "event_"); ok && strings.ToLower(f[1]) == "d" {
			events[event] = addr
		}
	}
	found := map[string]string{}
	for event, addr := range events {
		const classMember = 16 // struct trace_event_call: list_head, then the class
		if p, ok := pointerAt(image, addr+classMember); ok && classAt[p] != "" {
			found[event] = classAt[p]
		}
	}
	return found, nil
}

func pointerAt(image *elf.File, addr uint64) (uint64, bool) {
	for _, p := range image.Progs {
		if p.Type == elf.PT_LOAD && addr >= p.Vaddr && addr+8 <= p.Vaddr+p.Filesz {
			var b [8]byte
			_, err := p.ReadAt(b[:], int64(addr-p.Vaddr))
			return binary.LittleEndian.Uint64(b[:]), err == nil
		}
	}
	return 0, false
}
