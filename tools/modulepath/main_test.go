// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestRename checks that the module path is changed where it is used as such, and nowhere else, and
// that a second rename finds the paths changed by the first one.
func TestRename(t *testing.T) {
	root := t.TempDir()
	const source = "package main\n\nimport (\n\t\"fmt\"\n\n\t\"btc/cmd/x\"\n)\n\n// btc/1 is a schema, /btc/cmd a file, btc/cmd a package.\n" +
		"var a = []string{\"btc/\", \"btc\", \"x/btc/cmd\", \"btc/cmds\", fmt.Sprint(x.A)}\n"
	files := map[string]string{"go.mod": "module btc\n\ngo 1.26\n", "cmd/x/x.go": source, "build/y.go": source, "docs/a.md": "`go doc btc/cmd/x`, ./btc/cmd\n", "ci": "grep '^btc/cmd/'; go vet btc/...\n"}
	for name, text := range files {
		path := filepath.Join(root, name)
		os.MkdirAll(filepath.Dir(path), 0o777)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"example.com/a/btc", "other.org/btc"} {
		if n, err := rename(root, path); err != nil || n != 4 {
			t.Fatalf("changed %d files, error = %v", n, err)
		}
		want := map[string]string{
			"go.mod": "module " + path + "\n\ngo 1.26\n",
			"cmd/x/x.go": "package main\n\nimport (\n\t\"fmt\"\n\n\t\"" + path + "/cmd/x\"\n)\n\n// btc/1 is a schema, /btc/cmd a file, " + path + "/cmd a package.\n" +
				"var a = []string{\"" + path + "/\", \"btc\", \"x/btc/cmd\", \"btc/cmds\", fmt.Sprint(x.A)}\n",
			"build/y.go": source,
			"docs/a.md":  "`go doc " + path + "/cmd/x`, ./btc/cmd\n",
			"ci":         "grep '^" + path + "/cmd/'; go vet " + path + "/...\n",
		}
		for name, text := range want {
			if have, _ := os.ReadFile(filepath.Join(root, name)); string(have) != text {
				t.Errorf("%s: got\n%s\nwant\n%s", name, have, text)
			}
		}
	}
	for _, path := range []string{"btc", "btc/x", "example.com", "example.com/ x", "../x.y/z"} {
		if _, err := rename(root, path); err == nil {
			t.Errorf("no error for %q", path)
		}
	}
}
