// SPDX-License-Identifier: Apache-2.0

package load

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"btc/compile"
	"btc/targets/kernel"
	"btc/tests/kernels/vm"
	"btc/tests/load/objload"
	"btc/tests/tier"
)

var kernelOnly = flag.String("kernel", "", "load in guests of the kernels only whose whole name matches this regular expression")

// kernels are the kernels of the matrix, by their names in getkernels.sh.
var kernels = []string{"5.10", "6.1", "6.12", "sid", "6.1-arm64", "sid-arm64"}

// absentFile lists the programs that kernels of the matrix cannot load, one per line: kernels
// (comma-separated), script/program, reason. A listed program that loads is also an error.
const absentFile = "testdata/absent.txt"

// boots is the number of times that a guest is started. The emulation occasionally breaks an innocent
// guest.
const boots = 3

// TestKernels loads every program on each kernel of the matrix, with one boot per kernel; in the first tier only on the oldest.
func TestKernels(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: boots kernels under emulation (-short)")
	}
	parent := t
	made := map[string]*loads{}
	images, err := filepath.Abs("../../build/kernels")
	if err != nil {
		t.Fatal(err)
	}
	wanted, err := regexp.Compile("^(" + cmp.Or(*kernelOnly, ".*") + ")$")
	if err != nil {
		t.Fatal(err)
	}
	for _, kernel := range kernels {
		if !wanted.MatchString(kernel) {
			continue
		}
		t.Run(kernel, func(t *testing.T) {
			if *kernelOnly == "" && kernel != kernels[0] {
				tier.Kernels.Need(t, "boots one more kernel")
			}
			image, err := vm.FindImage(images, kernel)
			if err != nil {
				t.Skip("skipped: ", err)
			}
			qemu, err := vm.FindQEMU("../../build/qemu", image)
			if err != nil {
				t.Skip("skipped: ", err)
			}
			goarch, err := vm.Arch(image)
			if err != nil {
				t.Fatal(err)
			}
			l := made[goarch]
			if l == nil {
				l = newLoads(parent, goarch)
				made[goarch] = l
			}
			c := vm.Config{QEMU: qemu, Image: image, Silence: 5 * time.Minute}
			if goarch != runtime.GOARCH {
				c.Silence = 15 * time.Minute // instructions of other architectures are emulated one by one
			}
			c.Puts = []vm.Put{{Host: l.bin, Guest: "/bin/loadall"}, {Host: l.dir, Guest: "/objects"}}
			puts, toolErr := otherTool(goarch, images)
			if toolErr == nil {
				c.Puts = append(append(c.Puts, puts...), vm.Put{Host: l.others, Guest: "/others"})
			}
			t.Parallel() // each QEMU uses one core
			c.Progress = func(stdout []byte) { fmt.Printf("%s: %d lines\n", kernel, bytes.Count(stdout, []byte{'\n'})) }
			results, others := guest(t, c, toolErr == nil)
			checkResults(t, kernel, l.list, results)
			t.Run("bpftool", func(t *testing.T) {
				if toolErr != nil {
					t.Skip("skipped: ", toolErr)
				}
				checkOthers(t, kernel, chosen(l.list), others)
			})
		})
	}
}

// loads is what the guests of an architecture load, and the program that loads it.
type loads struct {
	list   []*script
	bin    string
	dir    string // directory of the objects
	others string // directory of the objects for bpftool
}

// chosen returns the scripts whose objects bpftool loads in guests.
func chosen(list []*script) (some []*script) {
	for _, s := range list {
		if slices.Contains(guestOthers, s.name) {
			some = append(some, s)
		}
	}
	return some
}

// newLoads compiles the corpus for an architecture. The objects for x86_64 support only x86_64; those
// for other architectures support both where possible.
func newLoads(t *testing.T, goarch string) *loads {
	t.Helper()
	l := &loads{list: corpusFor(t, goarch), bin: buildLoadall(t, goarch)}
	l.dir, l.others = objects(t, l.list), objects(t, chosen(l.list))
	return l
}

// buildLoadall builds the program that loads objects and returns its path.
func buildLoadall(t *testing.T, goarch string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "loadall")
	build := exec.Command("go", "build", "-trimpath", "-o", bin, "btc/tests/load/cmd/loadall")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+goarch)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return bin
}

// corpora caches the scripts compiled by corpusFor, by architecture.
var corpora = map[string][]*script{}

// corpusFor returns the scripts that have an object for an architecture.
func corpusFor(t *testing.T, goarch string) []*script {
	t.Helper()
	if corpora[goarch] == nil {
		corpora[goarch] = compiled(t)
		if goarch != "amd64" {
			corpora[goarch] = compiledFor(t, corpora[goarch], goarch)
		}
	}
	return corpora[goarch]
}

