// SPDX-License-Identifier: Apache-2.0

package fan

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// sshd is an OpenSSH server on the loopback interface with its own keys.
type sshd struct{ options []string } // options for btc fan

// startSSHD starts a server in a mount namespace in which the user that it requires exists.
func startSSHD(t *testing.T) *sshd {
	t.Helper()
	root, err := filepath.Abs("../../build/fleet/root")
	if err != nil {
		t.Fatal(err)
	}
	server, libraries := "/usr/sbin/sshd", ""
	if _, err := os.Stat(server); err != nil {
		server = filepath.Join(root, server)
		libraries = filepath.Join(root, "usr/lib/x86_64-linux-gnu")
		if dirs, _ := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu")); len(dirs) > 0 {
			libraries = dirs[0]
		}
	}
	if _, err := os.Stat(server); err != nil {
		t.Skip("skipped: no sshd: tests/setup/fleet.sh unpacks one")
	}
	keygen, errKeygen := exec.LookPath("ssh-keygen")
	if _, err := exec.LookPath("ssh"); err != nil || errKeygen != nil {
		t.Skip("skipped: no ssh and ssh-keygen on this machine")
	}
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: needed to start sshd and for bpf(2)")
	}
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, key := range []string{"host", "user"} {
		if out, err := exec.Command(keygen, "-q", "-t", "ed25519", "-N", "", "-f", in(key)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	passwd, err := os.ReadFile("/etc/passwd")
	config := fmt.Sprintf(
		"Port %d\nListenAddress 127.0.0.1\nListenAddress 127.0.0.2\nListenAddress 127.0.0.3\nHostKey %s\nAuthorizedKeysFile %s\n"+
			"StrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin prohibit-password\nMaxStartups 100\nPrintMotd no\n",
		port,
		in("host"),
		in("user.pub"),
	)
	err = errors.Join(err, os.WriteFile(in("config"), []byte(config), 0o600),
		os.WriteFile(in("passwd"), append(passwd, "sshd:x:64999:65534::/run/sshd:/usr/sbin/nologin\n"...), 0o644),
		os.WriteFile(in("shadow"), []byte("root:*:19000:0:99999:7:::\nsshd:!:19000::::::\n"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	script := `mount --bind "$1/passwd" /etc/passwd && mount --bind "$1/shadow" /etc/shadow && mount -t tmpfs run /run && mkdir -m 755 /run/sshd && exec "$2" -D -e -f "$1/config"`
	cmd := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", dir, server)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+libraries)
	log, err := os.Create(in("log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if b, err := os.ReadFile(in("log")); err == nil && t.Failed() {
			t.Logf("sshd: %s", b)
		}
	})
	for range 1200 {
		select {
		case err := <-ended:
			b, _ := os.ReadFile(in("log"))
			t.Skipf("skipped: cannot start sshd: %v: %s", err, strings.Join(strings.Fields(string(b)), " "))
		case <-time.After(50 * time.Millisecond):
		}
		if c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			c.Close()
			break
		}
	}
	s := &sshd{}
	for _, o := range []string{
		fmt.Sprint("Port=", port), "IdentityFile=" + in("user"), "IdentitiesOnly=yes", "UserKnownHostsFile=/dev/null",
		"StrictHostKeyChecking=no", "LogLevel=ERROR", "User=root",
	} {
		s.options = append(s.options, "--ssh-option", o)
	}
	return s
}

// TestOpenSSH tests over real ssh connections: merged counts are the sum, an interrupt reaches the
// hosts, a broken connection ends the run on the host, and --push leaves nothing behind.
func TestOpenSSH(t *testing.T) {
	s := startSSHD(t)
	f := newFleet(t)
	if err := os.Remove(filepath.Join(f.dir, "path/ssh")); err != nil { // use the real ssh
		t.Fatal(err)
	}
	f.write("remote/keep", "")
	btrun := filepath.Join(programs, "btrun")
	args := func(more ...string) []string { return append(append(more, s.options...), "--btrun", btrun) }

	out, errs := f.run(
		2,
		args("--host", "127.0.0.1,127.0.0.2,127.0.0.3,127.0.0.4", "--by", "host", "--timeout", "300ms",
			"-e", `BEGIN { @[str($1)] = count(); printf("hello %s\n", str($1)); }`, "a 'b' $c")...)
	has(t, out, "@[127.0.0.1, a 'b' $c]: 1\n@[127.0.0.2, a 'b' $c]: 1\n@[127.0.0.3, a 'b' $c]: 1\n",
		"127.0.0.2: hello a 'b' $c\n")
	has(t, rows(errs), "127.0.0.4 failed ssh: connect to host 127.0.0.4 port ", "Connection refused\n",
		"btc: 3 of 4 hosts in the report, 1 failed\n")

	cmd, _, stderr := f.command(args("--host", "127.0.0.1,127.0.0.2", "-e", counting)...)
	read := f.startUntil(cmd, "up\n", 2)
	cmd.Process.Signal(syscall.SIGINT)
	if cmd.Wait(); cmd.ProcessState.ExitCode() != 0 || !strings.HasSuffix(read(), "@: 2\n\n") {
		t.Errorf("after an interrupt: %v, output %s\n%s", cmd.ProcessState, read(), stderr)
	}
	if n := runsOf(btrun); n != 0 {
		t.Errorf("%d processes of btrun still running", n)
	}

	push := append(
		[]string{"--host", "127.0.0.1,127.0.0.2", "--push=" + btrun, "--push-dir", filepath.Join(f.dir, "remote"),
			"-e", counting},
		s.options...)
	out, errs = f.run(0, append([]string{"--timeout", "300ms"}, push...)...)
	if !strings.HasSuffix(out, "@: 2\n\n") {
		t.Errorf("unexpected output: %q\n%s", out, errs)
	}
	cmd, _, _ = f.command(push...)
	f.startUntil(cmd, "up\n", 2)
	syscall.Kill(cmd.Process.Pid, syscall.SIGKILL) // as if this machine went away
	cmd.Wait()
	left := func() int {
		all, _ := os.ReadDir(filepath.Join(f.dir, "remote"))
		return len(all)
	}
	if waitFor(t, func() bool { return left() == 1 }); left() != 1 {
		out, _ := exec.Command("sh", "-c", "ls -lR "+filepath.Join(f.dir, "remote")+"; ps axf | grep -B3 -A3 [b]trun").
			CombinedOutput()
		t.Logf("files left on the host: %s", out)
	}
}

// waitFor waits until a condition holds.
func waitFor(t *testing.T, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if is() {
			return
		}
	}
	t.Error("condition not met within a minute")
}

// runsOf returns the number of processes that run a program.
func runsOf(path string) int {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	n := 0
	for _, l := range links {
		if target, err := os.Readlink(l); err == nil && target == path {
			n++
		}
	}
	return n
}
