// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestPictures compares the pictures of the tools' pages with what btc replay draws of recordings: of tar and gzip, which tools
// of examples have traced.
func TestPictures(t *testing.T) {
	for _, tool := range []string{"offcputime", "wakeuptime"} {
		made := filepath.Join(t.TempDir(), tool+".svg")
		r := &replayOptions{file: made}
		if err := r.replay(filepath.Join("testdata", tool+".jsonl")); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(made)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("../../docs/tools", tool+".svg")
		if *updateReference {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(file); err != nil || string(got) != string(want) {
			t.Errorf("%s is out of date (%v); -update writes it", file, err)
		}
	}
}
