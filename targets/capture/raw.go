// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"btc/internal/arch"
	"btc/internal/kernelfs"
)

// Limits on a raw capture. A kernel with all modules of a distribution loaded has about 60 MB of types and 3,000
// files.
const (
	maxRawSize  = 512 << 20 // bytes
	maxRawFiles = 100_000
)

// memory is a file system in memory: contents by name, with implied directories.
type memory map[string][]byte

func (m memory) add(name string, content []byte) error {
	m[name] = content
	return nil
}

// Open implements fs.FS; the callers read whole files.
func (m memory) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: errors.ErrUnsupported}
}

func (m memory) ReadFile(name string) ([]byte, error) {
	if b, ok := m[name]; ok {
		return b, nil
	}
	return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
}

func (m memory) Glob(pattern string) ([]string, error) {
	var names []string
	for name := range m {
		ok, err := path.Match(pattern, name)
		if err != nil {
			return nil, err
		}
		if ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// below returns the directory dir as a file system.
func (m memory) below(dir string) memory {
	all := memory{}
	for name, content := range m {
		if rest, ok := strings.CutPrefix(name, dir+"/"); ok {
			all[rest] = content
		}
	}
	return all
}

// readArchive reads a raw capture from another machine; its sizes and names are not trusted.
func readArchive(r io.Reader) (memory, error) {
	files, left := memory{}, int64(maxRawSize)
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("not a raw capture: %w", err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if left -= h.Size; left < 0 || len(files) == maxRawFiles {
			return nil, fmt.Errorf("not a raw capture: more than %d MiB or %d files", maxRawSize>>20, maxRawFiles)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			return nil, fmt.Errorf("not a raw capture: %s: %w", h.Name, err)
		}
		files[path.Clean(h.Name)] = content
	}
	for _, name := range []string{kernelfs.RawArch, kernelfs.RawRelease, kernelfs.RawBTF + "/vmlinux"} {
		if files[name] == nil {
			return nil, fmt.Errorf("not a raw capture: it has no file %s", name)
		}
	}
	return files, nil
}

// target makes the target file.
func (m memory) target() ([]byte, error) {
	src := &Source{
		Arch:    string(bytes.TrimSpace(m[kernelfs.RawArch])),
		Release: string(bytes.TrimSpace(m[kernelfs.RawRelease])),
		BTF:     m[kernelfs.RawBTF+"/vmlinux"],
	}
	src.Syscalls = arch.ByName(src.Arch).SyscallNumbers()
	modules, err := m.Glob(kernelfs.RawBTF + "/*")
	if err != nil {
		return nil, err
	}
	for _, name := range modules {
		if module := path.Base(name); module != "vmlinux" {
			src.Modules = append(src.Modules, Module{Name: module, BTF: m[name]})
		}
	}
	if tracefs := m.below(kernelfs.RawTracefs); len(tracefs) > 0 {
		src.Tracefs = tracefs
	}
	if text, ok := m[kernelfs.RawKallsyms]; ok {
		// Names are useful even without addresses.
		src.Kallsyms, _ = kernelfs.ReadKallsyms(bytes.NewReader(text))
	}
	return file(src, MaxFile)
}
