// SPDX-License-Identifier: Apache-2.0

package symbolize

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"io/fs"
	"os"
	slashed "path"
	"path/filepath"
	"slices"
	"strings"

	"btc/internal/elffile"
	"btc/internal/xz"
	"btc/loader/format"
)

// Files are the files of programs, libraries and their debug information below directories.
type Files struct {
	dirs    []string // directories and files
	warn    func(text string)
	modules map[string]*module  // by build id; nil: there is none
	index   map[string][]string // paths by build id; nil: not made
	warned  map[string]bool
	names   int // bytes of the names of functions
}

// maxIndex bounds the files that are looked at, and maxModules the files of a recording that are kept open.
const (
	maxIndex   = 1 << 20
	maxModules = 4096
)

// NewFiles returns the files below directories; a file may be given, too. warn receives warnings, each once. The caller must
// close it.
func NewFiles(dirs []string, warn func(text string)) (*Files, error) {
	for _, dir := range dirs {
		if _, err := os.Stat(dir); err != nil {
			return nil, err
		}
	}
	return &Files{dirs: dirs, warn: warn, modules: map[string]*module{}, warned: map[string]bool{}}, nil
}

// Close closes all files.
func (f *Files) Close() {
	for _, m := range f.modules {
		m.close()
	}
}

// Missing returns the build ids for which there is no file, and how the recording names theirs.
func (f *Files) Missing() (missing []string) {
	for id, m := range f.modules {
		if m.empty() {
			name := m.name
			if name == "" {
				name = "the kernel"
			}
			missing = append(missing, id+" ("+name+")")
		}
	}
	return missing
}

func (f *Files) warnOnce(text string) {
	if !f.warned[text] && f.warn != nil {
		f.warned[text] = true
		f.warn(text)
	}
}

// frames returns a frame with a build id, preceded by those of functions that were inlined into it.
func (f *Files) frames(x *format.Frame, returns bool) []format.Frame {
	m := f.modules[x.BuildID]
	if m == nil {
		if len(f.modules) >= maxModules || !validID(x.BuildID) {
			return []format.Frame{*x}
		}
		m = f.find(x.BuildID, x.File)
		f.modules[x.BuildID] = m
	}
	if m.empty() {
		return []format.Frame{*x}
	}
	return m.frames(x, returns)
}

// validID reports whether a build id can be part of a file's name.
func validID(id string) bool {
	return len(id) > 4 && len(id) <= 128 && strings.Trim(id, "0123456789abcdef") == ""
}

// find opens the files of a build id: those at the names that debuggers use, else those that have it among all files.
func (f *Files) find(id, path string) *module {
	m := &module{files: f, name: path, id: id}
	short := id[:2] + "/" + id[2:]
	names := []string{".build-id/" + short + ".debug", "usr/lib/debug/.build-id/" + short + ".debug", "lib/debug/.build-id/" + short + ".debug",
		id + "/debuginfo", id + "/executable", ".build-id/" + short, short + ".debug", short}
	if strings.HasPrefix(path, "/") {
		path = slashed.Clean(path) // not above the directory
		names = append(names, path, "usr/lib/debug"+path+".debug", "usr/lib/debug"+path, path+".debug")
	}
	for _, dir := range f.dirs {
		m.add(dir)
		for _, name := range names {
			m.add(filepath.Join(dir, filepath.FromSlash(name)))
		}
	}
	if m.debug == nil || m.layout == nil || m.symbols == nil {
		for _, name := range f.indexed()[id] {
			m.add(name)
		}
	}
	m.open()
	return m
}

// below reports whether a path is in one of the directories.
func (f *Files) below(path string) bool {
	return slices.ContainsFunc(f.dirs, func(dir string) bool {
		rest, err := filepath.Rel(dir, path)
		return err == nil && filepath.IsLocal(rest)
	})
}

// indexed returns the files below the directories, by build id.
func (f *Files) indexed() map[string][]string {
	if f.index != nil {
		return f.index
	}
	f.index = map[string][]string{}
	n := 0
	for _, dir := range f.dirs {
		filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil
			}
			if n++; n > maxIndex {
				f.warnOnce(fmt.Sprintf("more than %d files below the directories: the others are found only by their names", maxIndex))
				return fs.SkipAll
			}
			e := openELF(path)
			if e == nil {
				return nil
			}
			defer e.close()
			if id := e.id; id != "" {
				f.index[id] = append(f.index[id], path)
			}
			return nil
		})
	}
	return f.index
}

// elfFile is an open ELF file.
type elfFile struct {
	*elf.File
	path string
	id   string
	file io.Closer
}

func (e *elfFile) close() {
	if e != nil && e.file != nil {
		e.file.Close()
	}
}

// openELF opens a file; nil if it is not an ELF file. It does not wait for the writer of a FIFO.
func openELF(path string) (e *elfFile) {
	if fi, err := os.Stat(path); err != nil || !fi.Mode().IsRegular() || fi.Size() < 64 {
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	if e = newELF(file, path); e == nil {
		file.Close()
		return nil
	}
	e.file = file
	return e
}

func newELF(in io.ReaderAt, path string) (e *elfFile) {
	defer func() {
		if recover() != nil { // debug/elf may panic on damaged input
			e = nil
		}
	}()
	var magic [4]byte
	if _, err := in.ReadAt(magic[:], 0); err != nil || string(magic[:]) != elf.ELFMAG {
		return nil
	}
	f, err := elf.NewFile(in)
	if err != nil {
		return nil
	}
	return &elfFile{File: f, path: path, id: buildID(f)}
}

// buildID returns the build id of a file; that of vmlinux is in .notes.
func buildID(f *elf.File) string {
	if id := elffile.BuildID(f); id != "" {
		return id
	}
	sec := f.Section(".notes")
	if sec == nil || sec.Size > 1<<16 || sec.Type == elf.SHT_NOBITS {
		return ""
	}
	b, _ := sec.Data()
	return elffile.NotedBuildID(b, f.ByteOrder)
}

// has reports whether a file has the content of a section.
func (e *elfFile) has(names ...string) bool {
	for _, name := range names {
		if s := e.Section(name); s != nil && s.Type != elf.SHT_NOBITS && s.Size > 0 {
			return true
		}
	}
	return false
}

// maxMiniDebug bounds .gnu_debugdata when it is decompressed, in bytes.
const maxMiniDebug = 64 << 20

// miniDebug returns the file in .gnu_debugdata, which has the symbols of functions; nil if there is none.
func (e *elfFile) miniDebug() (*elfFile, error) {
	data, _ := elffile.ReadSection(e.File, ".gnu_debugdata", maxMiniDebug)
	if data == nil {
		return nil, nil
	}
	b, err := xz.Decompress(data, maxMiniDebug)
	if err != nil {
		return nil, err
	}
	return newELF(bytes.NewReader(b), e.path), nil
}
