// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"bytes"
	"debug/elf"
	"os"
	"path/filepath"

	"btc/internal/safefile"
)

// debugDir is the directory of separate symbol files.
const debugDir = "/usr/lib/debug"

// debugFile reads the functions of f and of the separate file with the symbols stripped from it, which it searches
// like binutils and gdb: by build id, then by the name and checksum in .gnu_debuglink, next to the file at path or
// under /usr/lib/debug. Each is searched below the roots: the process's root and that of this process. nil: there is
// none.
func (t *Table) debugFile(f *os.File, answer *reply, path string, roots []string) *reply {
	type candidate struct {
		name   string
		linked bool // the checksum must match
	}
	var names []candidate
	if id := answer.text; len(id) > 2 {
		names = append(names, candidate{debugDir + "/.build-id/" + id[:2] + "/" + id[2:] + ".debug", false})
	}
	if link := answer.link; link != "" && filepath.Base(link) == link && link != ".." {
		dir := filepath.Dir(path)
		names = append(names, candidate{filepath.Join(dir, link), true},
			candidate{filepath.Join(dir, ".debug", link), true}, candidate{filepath.Join(debugDir, dir, link), true})
	}
	for _, c := range names {
		for _, root := range roots {
			d, err := safefile.OpenIn(root, c.name)
			if err != nil {
				continue
			}
			r := request{kind: askDebug, sum: answer.sum, files: []int{int(f.Fd()), int(d.Fd())}}
			if c.linked {
				r.flag = 1
			}
			more, err := t.parser.call(&r)
			d.Close()
			if err == nil && more.ok {
				return more
			}
		}
	}
	return nil
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
