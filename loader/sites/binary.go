// SPDX-License-Identifier: Apache-2.0

package sites

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"btc/internal/elffile"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/internal/safefile"
	"btc/loader/diag"
	"btc/loader/resolve"
)

// findBinaries turns the file part of a uprobe into paths: a path or a pattern
// of one, a program found by PATH, or a library by name ("libc", "libc.so.6").
// With a PID, paths are those of its own root directory, and "" is its program.
func (x *expander) findBinaries(p *manifest.Program, target string, pid int) ([]string, error) {
	root := processRoot(pid)
	switch {
	case target == "" && pid != 0:
		return []string{fmt.Sprintf("/proc/%d/exe", pid)}, nil
	case target == "":
		return nil, fmt.Errorf("a uprobe without a file needs -p")
	case probe.IsPattern(target):
		return matchingFiles(root, target, pid)
	case strings.Contains(target, "/"):
		file, member, isMember := elffile.Member(target)
		var err error
		if root != "" && strings.HasPrefix(target, "/") {
			file, err = safefile.Resolve(root, file)
		} else {
			var f *os.File
			if f, err = safefile.OpenHead(file, 1); err == nil {
				f.Close()
			}
		}
		var refused *safefile.FileSystemError
		if errors.As(err, &refused) || errors.Is(err, safefile.ErrNotRegular) || errors.Is(err, safefile.ErrNoAnswer) {
			return nil, err
		}
		if err != nil {
			return nil, &resolve.Missing{
				Text: fmt.Sprintf("uprobe target file '%s' does not exist or is not executable", target),
			}
		}
		if isMember {
			file += "!/" + member
		}
		return []string{file}, nil
	}
	if pid != 0 {
		// Its libraries may differ from those that a new process would load.
		mapped, err := mappedFiles(pid)
		if err != nil {
			return nil, err
		}
		mapped = slices.DeleteFunc(mapped, func(path string) bool { return !elffile.IsLibrary(filepath.Base(path), target) })
		if len(mapped) > 0 {
			return x.first(p, target, mapped), nil
		}
	}
	if path, ok := elffile.InPath(target); ok {
		return []string{path}, nil
	}
	if all := elffile.Libraries(target); len(all) > 0 {
		return x.first(p, target, all), nil
	}
	return nil, &resolve.Missing{
		Text: fmt.Sprintf("uprobe target file '%s' does not exist or is not executable", target),
	}
}

// first returns the first file of a library, and warns if there are others.
func (x *expander) first(p *manifest.Program, target string, all []string) []string {
	if len(all) > 1 {
		text := fmt.Sprintf("several files are called %s: %s is probed, not %s; name the one to probe, e.g. %s:%s:%s",
			target, all[0], strings.Join(all[1:], ", "), p.Kind, filepath.Base(all[1]), p.Attach.Name)
		if !slices.ContainsFunc(x.warnings, func(w *diag.Error) bool { return w.Text == text }) {
			x.warn(p, text)
		}
	}
	return all[:1]
}

// processRoot returns the root directory of a process as seen from this process, "" when it is the same.
// In another mount namespace the same path may be another file.
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

// matchingFiles returns the files that match a pattern: among those that the process of -p has mapped, or, without one,
// among all. A pattern without a directory matches files in the current directory and programs in PATH.
func matchingFiles(root, pattern string, pid int) ([]string, error) {
	var out []string
	if pid != 0 {
		mapped, err := mappedFiles(pid)
		if err != nil {
			return nil, err
		}
		for _, path := range mapped {
			if probe.Glob(pattern, path) || probe.Glob(pattern, strings.TrimPrefix(path, root)) {
				out = append(out, path)
			}
		}
		if len(out) > 0 || pattern == "*" {
			return out, nil
		}
	}
	if !strings.HasPrefix(pattern, "/") {
		root = ""
	}
	files, err := elffile.Files(root + pattern)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", pattern, err)
	}
	if !strings.Contains(pattern, "/") {
		files = append(files, elffile.ProgramsInPath(pattern)...)
	}
	for _, f := range files {
		if strings.HasPrefix(pattern, "./") {
			f = "./" + f // filepath.Glob removes it
		}
		if elffile.IsELF(f) {
			out = append(out, f)
		}
	}
	return out, nil
}
