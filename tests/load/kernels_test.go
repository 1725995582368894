package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"btc/tests/kernels/vm"
	"btc/tests/load/objload"
)

// kernels are the kernels of the matrix, as getkernels.sh calls them.
var kernels = []string{"5.10", "6.1", "6.12", "sid"}

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
	qemu, err := vm.FindQEMU("../../build/qemu")
	if err != nil {
		t.Skip("skipped: ", err)
	}
	list := compiled(t)
	dir := objects(t, list)
	bin := filepath.Join(t.TempDir(), "loadall")
	build := exec.Command("go", "build", "-trimpath", "-o", bin, "btc/tests/load/cmd/loadall")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	images, err := filepath.Abs("../../build/kernels")
	if err != nil {
		t.Fatal(err)
	}
	for _, kernel := range kernels {
		t.Run(kernel, func(t *testing.T) {
			image, err := vm.FindImage(images, kernel)
			if err != nil {
				t.Skip("skipped: ", err)
			}
			t.Parallel() // QEMU uses one core for each
			judge(t, kernel, list, guest(t, vm.Config{QEMU: qemu, Image: image}, bin, dir))
		})
	}
}

// guest loads all objects in a guest and goes on where it died, if it dies.
func guest(t *testing.T, c vm.Config, bin, dir string) []objload.Result {
	c.Memory, c.Timeout = 1024, 5*time.Minute
	c.Puts = []vm.Put{{Host: bin, Guest: "/bin/loadall"}, {Host: dir, Guest: "/objects"}}
	var results []objload.Result
	for boot := 1; ; boot++ {
		c.Command = []string{"/bin/loadall", "/objects"}
		for name := range finished(results) {
			c.Command = append(c.Command, name+".o")
		}
		r, err := vm.Run(context.Background(), c)
		var died *vm.GuestError
		switch {
		case err == nil && r.Exit == 0:
			t.Logf("the kernel started in %.1f s and loaded for %.1f s", r.Boot.Seconds(), r.Run.Seconds())
			return append(results, parse(r.Stdout)...)
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
