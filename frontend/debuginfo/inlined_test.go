// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

const callsSource = `
volatile int sink;
int sq(int x) { sink += x; sink *= 3; return x * x + sink; }
__attribute__((noinline)) int plain(int x) { sink = x; return -1; }
__attribute__((noinline)) int bar(int x) { return sq(x) + 1; }
__attribute__((noinline)) int baz(int x) { return sq(x) + sq(x + 2) + plain(x); }
int main(int argc, char **argv) { return bar(argc) + baz(argc) + plain(2); }
`

// TestCalls counts the call sites of functions in the debug information of a program, also in a separate file, and of a
// file without any.
func TestCalls(t *testing.T) {
	cc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("skipped: no gcc")
	}
	dir := t.TempDir()
	run := func(args ...string) {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	source, path := filepath.Join(dir, "x.c"), filepath.Join(dir, "x")
	if err := os.WriteFile(source, []byte(callsSource), 0o644); err != nil {
		t.Fatal(err)
	}
	check := func(path string, dirs ...string) {
		f := &Finder{Dirs: dirs}
		for function, want := range map[string]Calls{
			"sq": {Sites: 3, Inlined: 3, In: []string{"bar", "baz"}}, "plain": {Sites: 2}, "bar": {Sites: 1}, "main": {},
		} {
			got, id, ok := f.Calls(path, function)
			if !ok || got.Sites != want.Sites || got.Inlined != want.Inlined || !slices.Equal(got.In, want.In) || len(id) < len("build-id:")+16 {
				t.Errorf("%s %s: %+v %s %t, want %+v", path, function, got, id, ok, want)
			}
		}
		if _, _, ok := f.Calls(path, "absent"); ok {
			t.Error("a function that is not there")
		}
	}
	for _, version := range []string{"-gdwarf-4", "-gdwarf-5"} {
		run(cc, "-O2", version, "-Wl,--build-id", "-o", path, source)
		check(path)
	}
	if strip, err := exec.LookPath("objcopy"); err == nil {
		run(strip, "--only-keep-debug", path, filepath.Join(dir, "x.debug"))
		run(strip, "--strip-debug", path, filepath.Join(dir, "stripped"))
		os.Rename(filepath.Join(dir, "x.debug"), filepath.Join(dir, "stripped.debug"))
		check(filepath.Join(dir, "stripped"))
	}
	run(cc, "-O2", "-Wl,--build-id", "-o", path, source)
	if _, _, ok := new(Finder).Calls(path, "sq"); ok {
		t.Error("a file without debug information")
	}
	if _, _, ok := new(Finder).Calls(filepath.Join(dir, "absent"), "sq"); ok {
		t.Error("no file")
	}
}
