package symbols

import (
	"bytes"
	"debug/elf"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
)

// debugFolder is where separate files of symbols lie.
const debugFolder = "/usr/lib/debug"

// maxDebugFile bounds the file that is read whole for its checksum, in bytes.
const maxDebugFile = 2 << 30

// addDebugFile reads the separate file with the symbols that were stripped off f,
// as binutils and gdb look for it: by build id, then by the name and checksum in
// .gnu_debuglink, beside the file at path or under /usr/lib/debug. Each is looked
// for below the roots: the process's own root and ours.
func (s *fileSyms) addDebugFile(f *elf.File, buildID, path string, roots []string) {
	var names []string
	if len(buildID) > 2 {
		names = append(names, debugFolder+"/.build-id/"+buildID[:2]+"/"+buildID[2:]+".debug")
	}
	byID := len(names)
	link, sum, linked := debugLink(f)
	if linked {
		dir := filepath.Dir(path)
		names = append(names, filepath.Join(dir, link), filepath.Join(dir, ".debug", link), filepath.Join(debugFolder, dir, link))
	}
	for i, name := range names {
		for _, root := range roots {
			if i >= byID && !hasChecksum(root+name, sum) {
				continue
			}
			if d, err := elf.Open(root + name); err == nil {
				s.add(d, f)
				d.Close()
				return
			}
		}
	}
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

func hasChecksum(path string, sum uint32) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() || fi.Size() > maxDebugFile {
		return false
	}
	h := crc32.NewIEEE()
	_, err = io.Copy(h, f)
	return err == nil && h.Sum32() == sum
}
