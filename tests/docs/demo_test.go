// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// demo runs tests/demo.sh in a copy of the layout that it needs, and wants it to end well.
func demo(t *testing.T, before ...string) string {
	t.Helper()
	out, err := runDemo(t, programs, before...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}

// runDemo runs it with the programs of a directory.
func runDemo(t *testing.T, bin string, before ...string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(bin, filepath.Join(dir, "bin")); err != nil {
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
	return string(out), err
}

func wants(t *testing.T, out string, all ...string) {
	t.Helper()
	for _, want := range all {
		if !strings.Contains(out, want) {
			t.Errorf("the demo does not print %q:\n%s", want, out)
		}
	}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
}

// fullReport is what the demo prints where all of it works.
var fullReport = []string{"reads.json", "Attached 3 probes", "@bytes:", "[1M, 2M)             100 |", "@ns:", "-2   /no/such/file"}

// TestDemo runs the demo as root: the report shows the workload.
func TestDemo(t *testing.T) {
	needRoot(t)
	wants(t, demo(t), fullReport...)
}

// TestDemoWithoutRoot runs it as nobody: it compiles and explains.
func TestDemoWithoutRoot(t *testing.T) {
	var as []string
	if os.Geteuid() == 0 {
		as = nobody(t, "")
	}
	out := demo(t, as...)
	wants(t, out, "reads.json", "Tracing needs Linux and root", "sudo btrun reads.o dd")
	if strings.Contains(out, "Attached") {
		t.Errorf("it traced:\n%s", out)
	}
}

// nobody is the command that runs another one as a user with no rights but for
// some capabilities.
func nobody(t *testing.T, capabilities string) []string {
	t.Helper()
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip("skipped: root, and no setpriv to be anyone else: ", err)
	}
	sets := "-all" + capabilities
	return []string{"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups",
		"--bounding-set", sets, "--inh-caps", sets, "--ambient-caps", sets}
}

// justStarted is the command that runs another one on a machine where nothing has
// mounted tracefs, debugfs and the BPF file system yet, as far as it can see. The
// file systems of this machine stay as they are.
func justStarted(t *testing.T) []string {
	t.Helper()
	if _, err := exec.LookPath("unshare"); err != nil {
		t.Skip("skipped: no mount namespace of its own: ", err)
	}
	const script = `for d in /sys/kernel/tracing /sys/kernel/debug/tracing /sys/kernel/debug /sys/fs/bpf; do
	while grep -q " $d " /proc/self/mounts; do umount -l $d || exit; done
done
exec "$@"`
	return []string{"unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"}
}

// container is the command that runs another one in namespaces as a container has
// them, with a /proc and /sys of its own.
func container(t *testing.T, as ...string) []string {
	t.Helper()
	c := append(justStarted(t), "unshare", "--mount", "--pid", "--fork", "--net", "--uts", "--ipc", "--cgroup",
		"--propagation", "private", "--mount-proc", "sh", "-c", `mount -t sysfs sysfs /sys && exec "$@"`, "sh")
	return append(c, as...)
}

// engineCaps are the capabilities that container engines give by default.
const engineCaps = "-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap,+net_bind_service,+net_raw,+sys_chroot,+mknod,+audit_write,+setfcap"

// TestDemoOnOtherMachines runs it where less is prepared or less is allowed than here: it shows what
// can be shown there, and names what it leaves out.
func TestDemoOnOtherMachines(t *testing.T) {
	needRoot(t)
	const few = ",+bpf,+perfmon,+dac_read_search,+syslog"
	calls := []string{"Attached 1 probe", "@calls[read]: ", "Left out: sizes and times of its reads"}
	mounted := []string{"unshare", "--mount", "--propagation", "private", "sh", "-c",
		`[ -e /sys/kernel/tracing/events ] || mount -t tracefs tracefs /sys/kernel/tracing || exit; exec "$@"`, "sh"}
	for _, c := range []struct {
		name  string
		as    []string
		wants []string
		not   string
	}{
		{"root", justStarted(t), fullReport, "Left out"},
		{"some capabilities", append(justStarted(t), nobody(t, few)...), append(calls, "only with CAP_SYS_ADMIN"), "mount -t"},
		{"some capabilities, tracefs mounted", append(mounted, nobody(t, few)...), fullReport, "Left out"},
		{"few capabilities, tracefs mounted", append(mounted, nobody(t, ",+bpf,+perfmon")...), append(calls, "CAP_DAC_READ_SEARCH"), "mount -t"},
		{"user", append(justStarted(t), nobody(t, "")...), []string{"CAP_BPF and CAP_PERFMON, which this process does not have"}, "Attached"},
		{"container, privileged", container(t), fullReport, "Left out"},
		{"container", container(t, "setpriv", "--bounding-set", engineCaps, "--inh-caps", "-all"), []string{"CAP_BPF and CAP_PERFMON, which this process does not have"}, "Attached"},
		{"container, rootless", append(justStarted(t), "unshare", "--user", "--map-root-user"), []string{"root of a user namespace"}, "Attached"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if out, err := exec.Command(c.as[0], append(c.as[1:], "true")...).CombinedOutput(); err != nil {
				t.Skipf("skipped: this machine cannot be made so: %v %s", err, out)
			}
			before := mounts(t)
			out := demo(t, c.as...)
			wants(t, out, c.wants...)
			if strings.Contains(out, c.not) {
				t.Errorf("it prints %q:\n%s", c.not, out)
			}
			if now := mounts(t); now != before {
				t.Errorf("mounts before:\n%s\nafter:\n%s", before, now)
			}
		})
	}
}

func mounts(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A btrun that should work and does not makes the demo fail: one that is refused,
// one that ends well and has seen nothing.
func TestDemoFails(t *testing.T) {
	needRoot(t)
	for _, script := range []string{
		"echo 'error: the verifier refuses it: permission denied' >&2; exit 1", "echo Attached 3 probes", "kill -9 $$",
	} {
		bin := t.TempDir()
		if err := os.WriteFile(filepath.Join(bin, "btrun"), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(programs, "btc"), filepath.Join(bin, "btc")); err != nil {
			t.Fatal(err)
		}
		if out, err := runDemo(t, bin); err == nil || !strings.Contains(out, "demo: failed: ") {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
	}
}
