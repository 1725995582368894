package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// demo runs tests/demo.sh in a copy of the layout that it needs.
func demo(t *testing.T, before ...string) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(programs, filepath.Join(dir, "bin")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"examples", "tests"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"examples/demo-reads.bt", "examples/demo-opens.bt", "tests/demo.sh"} {
		data, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	args := append(before, "sh", "tests/demo.sh")
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

func wants(t *testing.T, out string, all ...string) {
	t.Helper()
	for _, want := range all {
		if !strings.Contains(out, want) {
			t.Errorf("the demo does not print %q:\n%s", want, out)
		}
	}
}

// TestDemo runs the demo as root: the report shows the workload.
func TestDemo(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	out := demo(t)
	wants(t, out, "reads.json", "Attached 3 probes", "@bytes:", "[1M, 2M)             100 |", "@ns:", "-2   /no/such/file")
}

// TestDemoWithoutRoot runs it as nobody: it compiles and explains.
func TestDemoWithoutRoot(t *testing.T) {
	var as []string
	if os.Geteuid() == 0 {
		if _, err := exec.LookPath("setpriv"); err != nil {
			t.Skip("skipped: root, and no setpriv to be anyone else: ", err)
		}
		as = []string{"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"}
	}
	out := demo(t, as...)
	wants(t, out, "reads.json", "Tracing needs Linux and root", "sudo btrun reads.o dd")
	if strings.Contains(out, "Attached") {
		t.Errorf("it traced:\n%s", out)
	}
}
