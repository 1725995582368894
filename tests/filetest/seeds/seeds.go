// SPDX-License-Identifier: Apache-2.0

// Package seeds adds files of file tests to the corpus of fuzz tests.
package seeds

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// Add adds the files in archives whose names end in suffix to the corpus of f.
func Add(f *testing.F, archives, suffix string) {
	f.Helper()
	files, err := filepath.Glob(archives)
	if err != nil || len(files) == 0 {
		f.Fatalf("no archives %s: %v", archives, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, s := range txtar.Parse(data).Files {
			if strings.HasSuffix(s.Name, suffix) {
				f.Add(string(s.Data))
			}
		}
	}
}
