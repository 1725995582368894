// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestArchitecturePage compares docs/contributing/architecture.md with the tree: each file named there
// exists and deals with riscv64, and no other Go file outside of tests does.
func TestArchitecturePage(t *testing.T) {
	const top = "../../"
	page, err := os.ReadFile(top + "docs/contributing/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	mentions := func(path string) bool {
		if strings.Contains(filepath.Base(path), "riscv64") {
			return true
		}
		text, err := os.ReadFile(top + path)
		return err == nil && bytes.Contains(bytes.ToLower(text), []byte("riscv"))
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`([a-z]+/[a-z0-9_/.]+\\.[a-z]+)`").FindAllStringSubmatch(string(page), -1) {
		path := m[1]
		named[path] = true
		if _, err := os.Stat(top + path); err != nil {
			t.Errorf("file %s on the page: %v", path, err)
		} else if !mentions(path) {
			t.Errorf("%s is on the page but does not mention riscv64", path)
		}
	}
	out, err := exec.Command("git", "-C", top, "ls-files", "*.go", "*.s").Output()
	if err != nil {
		t.Skip("skipped: not a git tree: ", err)
	}
	for path := range strings.FieldsSeq(string(out)) {
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "tests/") || path == "internal/manifest/manifest.go" || path == "manifest/types.go" || !mentions(path) {
			continue
		}
		if !named[path] {
			t.Errorf("%s mentions riscv64 but is not on the page", path)
		}
	}
}
