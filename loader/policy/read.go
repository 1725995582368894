// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"btc/internal/safefile"
)

// Host reads the policy of this host; nil if there is none.
func Host() (*Policy, error) {
	if _, err := os.Lstat(filepath.Dir(Path)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	path, err := trusted(Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, misnamed()
	}
	if err != nil {
		return nil, fmt.Errorf("the policy of this host cannot be used, so nothing runs: %w", err)
	}
	data, err := read(path)
	if err != nil {
		return nil, fmt.Errorf("the policy of this host cannot be used, so nothing runs: %w", err)
	}
	p, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("the policy of this host has an error, so nothing runs: %w", err)
	}
	return p, nil
}

// misnamed returns an error if the file is missing, but its directory has a dangling symbolic link
// or a policy under another name: its author believes that it is in force.
func misnamed() error {
	dir, base := filepath.Split(Path)
	entries, err := safefile.Entries(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is a dangling symbolic link, so nothing runs: it may refer to the policy of this host",
			filepath.Clean(dir))
	}
	if err != nil { // not readable by this user, who can still see that policy.json does not exist
		return nil
	}
	for _, e := range entries {
		if e.Name() == base {
			return fmt.Errorf("%s is a dangling symbolic link, so nothing runs: it is the policy of this host", Path)
		}
		if name := strings.ToLower(e.Name()); name == "policy" || strings.HasPrefix(name, "policy.") && name != "policy.o" {
			return fmt.Errorf("%s is not read, so nothing runs: the policy of a host is %s; rename or remove it",
				filepath.Join(dir, e.Name()), base)
		}
	}
	return nil
}

// read reads a file that belongs to root and is not too large.
func read(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	if err := ofRoot(path, &st); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err == nil && len(data) > maxBytes {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxBytes)
	}
	return data, err
}

// ofRoot returns an error if a user other than root could change the file.
func ofRoot(path string, st *unix.Stat_t) error {
	switch {
	case st.Uid != 0:
		return fmt.Errorf("%s belongs to user %d, not to root", path, st.Uid)
	case st.Mode&0o022 != 0 && st.Mode&unix.S_IFMT != unix.S_IFLNK:
		return fmt.Errorf("%s can be written by others than its owner (mode %04o): chmod go-w", path, st.Mode&0o7777)
	}
	return nil
}

// maxLinks bounds the number of symbolic links in a path, as the kernel does.
const maxLinks = 40

// trusted resolves the symbolic links in a path. Each directory and link in it must belong to root
// and be writable by root only, so that the result still names the same file later. The file itself
// is not checked.
func trusted(path string) (string, error) {
	at, rest := "/", strings.Split(path, "/")
	for links := 0; ; {
		var st unix.Stat_t
		if err := unix.Lstat(at, &st); err != nil {
			return "", &os.PathError{Op: "stat", Path: at, Err: err}
		}
		isLink := st.Mode&unix.S_IFMT == unix.S_IFLNK
		if len(rest) == 0 && !isLink {
			return at, nil
		}
		if err := ofRoot(at, &st); err != nil {
			return "", err
		}
		if isLink {
			if links++; links > maxLinks {
				return "", &os.PathError{Op: "stat", Path: path, Err: unix.ELOOP}
			}
			to, err := os.Readlink(at)
			if err != nil {
				return "", err
			}
			at = filepath.Dir(at)
			if strings.HasPrefix(to, "/") {
				at = "/"
			}
			rest = append(strings.Split(to, "/"), rest...)
			continue
		}
		at, rest = filepath.Join(at, rest[0]), rest[1:] // at contains no link, so ".." is its parent directory
	}
}
