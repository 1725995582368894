// SPDX-License-Identifier: Apache-2.0

package fan

import (
	"os"
	"path/filepath"
	"testing"
)

// A host that hangs, at any point, is given up and named, and what it reported before counts if it was whole. The run
// itself is not limited.
func TestHangingHosts(t *testing.T) {
	f := newFleet(t)
	out, errs := f.run(2, "--host", "n40,frozen,still,lingers,floods,noisy",
		"--connect-timeout", "20s", "--host-timeout", "15s", "x.o")
	if out != "@[all]: 42\n\n" { // n40, and 1 of lingers and floods
		t.Errorf("the report is %q", out)
	}
	has(t, rows(errs),
		"\nfrozen late it hangs: nothing has arrived for ", "\nstill late it hangs: nothing has arrived for ",
		"noisy late no answer within 20s\n", "btc: 3 of 6 hosts in the report, 3 failed\n")
	f.gone()
	// A host that waits for a container is alive, and its time begins later.
	_, errs = f.run(1, "--host", "still", "--timeout", "100ms", "--host-timeout", "100ms", "--pod", "p", "--wait",
		"x.o")
	has(t, rows(errs), "still late it hangs: nothing has arrived for ")
	f.gone()
}

// A file of -o keeps its content if no host reports, and is not created then.
func TestNoReport(t *testing.T) {
	f := newFleet(t)
	f.write("old", "old")
	f.run(1, "--host", "refused", "-o", "old", "x.o")
	f.run(1, "--host", "refused", "-o", "new", "x.o")
	if have := f.read("old"); have != "old" {
		t.Errorf("the file is %q", have)
	}
	if _, err := os.Stat(filepath.Join(f.dir, "new")); err == nil {
		t.Error("a file without a report is left")
	}
	f.run(0, "--host", "n1", "-o", "old", "x.o")
	if have := f.read("old"); have != "@[all]: 1\n\n" {
		t.Errorf("the file is %q", have)
	}
}
