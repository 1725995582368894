// SPDX-License-Identifier: Apache-2.0

package kernelfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Names of files in a raw capture.
const (
	RawArch      = "arch"     // as `uname -m` prints it
	RawRelease   = "release"  // as `uname -r` prints it
	RawBTF       = "btf"      // directory of /sys/kernel/btf: vmlinux and modules
	RawTracefs   = "tracefs"  // directory: events/*/*/format and available_filter_functions
	RawKallsyms  = "kallsyms" // without addresses; only where available_filter_functions cannot be read
	RawFunctions = "available_filter_functions"
)

// EachRaw calls f for each file that a target file is made from, as this kernel shows it. Only the kernel's BTF is
// required; other files that cannot be read are skipped. If f returns an error, EachRaw stops and returns it.
func EachRaw(f func(name string, content []byte) error) error {
	kernel, err := os.ReadFile("/sys/kernel/btf/vmlinux")
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("this kernel has no BTF (CONFIG_DEBUG_INFO_BTF): %w", err)
	}
	if err != nil {
		return err
	}
	arch, err := Machine()
	if err != nil {
		return err
	}
	release, err := Release()
	if err != nil {
		return err
	}
	for _, file := range []struct {
		name    string
		content []byte
	}{{RawArch, []byte(arch + "\n")}, {RawRelease, []byte(release + "\n")}, {RawBTF + "/vmlinux", kernel}} {
		if err := f(file.name, file.content); err != nil {
			return err
		}
	}
	if err := eachFile("/sys/kernel/btf/*", func(name string) string {
		if name == "/sys/kernel/btf/vmlinux" {
			return ""
		}
		return RawBTF + "/" + path.Base(name)
	}, f); err != nil {
		return err
	}
	functions := false
	if dir, err := Tracefs(); err == nil {
		into := func(name string) string { return RawTracefs + strings.TrimPrefix(name, dir) }
		if err := eachFile(dir+"/events/*/*/format", into, f); err != nil {
			return err
		}
		if text, err := os.ReadFile(dir + "/" + RawFunctions); err == nil {
			functions = true
			if err := f(RawTracefs+"/"+RawFunctions, text); err != nil {
				return err
			}
		}
	}
	if text, err := os.ReadFile("/proc/kallsyms"); err == nil && !functions {
		return f(RawKallsyms, withoutAddresses(text))
	}
	return nil
}

// eachFile calls f for the readable files that match a pattern; name returns the name to pass to f, "" to skip the
// file.
func eachFile(pattern string, name func(string) string, f func(string, []byte) error) error {
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return err
	}
	for _, p := range paths {
		if as := name(p); as != "" {
			if content, err := os.ReadFile(p); err == nil {
				if err := f(as, content); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// withoutAddresses clears the addresses in kallsyms, so that files do not reveal the kernel's location in memory.
func withoutAddresses(text []byte) []byte {
	for line := range bytes.Lines(text) {
		for i, c := range line {
			if c == ' ' {
				break
			}
			line[i] = '0'
		}
	}
	return text
}

// WriteRaw writes a raw capture of this kernel: an archive of EachRaw's files in the ustar format (POSIX.1-1988),
// which tar(1) reads. It is implemented here, in 30 lines, because archive/tar would add 100 KB to btrun.
func WriteRaw(w io.Writer) error {
	if err := EachRaw(func(name string, content []byte) error {
		head, err := tarHeader(name, len(content))
		if err != nil {
			return err
		}
		for _, part := range [][]byte{head, content, make([]byte, -len(content)&(tarBlock-1))} {
			if _, err := w.Write(part); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	_, err := w.Write(make([]byte, 2*tarBlock))
	return err
}

// tarBlock is the unit of a tar file, in bytes.
const tarBlock = 512

// tarHeader returns the header of a regular file.
func tarHeader(name string, size int) ([]byte, error) {
	head := make([]byte, tarBlock)
	base, prefix := name, ""
	if len(base) > 100 {
		prefix, base = path.Split(name)
		prefix = strings.TrimSuffix(prefix, "/")
	}
	if len(base) > 100 || len(prefix) > 155 {
		return nil, fmt.Errorf("name too long: %s", name)
	}
	copy(head, base)
	copy(head[100:], fmt.Sprintf("%07o\x00%07o\x00%07o\x00%011o\x00%011o\x00        0", 0o644, 0, 0, size, 0))
	copy(head[257:], "ustar\x0000")
	copy(head[345:], prefix)
	sum := 0
	for _, b := range head {
		sum += int(b)
	}
	copy(head[148:], fmt.Sprintf("%06o\x00 ", sum))
	return head, nil
}
