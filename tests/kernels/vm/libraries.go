// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// Program lists the files that a guest needs to run the program path of this machine as guest.
func Program(path, guest string) ([]Put, error) {
	files, err := Libraries(path)
	if err != nil {
		return nil, err
	}
	puts := []Put{{Host: path, Guest: guest}}
	for _, file := range append(files, "/etc/ld.so.cache") {
		real, err := filepath.EvalSymlinks(file)
		if err != nil {
			return nil, err
		}
		puts = append(puts, Put{Host: real, Guest: file})
	}
	return puts, nil
}

// Libraries returns the files that the dynamic loader maps for program: the loader itself and the
// libraries that it lists.
func Libraries(program string) ([]string, error) {
	f, err := elf.Open(program)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	section := f.Section(".interp")
	if section == nil {
		return nil, nil
	}
	b, err := section.Data()
	if err != nil {
		return nil, err
	}
	loader := string(bytes.TrimRight(b, "\x00"))
	out, err := exec.Command(loader, "--list", program).Output()
	if err != nil {
		return nil, fmt.Errorf("%s --list %s: %w", loader, program, err)
	}
	files := []string{loader}
	for line := range strings.Lines(string(out)) {
		if _, path, ok := strings.Cut(line, " => "); ok {
			path, _, _ = strings.Cut(path, " ")
			files = append(files, path)
		}
	}
	return files, nil
}
