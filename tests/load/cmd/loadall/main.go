// SPDX-License-Identifier: Apache-2.0

// Loadall loads every program of every object in a directory into the running kernel and writes one
// JSON line per program (objload.Result). It skips the objects named by further arguments. With
// -bpftool PROGRAM it also loads each object with bpftool and writes one line per object
// (objload.Other). The load suite runs it in its guests.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"btc/internal/manifest"
	"btc/tests/load/objload"
)

func main() {
	bpftool := flag.String("bpftool", "", "compare with what this program loads")
	flag.Parse()
	if err := run(*bpftool, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "loadall:", err)
		os.Exit(1)
	}
}

func run(bpftool string, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("usage: loadall [-bpftool PROGRAM] DIR [DONE.o ...]")
	}
	if err := objload.Prepare(); err != nil {
		return err
	}
	paths, err := filepath.Glob(filepath.Join(args[0], "*.o"))
	if err != nil {
		return err
	}
	loader, out := objload.New(), json.NewEncoder(os.Stdout)
	for _, path := range paths {
		file := filepath.Base(path)
		if slices.Contains(args[1:], file) {
			continue
		}
		name := strings.TrimSuffix(file, ".o")
		if bpftool != "" {
			if err := out.Encode(loader.Bpftool(bpftool, name, path)); err != nil {
				return err
			}
			continue
		}
		object, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(strings.TrimSuffix(path, ".o") + ".json")
		if err != nil {
			return err
		}
		m, err := manifest.Parse(text)
		if err != nil {
			return err
		}
		for _, r := range loader.Object(name, object, m) {
			if err := out.Encode(r); err != nil {
				return err
			}
		}
	}
	return nil
}
