// SPDX-License-Identifier: Apache-2.0

// Package stripped builds programs as the Makefile does, for tests of their size and speed.
package stripped

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// root returns the directory of the module that contains the working directory.
func root() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	return filepath.Dir(strings.TrimSpace(string(out))), err
}

// NoInline are the patterns of the packages that are compiled without inlining, which makes btrun smaller
// and costs nothing where little time is spent. Relative ones are of the repository.
func NoInline() ([]string, error) {
	dir, err := root()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(dir, "tools/noinline.txt"))
	return strings.Fields(string(text)), err
}

// linkFlags are the linker's flags for the platform, as in the Makefile.
func linkFlags(root string) (string, error) {
	out, err := exec.Command("go", "env", "GOOS", "GOARCH").Output()
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(root, "tools/ldflags."+strings.Join(strings.Fields(string(out)), "-")))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return "-s -w " + strings.TrimSpace(string(text)), err
}

// Build builds programs of the repository ("./cmd/btrun") in a directory, without cgo.
func Build(dir string, packages ...string) error {
	patterns, err := NoInline()
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	top, err := root()
	if err != nil {
		return err
	}
	link, err := linkFlags(top)
	if err != nil {
		return err
	}
	tags, err := os.ReadFile(filepath.Join(top, "tools/btrun.tags"))
	if err != nil {
		return err
	}
	args := []string{"build", "-trimpath", "-ldflags", link, "-tags", strings.TrimSpace(string(tags))}
	flags, err := os.ReadFile(filepath.Join(top, "tools/noinline.flags"))
	if err != nil {
		return err
	}
	for _, p := range patterns {
		args = append(args, "-gcflags", p+"="+strings.TrimSpace(string(flags)))
	}
	args = append(args, "-o", dir+"/")
	cmd := exec.Command("go", append(args, packages...)...)
	cmd.Dir = top
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %v\n%s", strings.Join(packages, " and "), err, out)
	}
	return nil
}
