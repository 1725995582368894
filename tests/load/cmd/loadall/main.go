// Loadall loads every program of every object in a folder into the running
// kernel and writes one JSON line for each (objload.Result). Objects named in
// further arguments are left out. The load suite starts it in its guests.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"btc/tests/load/objload"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "loadall:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) < 2 {
		return fmt.Errorf("usage: loadall FOLDER [DONE.o ...]")
	}
	if err := objload.Prepare(); err != nil {
		return err
	}
	paths, err := filepath.Glob(filepath.Join(os.Args[1], "*.o"))
	if err != nil {
		return err
	}
	loader, out := objload.New(), json.NewEncoder(os.Stdout)
	for _, path := range paths {
		name := filepath.Base(path)
		if slices.Contains(os.Args[2:], name) {
			continue
		}
		object, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, r := range loader.Object(strings.TrimSuffix(name, ".o"), object) {
			if err := out.Encode(r); err != nil {
				return err
			}
		}
	}
	return nil
}
