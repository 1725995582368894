// SPDX-License-Identifier: Apache-2.0

package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"btc/cmd/btc/forecast"
	"btc/compile"
	"btc/loader/object"
	"btc/targets/capture"
	"btc/targets/kernel"
	"btc/tests/kernels/vm"
	"btc/tests/tier"
)

// matrixFile has the scripts whose verdicts are compared with what btrun does.
const matrixFile = "testdata/matrix.txt"

// matrixCommand captures a guest's target, and runs every object there.
const matrixCommand = `mkdir -p /out; /bin/btrun --capture /out/host.tar || exit 9
for o in /objects/*.o; do
	timeout -s INT 90 /bin/btrun --unsafe --timeout 150ms $o </dev/null >/dev/null 2>/tmp/err
	echo "== $o $?"; head -c 600 /tmp/err; echo
done`

// TestForecastMatrix compares the verdict of btc check, for a target that btrun captured, with what btrun does on that kernel:
// an object with the verdict ok runs, and one with the verdict fails does not.
//
// In the first tier it takes each eighth script that is compiled for the default target and has few clauses, on one kernel.
// All of them on one kernel take a quarter of an hour:
//
//	go test ./tests/load -run ForecastMatrix -kernel 6.12 -script 'fentry|raw'
//	go test ./tests/load -run ForecastMatrix -kernel '.*' -timeout 60m
func TestForecastMatrix(t *testing.T) {
	first := *kernelOnly == "" && !tier.Kernels.Runs()
	if testing.Short() {
		t.Skip("skipped: boots kernels under emulation (-short)")
	}
	images, err := filepath.Abs("../../build/kernels")
	if err != nil {
		t.Fatal(err)
	}
	loader := filepath.Join(t.TempDir(), "btrun")
	build := exec.Command("go", "build", "-trimpath", "-o", loader, "btc/cmd/btrun")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH=amd64")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	dir := matrixObjects(t, images, first)
	for _, name := range []string{"5.10", "6.1", "6.12", "sid"} {
		if ok, err := regexp.MatchString("^("+*kernelOnly+")$", name); err != nil || !ok && *kernelOnly != "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			if first && name != "6.12" {
				tier.Kernels.Need(t, "boots one more kernel")
			}
			image, err := vm.FindImage(images, name)
			if err != nil {
				t.Skip("skipped: ", err)
			}
			qemu, err := vm.FindQEMU("../../build/qemu", image)
			if err != nil {
				t.Skip("skipped: ", err)
			}
			tarFile := filepath.Join(t.TempDir(), "out.tar")
			r, err := vm.Run(context.Background(), vm.Config{QEMU: qemu, Image: image, Memory: 768, Silence: 10 * time.Minute, OutTar: tarFile,
				Puts: []vm.Put{{Host: loader, Guest: "/bin/btrun"}, {Host: dir, Guest: "/objects"}}, Command: []string{matrixCommand},
				Progress: func(stdout []byte) { fmt.Printf("%s: %d objects\n", name, bytes.Count(stdout, []byte("== "))) }})
			if err != nil {
				t.Fatal(err)
			}
			compareMatrix(t, dir, capturedTarget(t, tarFile), string(r.Stdout))
		})
	}
}

// matrixObjects compiles the scripts of the matrix, or some of them, and returns the directory of the objects.
func matrixObjects(t *testing.T, images string, some bool) string {
	t.Helper()
	text, err := os.ReadFile(matrixFile)
	if err != nil {
		t.Fatal(err)
	}
	wanted := regexp.MustCompile(*only)
	dir, targets := t.TempDir(), map[string]*kernel.Target{}
	for i, entry := range strings.Split("\n"+string(text), "\n== ")[1:] {
		head, script, _ := strings.Cut(entry, "\n")
		name, of, other := strings.Cut(head, " for ")
		if some && (i%8 != 0 || other || strings.Contains(name, "clauses-")) {
			continue
		}
		if !wanted.MatchString(name) {
			continue
		}
		if targets[of] == nil {
			if targets[of], err = kernel.Default("x86_64"); err == nil && other {
				targets[of] = targetOf(t, images, of)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if targets[of] == nil {
			continue
		}
		out, diags := compile.Compile(compile.Input{PlainNames: true, Name: name + ".bt", Text: script, Target: targets[of], Compiler: "btc test"})
		if out == nil {
			t.Fatalf("%s: %v", name, diags.Err())
		}
		path := filepath.Join(dir, name+".o")
		for file, content := range map[string][]byte{path: out.Object, object.ManifestPath(path): out.Manifest} {
			if err := os.WriteFile(file, content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// targetOf returns the target of a kernel, without its tracepoints; nil if the kernel has not been fetched.
func targetOf(t *testing.T, images, name string) *kernel.Target {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kernel.target")
	mk := exec.Command("go", "run", "btc/tools/maketarget", "make", "-gaps", "-dir", filepath.Join(images, name), "-arch", "x86_64", "-o", path)
	if _, err := os.Stat(filepath.Join(images, name, "vmlinux.btf")); err != nil {
		return nil
	}
	if out, err := mk.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	tg, err := kernel.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return tg
}

// capturedTarget returns the target file of a guest, from the tar file of its /out.
func capturedTarget(t *testing.T, tarFile string) string {
	t.Helper()
	raw, err := exec.Command("tar", "-xOf", tarFile, "./host.tar").Output()
	if err != nil {
		t.Fatalf("no capture: %v", err)
	}
	b, err := capture.Import(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "host.target")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// compareMatrix compares the results of a guest with the verdicts.
func compareMatrix(t *testing.T, dir, target, results string) {
	t.Helper()
	counts := map[string]int{}
	for _, block := range strings.Split("\n"+results, "\n== ")[1:] {
		head, text, _ := strings.Cut(block, "\n")
		var path string
		status := -1
		if _, err := fmt.Sscan(head, &path, &status); err != nil {
			t.Fatalf("%q: %v", head, err)
		}
		name := strings.TrimSuffix(filepath.Base(path), ".o")
		o, err := object.Read(filepath.Join(dir, name+".o"))
		if err != nil {
			t.Fatal(err)
		}
		tg, err := kernel.Open(target)
		var r *forecast.Report
		if err = errors.Join(err); err == nil {
			r, err = forecast.Check(o, tg)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		counts[fmt.Sprintf("%s/%v", r.Verdict, status == 0)]++
		switch {
		case status == 130 || status == 143: // the emulation was too slow
		case r.Verdict == forecast.OK && status != 0:
			t.Errorf("%s: the verdict is ok, but btrun: status %d: %s", name, status, text)
		case r.Verdict == forecast.Fails && status == 0:
			t.Errorf("%s: btrun runs it, but the verdict is fails: %v", name, r.Findings)
		}
	}
	t.Logf("verdict/runs: %v", counts)
	if len(counts) == 0 {
		t.Error("no results")
	}
}
