package attach

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// findBinaries turns the file part of a uprobe into paths: a path or a pattern
// of one, a program found by PATH, or a library by name ("libc", "libc.so.6").
// With a PID, paths are those of its own root folder, and "" is its program.
func findBinaries(target string, pid int) ([]string, error) {
	root := processRoot(pid)
	switch {
	case target == "" && pid != 0:
		return []string{fmt.Sprintf("/proc/%d/exe", pid)}, nil
	case target == "":
		return nil, fmt.Errorf("a uprobe without a file needs -p")
	case isPattern(target):
		return globFiles(root, target)
	case strings.Contains(target, "/"):
		path := target
		if root != "" && strings.HasPrefix(target, "/") {
			path = root + target
		}
		if _, err := os.Stat(path); err != nil {
			return nil, &missing{fmt.Sprintf("uprobe target file '%s' does not exist or is not executable", target)}
		}
		return []string{path}, nil
	}
	if path, ok := inPath(target); ok {
		return []string{path}, nil
	}
	if path, ok := findLibrary(target); ok {
		return []string{path}, nil
	}
	return nil, &missing{fmt.Sprintf("uprobe target file '%s' does not exist or is not executable", target)}
}

// processRoot is the root folder of a process as we see it, "" when it is ours.
// A mount namespace of its own may show other files under the same folder.
func processRoot(pid int) string {
	if pid == 0 {
		return ""
	}
	link, err := os.Readlink(fmt.Sprintf("/proc/%d/root", pid))
	theirs, terr := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	ours, oerr := os.Readlink("/proc/self/ns/mnt")
	if err == nil && link == "/" && (terr != nil || oerr != nil || theirs == ours) {
		return ""
	}
	return fmt.Sprintf("/proc/%d/root", pid)
}

func globFiles(root, pattern string) ([]string, error) {
	files, err := filepath.Glob(root + pattern)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", pattern, err)
	}
	var out []string
	for _, f := range files {
		if isELF(f) {
			out = append(out, f)
		}
	}
	return out, nil
}

func inPath(name string) (string, bool) {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		path := filepath.Join(dir, name)
		if fi, err := os.Stat(path); err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
			return path, true
		}
	}
	return "", false
}

// machines are the ELF machines of the architectures we run on.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

func isELF(path string) bool {
	f, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	want, ok := machines[runtime.GOARCH]
	return !ok || f.Machine == want
}

// findLibrary finds a shared library by file name or by name without suffix,
// in the dynamic linker's cache and then in the usual folders.
func findLibrary(name string) (string, bool) {
	fits := func(file string) bool { return file == name || strings.HasPrefix(file, name+".so") }
	if cache, err := os.ReadFile("/etc/ld.so.cache"); err == nil {
		for _, e := range parseLdCache(cache) {
			if fits(e.name) && isELF(e.path) {
				return e.path, true
			}
		}
	}
	for _, pattern := range []string{"/lib64", "/usr/lib64", "/lib/*-linux-gnu*", "/usr/lib/*-linux-gnu*", "/lib", "/usr/lib", "/usr/local/lib"} {
		files, _ := filepath.Glob(pattern + "/" + name + "*")
		for _, f := range files {
			if fits(filepath.Base(f)) && isELF(f) {
				return f, true
			}
		}
	}
	return "", false
}

type library struct{ name, path string }

// parseLdCache reads glibc's /etc/ld.so.cache, format 1.1: a header of 48 bytes,
// entries of 24, offsets of strings from the header's start. What is out of
// bounds is skipped.
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
