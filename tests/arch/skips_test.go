// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestSkipsSayWhy checks that a skipped test gives its reason in a form that can be searched for.
func TestSkipsSayWhy(t *testing.T) {
	root, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		t.Skip("skipped: no git checkout: ", err)
	}
	top := strings.TrimSpace(string(root))
	out, err := exec.Command("git", "-C", top, "ls-files", "*.go").Output()
	if err != nil {
		t.Fatal(err)
	}
	skip, right := regexp.MustCompile(`\b[a-z]+\.Skip(Now|f)?\(.*`), regexp.MustCompile(`^[a-z]+\.Skipf?\("skipped: `)
	seen := 0
	for name := range strings.Lines(string(out)) {
		name = strings.TrimSpace(name)
		text, err := os.ReadFile(top + "/" + name)
		if err != nil || !bytes.Contains(text, []byte(`"testing"`)) {
			continue
		}
		for _, call := range skip.FindAll(text, -1) {
			seen++
			if !right.Match(call) {
				t.Errorf("%s: %s: message must begin with \"skipped: \"", name, call)
			}
		}
	}
	if seen == 0 {
		t.Error("no calls of Skip found")
	}
}