// compiledFor compiles scripts for x86_64 and another architecture, or for the latter alone. Scripts
// that do not compile for it use features of x86_64 only.
func compiledFor(t *testing.T, list []*script, arch string) []*script {
	t.Helper()
	x86, err := kernel.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	other, err := kernel.Default(arch)
	if err != nil {
		t.Fatal(err)
	}
	outs := make([]script, len(list))
	at := map[*script]int{}
	for i, s := range list {
		outs[i] = script{name: s.name, path: s.path, text: s.text}
		at[s] = i
	}
	each(list, func(s *script) {
		o := &outs[at[s]]
		in := compile.Input{PlainNames: true, Name: s.name + ".bt", Text: s.text, Target: x86, Others: []*kernel.Target{other}, Optional: true, Compiler: "btc test"}
		o.out, o.diags = compile.Compile(in)
		if o.out == nil || len(o.out.Module.Served()) < 2 {
			in.Target, in.Others = other, nil
			o.out, o.diags = compile.Compile(in)
		}
	})
	var all []*script
	both := 0
	for i := range outs {
		s := &outs[i]
		if s.out == nil {
			t.Logf("%s does not compile for %s: %v", s.name, arch, s.diags.Err())
			continue
		}
		if len(s.out.Module.Served()) == 2 {
			both++
		}
		all = append(all, s)
	}
	t.Logf("%d objects support both architectures, %d only %s", both, len(all)-both, arch)
	if len(all) < len(list)*9/10 {
		t.Errorf("%d of %d scripts compile for %s", len(all), len(list), arch)
	}
	return all
}

// guest loads all objects in a guest; if the guest dies, it continues after the last object. Then
// bpftool loads some of the objects, if the guest has it.
func guest(t *testing.T, c vm.Config, bpftool bool) ([]objload.Result, map[string]objload.Other) {
	c.Memory = 1024
	var results []objload.Result
	for boot := 1; ; boot++ {
		command := "/bin/loadall /objects"
		for name := range finished(results) {
			command += " " + name + ".o"
		}
		if bpftool {
			command += " && /bin/loadall -bpftool " + guestBpftool + " /others"
		}
		c.Command = []string{command}
		r, err := vm.Run(context.Background(), c)
		var died *vm.GuestError
		switch {
		case err == nil && r.Exit == 0:
			t.Logf("booted in %.1f s, loaded programs for %.1f s", r.Boot.Seconds(), r.Run.Seconds())
			return append(results, parse(r.Stdout)...), others(r.Stdout)
		case err == nil:
			t.Fatalf("loadall: exit status %d: %s", r.Exit, r.Stderr)
		case !errors.As(err, &died) || boot == boots:
			t.Fatal(err)
		}
		t.Logf("restarting the guest, which died: %s", died.Reason)
		results = append(results, parse(died.Stdout)...)
		// The last object may be incomplete.
		for last := lastObject(results); len(results) > 0 && results[len(results)-1].Object == last; {
			results = results[:len(results)-1]
		}
	}
}

func lastObject(results []objload.Result) string {
	if len(results) == 0 {
		return ""
	}
	return results[len(results)-1].Object
}

func finished(results []objload.Result) map[string]bool {
	done := map[string]bool{}
	for _, r := range results {
		done[r.Object] = true
	}
	return done
}

func parse(out []byte) (results []objload.Result) {
	for line := range bytes.Lines(out) {
		var r objload.Result
		if json.Unmarshal(line, &r) == nil && r.Object != "" {
			results = append(results, r)
		}
	}
	return results
}

// ofType reports whether a listed reason is a missing field or enumerator, which the loader
// distinguishes from all other errors.
func ofType(reason string) bool {
	for _, word := range []string{"struct ", "field ", "enum "} {
		if strings.HasPrefix(reason, word) {
			return true
		}
	}
	return false
}

// checkResults compares the results on a kernel with the programs that it is known to reject.
func checkResults(t *testing.T, kernel string, list []*script, results []objload.Result) {
	byName, lacks := named(list), absent(t, kernel)
	ok := 0
	for _, r := range results {
		name := r.Object + "/" + r.Program
		reason, listed := lacks[name]
		switch {
		case r.OK && listed:
			t.Errorf("%s loads on %s, but is listed in %s: %s", name, kernel, absentFile, reason)
		case r.OK:
			ok++
		case listed && ofType(reason) && !r.Absent:
			t.Errorf("%s on %s: rejected for another reason than the one in %s (%s): %s", name, kernel, absentFile, reason, describe(byName[r.Object], r))
		case listed:
			t.Run(name, func(t *testing.T) { t.Skipf("skipped: %s lacks %s", kernel, reason) })
		case r.Absent:
			t.Errorf("%s: %s lacks %s: add it to %s", name, kernel, missingField(byName[r.Object], r), absentFile)
		default:
			t.Errorf("%s on %s: %s", name, kernel, describe(byName[r.Object], r))
		}
	}
	if got := len(finished(results)); got != len(list) {
		t.Errorf("guest loaded %d of %d objects", got, len(list))
	}
	t.Logf("kernel %s loads %d of %d programs", kernel, ok, len(results))
}

// absent returns the programs that a kernel cannot load: the reason by "script/program".
func absent(t *testing.T, kernel string) map[string]string {
	b, err := os.ReadFile(absentFile)
	if err != nil {
		t.Fatal(err)
	}
	lacks := map[string]string{}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		words := strings.SplitN(line, " ", 3)
		if len(words) != 3 {
			t.Fatalf("%s: %q: want \"kernels script/program reason\"", absentFile, line)
		}
		for k := range strings.SplitSeq(words[0], ",") {
			if k == kernel {
				lacks[words[1]] = strings.TrimSpace(words[2])
			}
		}
	}
	return lacks
}
