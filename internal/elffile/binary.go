// SPDX-License-Identifier: Apache-2.0

// Package elffile finds the files of programs and libraries by their names in attach points,
// and identifies builds of a file.
//
// It takes names and files and returns paths and identities. Compiler and loader share it; it does not query the
// kernel.
package elffile

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"btc/internal/arch"
	"btc/internal/safefile"
)

// Find returns the file for a name on this machine: a path, a program in PATH, or a shared library such as "libc" or
// "libc.so.6".
func Find(name string) (path string, ok bool) {
	if strings.Contains(name, "/") {
		_, err := os.Stat(name)
		return name, err == nil
	}
	if path, ok := InPath(name); ok {
		return path, true
	}
	return Library(name)
}

// Identity identifies a build of a file: by its build id or, without one, by its code. A
// file and its stripped copy have the same identity.
func Identity(f *elf.File) (string, error) {
	if id := BuildID(f); id != "" {
		return "build-id:" + id, nil
	}
	text := f.Section(".text")
	if text == nil || text.Type == elf.SHT_NOBITS || text.Size > maxText {
		return "", fmt.Errorf("the file has neither a build id nor code")
	}
	sum := sha256.New()
	if _, err := io.CopyN(sum, text.Open(), int64(text.Size)); err != nil {
		return "", fmt.Errorf("section .text: %w", err)
	}
	return fmt.Sprintf("text:%x", sum.Sum(nil)), nil
}

// maxText is the maximum amount of code that is hashed, in bytes.
const maxText = 1 << 30

// BuildID returns the GNU build id of a file in hex, "" when it has none.
func BuildID(f *elf.File) string {
	sec := f.Section(".note.gnu.build-id")
	if sec == nil || sec.Size > 4096 || sec.Type == elf.SHT_NOBITS {
		return ""
	}
	b, err := sec.Data()
	if err != nil || len(b) < 16 {
		return ""
	}
	nameSize, descSize := f.ByteOrder.Uint32(b), f.ByteOrder.Uint32(b[4:])
	from := 12 + uint64(nameSize+3)&^3
	if from+uint64(descSize) > uint64(len(b)) {
		return ""
	}
	return fmt.Sprintf("%x", b[from:from+uint64(descSize)])
}

// NotedBuildID returns the build id among notes (elf(5)), such as those of the kernel; "" if there is none.
func NotedBuildID(b []byte, order binary.ByteOrder) string {
	for len(b) >= 16 {
		name, desc, kind := uint64(order.Uint32(b)), uint64(order.Uint32(b[4:])), order.Uint32(b[8:])
		at := 12 + (name+3)&^3
		if at+desc > uint64(len(b)) {
			return ""
		}
		if kind == 3 && name == 4 && string(b[12:16]) == "GNU\x00" {
			return fmt.Sprintf("%x", b[at:at+desc])
		}
		b = b[min(at+(desc+3)&^3, uint64(len(b))):]
	}
	return ""
}

// InPath finds a program in PATH, as a shell does.
func InPath(name string) (string, bool) {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		path := filepath.Join(dir, name)
		if fi, err := os.Stat(path); err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
			return path, true
		}
	}
	return "", false
}

// ProgramsInPath lists the executable files in the directories of PATH whose name matches a
// pattern. A file with several names is listed once.
func ProgramsInPath(pattern string) []string {
	var out []string
	seen := map[string]bool{}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		entries, err := safefile.Entries(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if matched, err := filepath.Match(pattern, e.Name()); err != nil || !matched {
				continue
			}
			path := filepath.Join(dir, e.Name())
			fi, err := os.Stat(path)
			if err != nil || !fi.Mode().IsRegular() || fi.Mode()&0o111 == 0 {
				continue
			}
			if file, err := filepath.EvalSymlinks(path); err == nil && !seen[file] {
				seen[file] = true
				out = append(out, path)
			}
		}
	}
	return out
}

