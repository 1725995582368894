// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"bytes"
	"debug/elf"
	"os"
	"path/filepath"
	"slices"

	"btc/internal/safefile"
)

// debugDir is the directory of separate symbol files.
const debugDir = "/usr/lib/debug"

// debugFile reads the functions of f and of the separate file with the symbols stripped from it, which it searches
// like binutils and gdb: by build id, also in the caches of debuginfod, then by the name and checksum in .gnu_debuglink,
// next to the file at path or under /usr/lib/debug. Each is searched below the roots; those of debuginfod are of this host.
// private reports whether it was below another root than that of this process. nil: there is none.
func (t *Table) debugFile(f *os.File, answer *reply, path string, roots []string) (more *reply, private bool) {
	type candidate struct {
		name          string
		linked, cache bool // the checksum must match; of debuginfod
	}
	var names []candidate
	if id := answer.text; validBuildID(id) {
		names = append(names, candidate{name: debugDir + "/.build-id/" + id[:2] + "/" + id[2:] + ".debug"})
		for _, dir := range debuginfodCaches() {
			names = append(names, candidate{name: filepath.Join(dir, id, "debuginfo"), cache: true})
		}
	}
	if link := answer.link; link != "" && filepath.Base(link) == link && link != ".." {
		dir := filepath.Dir(path)
		names = append(names, candidate{name: filepath.Join(dir, link), linked: true},
			candidate{name: filepath.Join(dir, ".debug", link), linked: true}, candidate{name: filepath.Join(debugDir, dir, link), linked: true})
	}
	for _, c := range names {
		for _, root := range roots {
			if c.cache && root != "/" {
				continue
			}
			d, err := safefile.OpenIn(root, c.name)
			if err != nil {
				continue
			}
			if c.cache && !ofCaller(d) {
				d.Close()
				continue
			}
			r := request{kind: askDebug, sum: answer.sum, files: []int{int(f.Fd()), int(d.Fd())}}
			if c.linked {
				r.flag = 1
			}
			more, err := t.parser.call(&r)
			d.Close()
			if err == nil && more.ok {
				return more, root != "/"
			}
		}
	}
	return nil, false
}

// ofCaller reports whether only root and the user can change a file. A test replaces it.
var ofCaller = safefile.OfCaller

// debuginfodCaches returns the directories in which clients of debuginfod keep files by build id (debuginfod_find_debuginfo(3)):
// those of this process's environment, and of the user who called it by sudo.
func debuginfodCaches() (dirs []string) {
	add := func(dir, name string) {
		if dir = filepath.Join(dir, name); filepath.IsAbs(dir) && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	add(os.Getenv("DEBUGINFOD_CACHE_PATH"), "")
	add(os.Getenv("XDG_CACHE_HOME"), "debuginfod_client")
	for _, home := range []string{os.Getenv("HOME"), safefile.CallerHome()} {
		if home != "" {
			add(home, ".cache/debuginfod_client")
		}
	}
	return dirs
}

// debugLink reads .gnu_debuglink: a file name, padded with NULs to a multiple of
// 4, and the CRC-32 of the file.
func debugLink(f *elf.File) (name string, sum uint32, ok bool) {
	sec := f.Section(".gnu_debuglink")
	if sec == nil || sec.Type == elf.SHT_NOBITS || sec.Size > 4096 {
		return "", 0, false
	}
	b, err := sec.Data()
	if err != nil {
		return "", 0, false
	}
	n := bytes.IndexByte(b, 0)
	at := (n + 4) &^ 3
	if n <= 0 || at+4 > len(b) {
		return "", 0, false
	}
	name = string(b[:n])
	return name, f.ByteOrder.Uint32(b[at:]), filepath.Base(name) == name
}
