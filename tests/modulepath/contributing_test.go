// SPDX-License-Identifier: Apache-2.0

package modulepath

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"btc/tests/tier"
)

var commands = regexp.MustCompile("(?s)```sh\n(git apply .*?)```")

// TestHostValuePatch does what docs/contributing/builtin.md says: it applies the page's change to a copy of this tree and
// runs its commands. Without the tier, it only checks that the change applies.
func TestHostValuePatch(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("skipped: no git")
	}
	page, err := os.ReadFile("../../docs/contributing/builtin.md")
	if err != nil {
		t.Fatal(err)
	}
	m := commands.FindSubmatch(page)
	if m == nil {
		t.Fatal("the page has no commands that begin with git apply")
	}
	tree := t.TempDir()
	copyTree(t, tree)
	for command := range strings.Lines(string(m[1])) {
		if rest, root := strings.CutPrefix(command, "sudo "); root {
			if os.Geteuid() != 0 {
				t.Skip("skipped: not root: bpf(2) is not allowed")
			}
			command = rest
		}
		out := run(t, tree, nil, "sh", "-c", command)
		if strings.HasPrefix(command, "bin/btrun") && !strings.Contains(out, "(1, 0)") {
			t.Errorf("%s: %s", command, out)
		}
		if strings.HasPrefix(command, "git apply ") && !tier.Real.Runs() {
			tier.Real.Need(t, "the rest builds btc and btrun and runs tests")
		}
	}
}
