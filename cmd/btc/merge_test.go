// SPDX-License-Identifier: Apache-2.0

package main

import (
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMergeCompressed checks that compressed files are merged, with the host in the name of the file.
func TestMergeCompressed(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "web1.jsonl.gz")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	z.Write([]byte(strings.ReplaceAll(hostRun("web1", 3), `"host": "web1"`, `"host": ""`)))
	z.Close()
	f.Close()
	plain := filepath.Join(dir, "web2.jsonl")
	if err := os.WriteFile(plain, []byte(hostRun("web2", 4)), 0o600); err != nil {
		t.Fatal(err)
	}
	runs, bad := mergeFiles([]string{name, plain}, true)
	if text := string(runs.AppendText(nil, "@c")); len(bad) > 0 || text != "@c[web1, dd]: 3\n@c[web2, dd]: 4\n" {
		t.Errorf("%q, %v", text, bad)
	}
}
