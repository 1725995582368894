// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// demo runs tests/demo.sh in a copy of the directories that it needs. It must succeed.
func demo(t *testing.T, before ...string) string {
	t.Helper()
	out, err := runDemo(t, programs, before...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}

// runDemo runs the demo with the programs in a directory.
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
			t.Errorf("%q not found in the output of the demo:\n%s", want, out)
		}
	}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
}

// fullReport is the report of the demo if all of it works.
var fullReport = []string{"reads.json", "Attached 3 probes", "@bytes:", "[1M, 2M)             100 |", "@ns:", "-2   /no/such/file"}

// TestDemo runs the demo as root: the report must show the workload.
func TestDemo(t *testing.T) {
	needRoot(t)
	wants(t, demo(t), fullReport...)
}

// TestDemoWithoutRoot runs the demo as nobody: it compiles the script and explains why it cannot trace.
func TestDemoWithoutRoot(t *testing.T) {
	var as []string
	if os.Geteuid() == 0 {
		as = nobody(t, "")
	}
	out := demo(t, as...)
	wants(t, out, "reads.json", "Tracing needs Linux and root", "sudo btrun reads.o dd")
	if strings.Contains(out, "Attached") {
		t.Errorf("demo traced without privileges:\n%s", out)
	}
}

// nobody returns a command that runs another one as a user without privileges, except for some
// capabilities.
func nobody(t *testing.T, capabilities string) []string {
	t.Helper()
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip("skipped: no setpriv to drop root's privileges: ", err)
	}
	sets := "-all" + capabilities
	return []string{"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups",
		"--bounding-set", sets, "--inh-caps", sets, "--ambient-caps", sets}
}

// justStarted returns a command that runs another one as on a machine where tracefs, debugfs and the
// BPF file system have not been mounted yet. It does not change the mounts of this machine.
func justStarted(t *testing.T) []string {
	t.Helper()
	if _, err := exec.LookPath("unshare"); err != nil {
		t.Skip("skipped: cannot create a mount namespace: ", err)
	}
	const script = `for d in /sys/kernel/tracing /sys/kernel/debug/tracing /sys/kernel/debug /sys/fs/bpf; do
	while grep -q " $d " /proc/self/mounts; do umount -l $d || exit; done
done
exec "$@"`
	return []string{"unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"}
}

// container returns a command that runs another one in the namespaces of a container, with its own
// /proc and /sys.
func container(t *testing.T, as ...string) []string {
	t.Helper()
	c := append(justStarted(t), "unshare", "--mount", "--pid", "--fork", "--net", "--uts", "--ipc", "--cgroup",
		"--propagation", "private", "--mount-proc", "sh", "-c", `mount -t sysfs sysfs /sys && exec "$@"`, "sh")
	return append(c, as...)
}

// engineCaps are the default capabilities of container engines.
const engineCaps = "-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap,+net_bind_service,+net_raw,+sys_chroot,+mknod,+audit_write,+setfcap"

// TestDemoOnOtherMachines runs the demo where less is set up or permitted than here: it must show what
// is possible, and say what it leaves out.
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
				t.Skipf("skipped: cannot set up this environment: %v %s", err, out)
			}
			before := mounts(t)
			out := demo(t, c.as...)
			wants(t, out, c.wants...)
			if strings.Contains(out, c.not) {
				t.Errorf("%q found in the output of the demo:\n%s", c.not, out)
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

// TestDemoFails checks that the demo fails if btrun fails unexpectedly: with an error, or with success
// but an empty report.
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
