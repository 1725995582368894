// SPDX-License-Identifier: Apache-2.0

package elffile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLibrariesByName(t *testing.T) {
	for _, name := range []string{"libc.so.6", "libc"} {
		path, ok := Library(name)
		if !ok {
			t.Skip("skipped: C library not found")
		}
		if !strings.HasPrefix(filepath.Base(path), "libc.so") || !IsELF(path) {
			t.Errorf("path of %s = %s", name, path)
		}
	}
	if path, ok := Library("libnothing_like_this"); ok {
		t.Errorf("found %s", path)
	}
}

// FuzzLdCache checks that any contents of the dynamic linker's cache give valid entries or none.
func FuzzLdCache(f *testing.F) {
	if b, err := os.ReadFile("/etc/ld.so.cache"); err == nil {
		f.Add(b[:min(len(b), 4096)])
	}
	f.Add([]byte("glibc-ld.so.cache1.1\xff\xff\xff\xff0000000000000000000000000000000000000000000000000000"))
	f.Fuzz(func(t *testing.T, b []byte) { parseLdCache(b) })
}
