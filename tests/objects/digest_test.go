// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"btc/compile"
	"btc/internal/arch"
	"btc/targets/kernel"
)

var update = flag.Bool("update", false, "rewrite testdata/digests.txt")

// digestFile has a line for each script: its path, the number of instructions of its object, and the
// first 16 hexadecimal digits of the SHA-256 of the object and of the manifest. A script that the
// compiler refuses has a line of its path alone.
const digestFile = "testdata/digests.txt"

// digest is a line of the file without the path. The zero value is a script without an object.
type digest struct {
	insns            int
	object, manifest string
}

// TestDigests compiles the corpus and the examples, and compares the objects with those of the commit
// that last changed digestFile. A change of the compiler that should not change any object passes; one
// that changes objects runs
//
//	go test ./tests/objects -run Digests -update -v
//
// and its commit lists what that prints: the scripts and the change in their instructions.
func TestDigests(t *testing.T) {
	now := compileAll(t)
	file, err := os.ReadFile(digestFile)
	if err != nil && !(*update && os.IsNotExist(err)) {
		t.Fatal(err)
	}
	was, err := parseDigests(string(file))
	if err != nil {
		t.Fatalf("%s: %v", digestFile, err)
	}
	changes := compareDigests(was, now)
	if *update {
		t.Log(strings.Join(append(changes, fmt.Sprintf("%d scripts, %d changed", len(now), len(changes))), "\n"))
		if err := os.WriteFile(digestFile, []byte(printDigests(now)), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if len(changes) > 0 {
		t.Errorf("the objects of %d scripts changed; if that is intended, -update rewrites %s, and the commit lists them:\n%s", len(changes), digestFile, strings.Join(changes, "\n"))
	}
}

// compileAll compiles the scripts as `btc compile` does without options: for the built-in targets of the
// default architectures. It reads nothing of the host.
func compileAll(t *testing.T) map[string]digest {
	var paths []string
	for _, dir := range []string{"tests/corpus", "examples"} {
		list, err := filepath.Glob("../../" + dir + "/*.bt")
		if err != nil || len(list) == 0 {
			t.Fatalf("no scripts in %s: %v", dir, err)
		}
		paths = append(paths, list...)
	}
	all := make([]digest, len(paths))
	var wg sync.WaitGroup
	const workers = 2
	for w := range workers {
		wg.Go(func() {
			var targets []*kernel.Target
			for _, label := range arch.Defaults() {
				target, err := kernel.Default(label)
				if err != nil {
					t.Error(err)
					return
				}
				targets = append(targets, target)
			}
			for i := w; i < len(paths); i += workers {
				text, err := os.ReadFile(paths[i])
				if err != nil {
					t.Error(err)
					continue
				}
				all[i] = compileScript(filepath.Base(paths[i]), string(text), targets)
			}
		})
	}
	wg.Wait()
	digests := map[string]digest{}
	for i, path := range paths {
		digests[strings.TrimPrefix(path, "../../")] = all[i]
	}
	return digests
}

func compileScript(name, text string, targets []*kernel.Target) digest {
	out, _ := compile.Compile(compile.Input{Name: name, Text: text, Target: targets[0], Others: targets[1:], Optional: true, Compiler: "btc test"})
	if out == nil {
		return digest{}
	}
	sum := func(b []byte) string {
		s := sha256.Sum256(b)
		return hex.EncodeToString(s[:8])
	}
	d := digest{object: sum(out.Object), manifest: sum(out.Manifest)}
	for _, f := range out.Funcs {
		d.insns += f.NumInsns()
	}
	return d
}

func parseDigests(text string) (map[string]digest, error) {
	digests := map[string]digest{}
	for line := range strings.Lines(text) {
		var path string
		var d digest
		n, err := fmt.Sscan(line, &path, &d.insns, &d.object, &d.manifest)
		if n != 4 && n != 1 {
			return nil, fmt.Errorf("%q: %v", line, err)
		}
		digests[path] = d
	}
	return digests, nil
}

func printDigests(digests map[string]digest) string {
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(digests)) {
		if d := digests[path]; d != (digest{}) {
			fmt.Fprintf(&b, "%s %d %s %s\n", path, d.insns, d.object, d.manifest)
		} else {
			fmt.Fprintln(&b, path)
		}
	}
	return b.String()
}

// compareDigests returns a line for each script that differs, by path.
func compareDigests(was, now map[string]digest) []string {
	paths := maps.Clone(was)
	maps.Copy(paths, now)
	var changes []string
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		old, had := was[path]
		d, has := now[path]
		switch {
		case old == d && had == has:
		case !had:
			changes = append(changes, fmt.Sprintf("%s: new, %d instructions", path, d.insns))
		case !has:
			changes = append(changes, fmt.Sprintf("%s: no longer exists", path))
		case d.object == "":
			changes = append(changes, fmt.Sprintf("%s: no longer compiles", path))
		case old.object == "":
			changes = append(changes, fmt.Sprintf("%s: compiles now, %d instructions", path, d.insns))
		case old.object == d.object:
			changes = append(changes, fmt.Sprintf("%s: the manifest alone changed", path))
		case old.insns == d.insns:
			changes = append(changes, fmt.Sprintf("%s: %d instructions, other bytes", path, d.insns))
		default:
			changes = append(changes, fmt.Sprintf("%s: %d -> %d instructions (%+d)", path, old.insns, d.insns, d.insns-old.insns))
		}
	}
	return changes
}

func TestCompareDigests(t *testing.T) {
	a, b := digest{10, "aa", "cc"}, digest{8, "bb", "cc"}
	was := map[string]digest{"same": a, "smaller": a, "bytes": a, "manifest": a, "refused": a, "compiles": {}, "gone": a}
	now := map[string]digest{"same": a, "smaller": b, "bytes": {10, "bb", "cc"}, "manifest": {10, "aa", "dd"}, "refused": {}, "compiles": b, "new": b}
	want := "bytes: 10 instructions, other bytes\ncompiles: compiles now, 8 instructions\ngone: no longer exists\nmanifest: the manifest alone changed\n" +
		"new: new, 8 instructions\nrefused: no longer compiles\nsmaller: 10 -> 8 instructions (-2)"
	if got := strings.Join(compareDigests(was, now), "\n"); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	again, err := parseDigests(printDigests(was))
	if err != nil || !maps.Equal(again, was) {
		t.Errorf("digests printed and parsed: %v, %v; want %v", again, err, was)
	}
}
