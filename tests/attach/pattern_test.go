// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestManyFunctionsKnowTheirNames checks that hundreds of functions in a program share one link, and
// that each event has the name of its own function.
func TestManyFunctionsKnowTheirNames(t *testing.T) {
	needRoot(t)
	if _, err := os.Stat("/bin/bash"); err != nil {
		t.Skip("skipped: ", err)
	}
	if kernelBefore(6, 6) {
		t.Skip("skipped: no uprobe_multi links in this kernel")
	}
	t.Setenv("BPFTRACE_MAX_PROBES", "100000")
	object := compile(t, `uprobe:/bin/bash:* /pid == cpid && comm == "bash"/ { @[probe, func] = count(); @ids[probe] = count(); }`)
	out, err := exec.Command(program(t, "btrun"), "-c", "/bin/bash -c true", object).CombinedOutput()
	if err != nil {
		t.Fatalf("%v %s", err, out)
	}
	functions := 0
	for _, m := range regexp.MustCompile(`(?m)^@\[uprobe:/bin/bash:(.+), (.+)\]: `).FindAllStringSubmatch(string(out), -1) {
		functions++
		if m[1] != m[2] {
			t.Errorf("event of %s reported as one of %s", m[2], m[1])
		}
	}
	if functions < 50 || !strings.Contains(string(out), "@[uprobe:/bin/bash:main, main]: 1\n") {
		t.Errorf("events of %d functions: %.2000s", functions, out)
	}
}
