// SPDX-License-Identifier: Apache-2.0

package load

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
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
	"btc/ir/kernel"
	"btc/tests/kernels/vm"
	"btc/tests/load/objload"
)

var kernelOnly = flag.String("kernel", "", "load in guests of the kernels only whose whole name matches this regular expression")

// kernels are the kernels of the matrix, as getkernels.sh calls them.
var kernels = []string{"5.10", "6.1", "6.12", "sid", "6.1-arm64", "sid-arm64"}

// absentFile lists what the kernels of the matrix lack, one program a line:
// kernels (comma-separated), script/program, reason. A program that is listed
// and loads is an error, too.
const absentFile = "testdata/absent.txt"

// boots is how often a guest may be started: emulation now and then breaks one
// that did nothing wrong.
const boots = 3

// TestKernels has each kernel of the matrix load every program, in one boot.
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
			c := vm.Config{QEMU: qemu, Image: image, Timeout: 5 * time.Minute}
			if goarch != runtime.GOARCH {
				c.Timeout = 15 * time.Minute // another architecture's instructions are translated one by one
			}
			c.Puts = []vm.Put{{Host: l.bin, Guest: "/bin/loadall"}, {Host: l.dir, Guest: "/objects"}}
			puts, toolErr := otherTool(goarch, images)
			if toolErr == nil {
				c.Puts = append(append(c.Puts, puts...), vm.Put{Host: l.others, Guest: "/others"})
			}
			t.Parallel() // QEMU uses one core for each
			results, others := guest(t, c, toolErr == nil)
			judge(t, kernel, l.list, results)
			t.Run("bpftool", func(t *testing.T) {
				if toolErr != nil {
					t.Skip("skipped: ", toolErr)
				}
				judgeOthers(t, kernel, chosen(l.list), others)
			})
		})
	}
}

// loads are what the guests of an architecture load, and the program for that.
type loads struct {
	list   []*script
	bin    string
	dir    string // their objects
	others string // objects for bpftool
}

// chosen are the scripts whose objects bpftool loads in guests.
func chosen(list []*script) (some []*script) {
	for _, s := range list {
		if slices.Contains(guestOthers, s.name) {
			some = append(some, s)
		}
	}
	return some
}

// newLoads compiles the corpus for an architecture: x86_64's objects are those
// for it alone, others have the object that serves both where one can.
func newLoads(t *testing.T, goarch string) *loads {
	t.Helper()
	l := &loads{list: corpusFor(t, goarch), bin: buildLoadall(t, goarch)}
	l.dir, l.others = objects(t, l.list), objects(t, chosen(l.list))
	return l
}

// buildLoadall returns the path of the program that loads objects.
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

// corpora are the scripts compiled by corpusFor, by architecture.
var corpora = map[string][]*script{}

// corpusFor is the scripts that have an object for an architecture.
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

// compiledFor compiles scripts for x86_64 and another architecture, or that alone.
// What does not compile for it uses what only x86_64 has.
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
	t.Logf("%d objects serve both architectures, %d %s alone", both, len(all)-both, arch)
	if len(all) < len(list)*9/10 {
		t.Errorf("%d of %d scripts compile for %s", len(all), len(list), arch)
	}
	return all
}

// guest loads all objects in a guest and goes on where it died, if it dies; then
// bpftool loads some, if the guest has it.
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
			t.Logf("the kernel started in %.1f s and loaded for %.1f s", r.Boot.Seconds(), r.Run.Seconds())
			return append(results, parse(r.Stdout)...), others(r.Stdout)
		case err == nil:
			t.Fatalf("loadall: exit status %d: %s", r.Exit, r.Stderr)
		case !errors.As(err, &died) || boot == boots:
			t.Fatal(err)
		}
		t.Logf("the guest died and starts again: %s", died.Reason)
		results = append(results, parse(died.Stdout)...)
		// The last object may be half done.
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

// ofType reports whether a listed reason is a missing field or enumerator,
// which the loader tells apart from all other refusals.
func ofType(reason string) bool {
	for _, word := range []string{"struct ", "field ", "enum "} {
		if strings.HasPrefix(reason, word) {
			return true
		}
	}
	return false
}

// judge compares what a kernel did with what it is known to lack.
func judge(t *testing.T, kernel string, list []*script, results []objload.Result) {
	byName, lacks := named(list), absent(t, kernel)
	ok := 0
	for _, r := range results {
		name := r.Object + "/" + r.Program
		reason, listed := lacks[name]
		switch {
		case r.OK && listed:
			t.Errorf("%s loads on %s; %s says it does not: %s", name, kernel, absentFile, reason)
		case r.OK:
			ok++
		case listed && ofType(reason) && !r.Absent:
			t.Errorf("%s on %s is refused for another reason than %s names (%s): %s", name, kernel, absentFile, reason, describe(byName[r.Object], r))
		case listed:
			t.Run(name, func(t *testing.T) { t.Skipf("skipped: %s lacks %s", kernel, reason) })
		case r.Absent:
			t.Errorf("%s: %s lacks %s; where that is so, %s must say it", name, kernel, missingField(byName[r.Object], r), absentFile)
		default:
			t.Errorf("%s on %s: %s", name, kernel, describe(byName[r.Object], r))
		}
	}
	if got := len(finished(results)); got != len(list) {
		t.Errorf("the guest loaded %d objects of %d", got, len(list))
	}
	t.Logf("kernel %s takes %d of %d programs", kernel, ok, len(results))
}

// absent reads what a kernel lacks: reasons by "script/program".
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
			t.Fatalf("%s: %q is not \"kernels script/program reason\"", absentFile, line)
		}
		for k := range strings.SplitSeq(words[0], ",") {
			if k == kernel {
				lacks[words[1]] = strings.TrimSpace(words[2])
			}
		}
	}
	return lacks
}
