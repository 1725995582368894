// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"btc/frontend/parse"
	"btc/internal/safefile"
)

// readScript reads the script at path. Devices, FIFOs and directories are refused, and no
// more than the maximum size is read. The name of an open file of btc itself, as the
// shell's <(...) passes it, may be a pipe.
func readScript(path string) (string, error) {
	var b []byte
	var err error
	if fd, ok := openFile(path); ok {
		return readPipe(os.NewFile(fd, path))
	}
	b, err = safefile.Read(path, parse.MaxBytes)
	if errors.Is(err, safefile.ErrTooLarge) {
		return "", tooLong(path)
	}
	if err != nil {
		return "", fmt.Errorf("cannot read the script: %w", err)
	}
	if strings.HasSuffix(path, ".o") && bytes.HasPrefix(b, []byte(elf.ELFMAG)) {
		return "", fmt.Errorf("%s is compiled, not a script: btrun %s runs an object of btc", path, path)
	}
	return string(b), nil
}

// readPipe reads a script from an open file.
func readPipe(f *os.File) (string, error) {
	b, err := io.ReadAll(io.LimitReader(f, parse.MaxBytes+1))
	if err == nil && len(b) > parse.MaxBytes {
		err = tooLong(f.Name())
	}
	return string(b), err
}

func tooLong(path string) error {
	return fmt.Errorf("%s: script too large (max %d bytes)", path, parse.MaxBytes)
}

// openFile returns the descriptor that a name such as /dev/stdin or /dev/fd/63 refers to.
func openFile(path string) (fd uintptr, ok bool) {
	path = filepath.Clean(path)
	if path == "/dev/stdin" {
		return 0, true
	}
	for _, dir := range []string{"/dev/fd/", "/proc/self/fd/"} {
		if n, found := strings.CutPrefix(path, dir); found {
			v, err := strconv.ParseUint(n, 10, 31)
			return uintptr(v), err == nil
		}
	}
	return 0, false
}
