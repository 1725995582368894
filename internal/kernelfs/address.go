// SPDX-License-Identifier: Apache-2.0

package kernelfs

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"strconv"
)

// SymbolAddress finds a symbol of the kernel by name, data as well as functions. ok is false if there is none. Of
// several, the first is used, the kernel's before those of modules.
func SymbolAddress(name string) (addr uint64, ok bool, err error) {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return 0, false, err
	}
	defer f.Close()
	addr, ok, err = symbolAddress(f, name)
	if ok && addr == 0 {
		return 0, false, ErrHiddenSymbols
	}
	return addr, ok, err
}

func symbolAddress(r io.Reader, name string) (uint64, bool, error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := bytes.Fields(lines.Bytes())
		if len(fields) < 3 || string(fields[2]) != name {
			continue
		}
		addr, err := strconv.ParseUint(string(fields[0]), 16, 64)
		return addr, err == nil, err
	}
	return 0, false, lines.Err()
}
