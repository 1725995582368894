// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// archive is a cpio archive in the "newc" format, which the kernel unpacks as its initial root file
// system. All files are owned by root.
type archive struct {
	buf   bytes.Buffer
	inode int
	dirs  map[string]bool
}

func newArchive() *archive { return &archive{dirs: map[string]bool{}} }

// File type bits of a mode.
const (
	modeDir    = 0o040000
	modeFile   = 0o100000
	modeLink   = 0o120000
	modeDevice = 0o020000
)

func (a *archive) entry(name string, mode uint32, data []byte, major, minor int) {
	name = strings.TrimPrefix(name, "/")
	if dir := path.Dir(name); dir != "." {
		a.dir(dir)
	}
	a.inode++
	fmt.Fprintf(&a.buf, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		a.inode, mode, 0, 0, 1, 0, len(data), 0, 0, major, minor, len(name)+1, 0)
	a.buf.WriteString(name)
	a.buf.WriteByte(0)
	a.pad(4)
	a.buf.Write(data)
	a.pad(4)
}

func (a *archive) pad(n int) {
	for a.buf.Len()%n != 0 {
		a.buf.WriteByte(0)
	}
}

func (a *archive) dir(name string) {
	name = strings.Trim(name, "/")
	if name == "" || a.dirs[name] {
		return
	}
	a.dirs[name] = true
	a.entry(name, modeDir|0o755, nil, 0, 0)
}

func (a *archive) file(name string, perm uint32, data []byte) {
	a.entry(name, modeFile|perm, data, 0, 0)
}

func (a *archive) link(name, target string) {
	a.entry(name, modeLink|0o777, []byte(target), 0, 0)
}

func (a *archive) device(name string, major, minor int) {
	a.entry(name, modeDevice|0o600, nil, major, minor)
}

// tree adds the file or directory host as guest. If host is a symbolic link, it is followed; links
// inside a directory stay links.
func (a *archive) tree(host, guest string) error {
	info, err := os.Stat(host)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		b, err := os.ReadFile(host)
		if err != nil {
			return err
		}
		a.file(guest, uint32(info.Mode().Perm()), b)
		return nil
	}
	return filepath.WalkDir(host, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(host, p)
		if err != nil {
			return err
		}
		return a.add(p, path.Join(guest, filepath.ToSlash(rel)), d)
	})
}

func (a *archive) add(host, guest string, d fs.DirEntry) error {
	switch {
	case d.Type()&fs.ModeSymlink != 0:
		target, err := os.Readlink(host)
		if err != nil {
			return err
		}
		a.link(guest, target)
	case d.IsDir():
		a.dir(guest)
	case d.Type().IsRegular():
		b, err := os.ReadFile(host)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		a.file(guest, uint32(info.Mode().Perm()), b)
	}
	return nil
}

// bytes ends the archive and returns it.
func (a *archive) bytes() []byte {
	a.entry("TRAILER!!!", 0, nil, 0, 0)
	a.pad(512)
	return a.buf.Bytes()
}

// copyTar copies the tar archive at the start of the disk image raw, up to its end marker of two zero
// blocks.
func copyTar(raw, out string) error {
	in, err := os.Open(raw)
	if err != nil {
		return err
	}
	defer in.Close()
	o, err := os.Create(out)
	if err != nil {
		return err
	}
	return errors.Join(copyTarBlocks(in, o), o.Close())
}

func copyTarBlocks(in io.Reader, out io.Writer) error {
	const sizeStart, sizeEnd = 124, 136 // offsets of the field "size", in octal
	block := make([]byte, 512)
	for zeros := 0; zeros < 2; {
		if _, err := io.ReadFull(in, block); err != nil {
			return fmt.Errorf("the guest's /out is truncated: %w", err)
		}
		if _, err := out.Write(block); err != nil {
			return err
		}
		if len(bytes.Trim(block, "\x00")) == 0 {
			zeros++
			continue
		}
		zeros = 0
		size, err := strconv.ParseInt(strings.Trim(string(block[sizeStart:sizeEnd]), " \x00"), 8, 64)
		if err != nil {
			return fmt.Errorf("the guest's /out is not a tar archive: %w", err)
		}
		if _, err := io.CopyN(out, in, (size+511)/512*512); err != nil {
			return err
		}
	}
	return nil
}
