// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"btc/internal/safefile"
)

// identify returns the identity of a file and its path without symbolic links, "" if that is not known.
func identify(f *os.File) (id identity, path string) {
	var st unix.Stat_t
	if safefile.InMemory(f) || unix.Fstat(int(f.Fd()), &st) != nil { // the inode of a copy says nothing
		return id, ""
	}
	path, _ = safefile.PathOf(f)
	return identity{fmt.Sprintf("%02x:%02x", unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev))), st.Ino}, path
}
