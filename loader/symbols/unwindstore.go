// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"

	"btc/internal/safefile"
	"btc/internal/unwind"
)

// unwindStore is a directory with unwind tables by build id: one in a file of its own name, as this process writes them,
// and packs (btc unwind pack).
type unwindStore struct {
	dir   string
	packs []*pack
	size  int64 // bytes of all files
}

// pack is a file with the tables of several build ids.
type pack struct {
	*os.File
	told bool // that it cannot be read
}

// Limits of a directory of tables.
const (
	maxStore      = 1 << 30 // bytes; nothing is written into a larger one
	maxStoreFiles = 1 << 16
	maxStorePacks = 16
)

// storeIsSafe reports whether only root can change a directory. A test replaces it.
var storeIsSafe = safefile.OfRoot

// UseStore makes Table look for tables in a directory first, and write into it what it makes. Nobody but root may be able
// to change the directory: it decides about the stacks of all programs.
func (u *Unwinder) UseStore(dir string) error {
	path, err := filepath.EvalSymlinks(dir)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return err
	}
	if !storeIsSafe(path) {
		return fmt.Errorf("%s: others than root can change the directory, or one above it: chown root and chmod go-w", dir)
	}
	names, err := safefile.List(path, maxStoreFiles)
	if err != nil {
		return err
	}
	s := &unwindStore{dir: path}
	sort.Strings(names)
	left := ""
	for _, name := range names {
		fi, err := os.Lstat(filepath.Join(path, name))
		if err != nil || !fi.Mode().IsRegular() || !strings.HasSuffix(name, unwind.CacheName("")) {
			continue
		}
		s.size += fi.Size()
		f, err := safefile.Open(filepath.Join(path, name))
		switch {
		case err != nil:
			u.warnStore(err.Error())
			continue
		case unwind.IsPack(f) && len(s.packs) < maxStorePacks:
			s.packs = append(s.packs, &pack{File: f})
			continue
		case !unwind.IsPack(f):
			if !validBuildID(strings.TrimSuffix(name, unwind.CacheName(""))) { // nor a table
				u.warnStore(f.Name() + ": not a valid pack of unwind tables")
			}
		case left == "":
			left = f.Name()
		}
		f.Close()
	}
	if left != "" {
		u.warnStore(fmt.Sprintf("more than %d packs: %s and those after it are not read", maxStorePacks, left))
	}
	u.store = s
	return nil
}

// warnStore reports what is wrong with the directory: the run goes on, and makes the tables.
func (u *Unwinder) warnStore(text string) { u.parser.warn("WARNING: --unwind-cache: " + text) }

// find returns the table of a build id; nil if there is none that can be read.
func (u *Unwinder) find(id string) *unwind.Table {
	if f, err := safefile.Open(filepath.Join(u.store.dir, unwind.CacheName(id))); err == nil {
		defer f.Close()
		if t, err := u.Stored(f, id); err == nil && t != nil {
			return t
		}
	}
	for _, f := range u.store.packs {
		t, err := u.Stored(f.File, id)
		switch {
		case err == nil && t != nil:
			return t
		case err != nil && !f.told && !u.cancelled.Load():
			f.told = true
			u.warnStore(f.Name() + ": " + err.Error())
		}
	}
	return nil
}

// keep writes a table that was made of a file with a build id, if only root of this system can have written the file: one
// of another user, or of a container, may claim the build id of a library.
func (u *Unwinder) keep(file *os.File, id string, t *unwind.Table) {
	fi, err := file.Stat()
	if err != nil || t.BuildID != id || !safefile.OnOwnMount(file) {
		return
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok || st.Uid != 0 || st.Mode&0o022 != 0 {
		return
	}
	b, err := t.MarshalBinary()
	if err != nil || u.store.size+int64(len(b)) > maxStore {
		return
	}
	temp, err := os.CreateTemp(u.store.dir, ".unwind.*")
	if err != nil {
		return
	}
	_, err = temp.Write(b)
	temp.Close()
	if err == nil {
		err = os.Rename(temp.Name(), filepath.Join(u.store.dir, unwind.CacheName(id)))
	}
	if err != nil {
		os.Remove(temp.Name())
		return
	}
	u.store.size += int64(len(b))
}