// IsELF reports whether a file is an ELF file of this machine's architecture, by its header.
func IsELF(path string) bool {
	const machineAt = 18 // e_machine
	var head [machineAt + 2]byte
	f, err := safefile.OpenHead(path, len(head))
	if err != nil {
		return false
	}
	defer f.Close()
	if _, err := f.ReadAt(head[:], 0); err != nil || string(head[:4]) != elf.ELFMAG {
		return false
	}
	here := arch.Host()
	return here == nil || elf.Machine(binary.NativeEndian.Uint16(head[machineAt:])) == here.Machine
}

// Library finds a shared library by file name or by name without suffix, see Libraries.
func Library(name string) (string, bool) {
	if all := Libraries(name); len(all) > 0 {
		return all[0], true
	}
	return "", false
}

// Libraries finds all different files of a shared library, by file name or by name without suffix: in
// the dynamic linker's cache, or, if it has none, in the usual directories.
func Libraries(name string) []string {
	var all []string
	add := func(path string) {
		if !IsELF(path) {
			return
		}
		fi, err := os.Stat(path)
		for _, old := range all {
			if o, oerr := os.Stat(old); err != nil || oerr == nil && os.SameFile(fi, o) {
				return
			}
		}
		all = append(all, path)
	}
	if cache, err := safefile.Read("/etc/ld.so.cache", maxLdCache); err == nil {
		for _, e := range parseLdCache(cache) {
			if IsLibrary(e.name, name) {
				add(e.path)
			}
		}
	}
	if len(all) > 0 {
		return all
	}
	for _, pattern := range []string{"/lib64", "/usr/lib64", "/lib/*-linux-gnu*", "/usr/lib/*-linux-gnu*", "/lib", "/usr/lib", "/usr/local/lib"} {
		files, _ := Files(pattern + "/" + name + "*")
		for _, f := range files {
			if IsLibrary(filepath.Base(f), name) {
				add(f)
			}
		}
	}
	return all
}

// maxLdCache is the largest cache of the dynamic linker that is read, in bytes.
const maxLdCache = 64 << 20

// IsLibrary reports whether a file is the library with a name: libc.so.6 and libc-2.31.so are "libc", and libc.so.6
// is also "libc.so.6".
func IsLibrary(file, name string) bool {
	tail, ok := strings.CutPrefix(file, name)
	if !ok {
		return false
	}
	return tail == "" || strings.HasPrefix(tail, ".so") ||
		tail[0] == '-' && strings.HasSuffix(tail, ".so") && strings.Trim(tail, "-.so0123456789") == ""
}

type library struct{ name, path string }

// parseLdCache reads glibc's /etc/ld.so.cache, format 1.1: a header of 48 bytes, entries of
// 24, offsets of strings from the header's start. Entries out of bounds are skipped.
func parseLdCache(b []byte) []library {
	i := bytes.Index(b, []byte("glibc-ld.so.cache1.1"))
	if i < 0 {
		return nil
	}
	b = b[i:]
	const header, entry = 48, 24
	if len(b) < header {
		return nil
	}
	text := func(off uint32) string {
		if uint64(off) >= uint64(len(b)) {
			return ""
		}
		s, _, _ := bytes.Cut(b[off:], []byte{0})
		return string(s)
	}
	var out []library
	n := int(binary.NativeEndian.Uint32(b[20:]))
	for e := b[header:]; n > 0 && len(e) >= entry; n, e = n-1, e[entry:] {
		l := library{text(binary.NativeEndian.Uint32(e[4:])), text(binary.NativeEndian.Uint32(e[8:]))}
		if l.name != "" && l.path != "" {
			out = append(out, l)
		}
	}
	return out
}

// IsProgram distinguishes a program from a library: it has a fixed address or names an
// interpreter, or says so.
func IsProgram(f *elf.File) bool {
	if f.Type == elf.ET_EXEC {
		return true
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return true
		}
	}
	const pie = 0x08000000 // DF_1_PIE
	flags, err := f.DynValue(elf.DT_FLAGS_1)
	return err == nil && len(flags) == 1 && flags[0]&pie != 0
}
