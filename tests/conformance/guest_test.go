// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"archive/tar"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"btc/tests/kernels/vm"
)

var kernels = flag.String("kernel", "", "boot only kernels that match this regular expression")

var disk = flag.String("disk", "../../build/oracle/root.ext4", "image that is the root of guests")

// TestProbesGuest runs the runtime tests that need kprobes or fentry in guests that have them. The
// others run on this machine (TestProbes).
func TestProbesGuest(t *testing.T) { inGuests(t, "TestProbes", "probe", probesHead) }

// TestEngineGuest does the same with bpftrace's own engine. The guest's image needs python3 and ps.
func TestEngineGuest(t *testing.T) { inGuests(t, "TestEngine", "engine", engineHead) }

// inGuests runs a test of this package in virtual machines, with one boot per kernel, and compares the
// results with the list of the kernel.
func inGuests(t *testing.T, test, list, head string) {
	tests := checkout(t)
	if testing.Short() {
		t.Skip("skipped: boots kernels under emulation, many minutes (-short)")
	}
	disk, err := filepath.Abs(*disk)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(disk); err != nil {
		t.Skip("skipped: no root for the guest (tests/setup/oracle.sh makes it): ", err)
	}
	driver, err := filepath.Abs("testdata/engine.py")
	if err != nil {
		t.Fatal(err)
	}
	s := newShell(t, tests)
	binary := filepath.Join(t.TempDir(), "conformance.test")
	cmd := exec.Command("go", "test", "-c", "-o", binary, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"6.12", "sid"} {
		if !regexp.MustCompile(*kernels).MatchString(name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			image, err := vm.FindImage("../../build/kernels", name)
			if err != nil {
				t.Skip("skipped: ", err)
			}
			qemu, err := vm.FindQEMU("../../build/qemu", image)
			if err != nil {
				t.Skip("skipped: ", err)
			}
			files := guest(t, vm.Config{
				QEMU: qemu, Image: image, Disk: disk, Memory: 1536, Silence: 90 * time.Minute,
				Puts: []vm.Put{{Host: tests, Guest: tests}, {Host: s.dir, Guest: s.dir}, {Host: filepath.Dir(s.adapter), Guest: "/adapter"},
					{Host: binary, Guest: "/conformance.test"}, {Host: driver, Guest: guestDriver}},
				Env:     []string{Checkout + "=" + filepath.Dir(tests), adapterVar + "=/adapter", progsVar + "=" + s.dir, resultVar + "=/out/result", "PATH=" + os.Getenv("PATH")},
				Command: []string{"/conformance.test", "-test.run", "^" + test + "$", "-test.v", "-test.timeout", "85m", "-case", *only, "-detail", "/out/detail"},
			})
			compareGuest(t, fmt.Sprintf("testdata/%s-failures-%s.txt", list, name), fmt.Sprintf(head, "Linux "+name), files)
		})
	}
}

// guestDriver is testdata/engine.py in a guest.
const guestDriver = "/engine.py"

// guest runs the tests in a virtual machine and returns the files that they wrote.
func guest(t *testing.T, c vm.Config) map[string]string {
	t.Helper()
	c.OutTar = filepath.Join(t.TempDir(), "out.tar")
	r, err := vm.Run(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s%s", r.Stdout, r.Stderr)
	if m := guestSkipped.FindSubmatch(r.Stdout); m != nil {
		t.Skipf("skipped: in the guest: %s", bytes.TrimPrefix(m[1], []byte("skipped: ")))
	}
	f, err := os.Open(c.OutTar)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	files := map[string]string{}
	for in := tar.NewReader(f); ; {
		h, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if _, err := io.Copy(&b, in); err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(h.Name, "./")] = b.String()
	}
	return files
}

// guestSkipped is a test that had nothing to do in the guest.
var guestSkipped = regexp.MustCompile(`(?m): (skipped: .*)$`)

// compareGuest compares the results of a guest with a list.
func compareGuest(t *testing.T, list, head string, files map[string]string) {
	t.Helper()
	result, ok := files["result"]
	if !ok {
		t.Fatal("guest wrote no results")
	}
	writeDetail(t, files["detail"])
	var now []listed
	ran := map[string]bool{}
	for line := range strings.Lines(result) {
		cols := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		ran[cols[0]] = true
		if len(cols) == 3 {
			now = append(now, listed{cols[0], cols[1], cols[2]})
		}
	}
	compare(t, list, head, now, func(key string) bool { return ran[key] }, *update)
}

// writeResult writes the results in the guest: one line per test, with the kind and the reason of a
// failure.
func writeResult(t *testing.T, path string, now []listed, ran map[string]bool) {
	t.Helper()
	var b strings.Builder
	for _, l := range now {
		fmt.Fprintf(&b, "%s\t%s\t%s\n", l.key, l.want, l.reason)
		delete(ran, l.key)
	}
	for key := range ran {
		fmt.Fprintf(&b, "%s\n", key)
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
