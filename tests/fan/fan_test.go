// SPDX-License-Identifier: Apache-2.0

// Package fan tests btc fan: the report is the sum of what the hosts counted, a host that fails or
// hangs is named and delays no other, and nothing is left on a host. The hosts are shell scripts that
// replace ssh, kubectl and btrun and behave like them. Some tests use a real OpenSSH server on the
// loopback interface.
package fan

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// programs is the directory of btc and btrun.
var programs string

func TestMain(m *testing.M) { os.Exit(withPrograms(m)) }

func withPrograms(m *testing.M) int {
	dir, err := os.MkdirTemp("", "btc-fan")
	if err == nil {
		defer os.RemoveAll(dir)
		cmd := exec.Command("go", "build", "-o", dir, "btc/cmd/btc", "btc/cmd/btrun")
		cmd.Env, cmd.Stderr = append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
		err = errors.Join(os.Chmod(dir, 0o755), cmd.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	programs = dir
	return m.Run()
}

// fakeSSH runs the command in a shell, as sshd does. The name of the host determines how it behaves.
const fakeSSH = `#!/bin/sh
echo "$*" >>"$DIR/ssh.log"
while [ "$1" != -- ]; do shift; done
export HOST=$2 HOME=$DIR
case $HOST in
refused*) echo "ssh: connect to host $HOST port 22: Connection refused" >&2; exit 255 ;;
silent*) sleep 1000 & echo $! >>"$DIR/pids"; wait ;;
old*) echo "btrun: unknown option --remote" >&2; exit 1 ;;
motd*) echo "Welcome to $HOST"; echo '{"type": "motd"}' ;;
noisy*) echo $$ >>"$DIR/pids"; while :; do echo noise; sleep 0.05; done ;;
esac
exec sh -c "$3"
`

// fakeBtrun responds as btrun --remote does. A host named n37 has counted 37.
const fakeBtrun = `#!/bin/sh
for a in "$@"; do printf '[%s]' "$a"; done >"$DIR/arguments.$HOST"
arch=x86_64 remote=3
case $HOST in arm*) arch=arm64 ;; mips*) arch=mips ;; future*) remote=4 ;; esac
printf '{"type": "host", "time": "t", "remote": %d, "host": "same", "kernel": "6.1", "arch": "%s", "version": "1"}\n' $remote $arch
[ -n "$MANIFEST" ] && head -c "$SIZE" >"$DIR/object.$HOST" || head -c "$SIZE" >/dev/null
forever() { "$@" & echo $! >>"$DIR/pids"; wait; }
alive() { while :; do echo '{"type": "alive", "time": "t"}'; sleep 0.5; done; }
case $HOST in still*) forever sleep 1000 ;; esac
echo '{"type": "attached_probes", "time": "t", "count": 1, "data": {"probes": 1}}'
n=${HOST#n} end=
report() {
	printf '{"type": "map", "time": "t", "name": "@", "shape": "count", "object": "%s", "host": "same", "signed": false, "entries": [{"key": ["all"], "value": %d}]}\n' "$arch" "$1"
}
case $HOST in
n*) ;;
dies*) report 1000; echo "btrun: killed by a test" >&2; exit 137 ;;
error*) end=', "error": "x.bt:1:1: ERROR: no such \u001b[2Jprobe\nsecond line"' ;;
garbage*) echo 'not JSON'; exec sleep 1000 ;;
liar*) echo '{"type": "map", "time": "t", "name": "@other", "shape": "count", "object": "o", "host": "h", "signed": false, "entries": []}'; exec sleep 1000 ;;
stuck*) forever alive ;;
frozen*) forever sleep 1000 ;;
until*) alive & pid=$!; echo >"$DIR/waits.$HOST"; cat >/dev/null; kill $pid; n=5 ;;
talks*) printf '{"type": "printf", "time": "t", "line": 1, "col": 1, "probes": [], "data": "a\\u001b[2Jb\\nc"}\n'
	echo '{"type": "value", "time": "t", "line": 1, "col": 1, "probes": [], "data": {"uid": 0, "text": "root"}}'
	echo '{"type": "map", "time": "t", "line": 1, "col": 1, "probes": [], "name": "@p", "shape": "sum", "object": "o", "host": "h", "signed": true, "entries": [{"value": -3}]}'
	echo '{"type": "lost_events", "time": "t", "count": 7, "data": {"events": 7}}'
	echo "WARNING: the same everywhere" >&2
	echo '{"type": "runtime_error", "time": "t", "msg": "division by zero", "filename": "x.bt", "line": 3, "col": 9}'
	n=1 ;;
*) n=1 ;;
esac
[ -n "$end" ] || report "$n"
printf '{"type": "end", "time": "t", "status": 0%s}\n' "$end"
case $HOST in lingers*) forever sleep 1000 ;; floods*) forever alive ;; esac
`

// fleet is a directory with the fake programs, an object and a script.
type fleet struct {
	t    *testing.T
	dir  string
	size int64 // size of the object and the manifest
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{t: t, dir: t.TempDir()}
	f.write("path/ssh", fakeSSH)
	f.write("path/btrun", fakeBtrun)
	f.write("x.bt", "t:syscalls:sys_enter_read { @[comm] = count(); }")
	f.compile("x.bt", "x.o")
	return f
}

func (f *fleet) write(name, text string) {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755))
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) read(name string) string {
	b, err := os.ReadFile(filepath.Join(f.dir, name))
	if err != nil {
		f.t.Error(err)
	}
	return string(b)
}

func (f *fleet) compile(script, object string, more ...string) {
	f.t.Helper()
	cmd := exec.Command(filepath.Join(programs, "btc"), append([]string{"compile", script, "-o", object}, more...)...)
	cmd.Dir = f.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		f.t.Fatalf("%v\n%s", err, out)
	}
	fi, err := os.Stat(filepath.Join(f.dir, object)) // its manifest is in it
	if err != nil {
		f.t.Fatal(err)
	}
	f.size = fi.Size()
}

// command returns a btc fan command with the given arguments.
func (f *fleet) command(args ...string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	cmd = exec.Command(filepath.Join(programs, "btc"), append([]string{"fan"}, args...)...)
	cmd.Dir = f.dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(f.dir, "path")+":"+os.Getenv("PATH"), "DIR="+f.dir,
		fmt.Sprint("SIZE=", f.size))
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	return cmd, stdout, stderr
}

// run runs btc fan and checks its exit status.
func (f *fleet) run(status int, args ...string) (stdout, stderr string) {
	f.t.Helper()
	cmd, out, errs := f.command(args...)
	timer := time.AfterFunc(5*time.Minute, func() { cmd.Process.Kill() })
	defer timer.Stop()
	cmd.Run()
	if have := cmd.ProcessState.ExitCode(); have != status {
		f.t.Errorf("btc fan %q: exit status %d, want %d\n%s%s", args, have, status, out, errs)
	}
	return out.String(), errs.String()
}

// counting is a script that reports when it starts counting, and runs until it is interrupted.
const counting = `BEGIN { @ = count(); printf("up\n"); } interval:s:100 { exit(); }`

// startUntil starts a command and waits until it has printed text n times. read returns the output so
// far.
func (f *fleet) startUntil(cmd *exec.Cmd, text string, n int) (read func() string) {
	f.t.Helper()
	out, err := os.CreateTemp(f.dir, "out")
	if err != nil {
		f.t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout = out
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	read = func() string { return f.read(filepath.Base(out.Name())) }
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if strings.Count(read(), text) >= n {
			return read
		}
	}
	f.t.Errorf("%s: %q not printed within two minutes", cmd, text)
	return read
}

// gone checks that the processes of hosts that hung have exited.
func (f *fleet) gone() {
	f.t.Helper()
	for _, pid := range strings.Fields(f.read("pids")) {
		alive := true
		for end := time.Now().Add(time.Minute); alive && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			stat, err := os.ReadFile("/proc/" + pid + "/stat")
			alive = err == nil && !strings.Contains(string(stat), ") Z ")
		}
		if alive {
			f.t.Errorf("process %s of a host is still running", pid)
		}
	}
}

func has(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q not found in\n%s", p, text)
		}
	}
}

// rows returns the lines of the table, with single spaces.
func rows(text string) string {
	return regexp.MustCompile(` {2,}`).ReplaceAllString(text, " ")
}

// TestThousandHosts checks that the report is the sum of the hosts that work, and that the others are
// named.
func TestThousandHosts(t *testing.T) {
	f := newFleet(t)
	var hosts strings.Builder
	sum := 0
	for i := range 1000 {
		switch {
		case i%100 == 50:
			fmt.Fprintf(&hosts, "refused%d # a comment\n", i)
		default:
			fmt.Fprintf(&hosts, "n%d\n\n", i)
			sum += i
		}
	}
	hosts.WriteString("n1 # twice\nsilent1\n")
	f.write("hosts.txt", hosts.String())
	out, errs := f.run(2, "-H", "hosts.txt", "--parallel", "40", "--connect-timeout", "30s", "--failed", "failed.txt",
		"x.o")
	if want := fmt.Sprintf("@[all]: %d\n\n", sum); out != want {
		t.Errorf("output %q, want %q", out, want)
	}
	has(t, rows(errs), "HOST RESULT REASON\n",
		"refused50 failed ssh: connect to host refused50 port 22: Connection refused\n", "refused950 failed",
		"silent1 late no answer within 30s\n", "btc: 990 of 1001 hosts in the report, 11 failed\n")
	failed := f.read("failed.txt")
	has(t, failed, "refused950\t# failed: ssh", "silent1\t# late: no answer")
	if n := strings.Count(failed, "\n"); n != 11 {
		t.Errorf("%d hosts in the file of --failed", n)
	}
	f.gone()
}

// TestFailures checks that each way in which a host fails has its reason, and that the report does not
// include its counts.
func TestFailures(t *testing.T) {
	f := newFleet(t)
	f.write("path/none", "")
	names := "n40,motd,n2,old,dies,error,garbage,liar,stuck,silent,future,mips,arm"
	out, errs := f.run(2, "--host", names, "--connect-timeout", "20s", "--timeout", "1s", "--host-timeout", "15s", "x.o")
	if out != "@[all]: 44\n\n" { // n40, n2, and 1 each of arm and motd
		t.Errorf("report %q, want \"@[all]: 44\"", out)
	}
	has(t, rows(errs),
		"old failed btrun: unknown option --remote: its btrun is older than this btc\n",
		"dies failed the connection was lost before its report: btrun: killed by a test\n",
		"error failed x.bt:1:1: ERROR: no such [2Jprobe ...\n",
		"garbage failed its output is not that of btrun --remote: \"not JSON\"\n",
		"liar failed it reports \"@other\", a map that the object does not have\n",
		"stuck late no report 15s after the end of its time\n",
		"silent late no answer within 20s\n",
		"future failed its btrun speaks version 4 of --remote, this btc version 3\n",
		"mips failed the object is for x86_64 and arm64, and this host is mips\n",
		"btc: 4 of 13 hosts in the report, 9 failed\n")
	if strings.Contains(errs, "\x1b") {
		t.Error("control character of a host written to standard error")
	}
	f.gone()
	_, errs = f.run(1, "--host", "old,refused", "x.o")
	has(t, errs, "btc: 0 of 2 hosts in the report, 2 failed")
	_, errs = f.run(1, "--host", "a", "--btrun", "/none/btrun", "x.o")
	has(t, errs, "install btrun there, name it with --btrun PATH, or copy it with --push")
}

// TestLostHost checks that with snapshots, a lost host counts with its last snapshot.
func TestLostHost(t *testing.T) {
	f := newFleet(t)
	out, errs := f.run(2, "--host", "n1,dies", "--every", "1s", "x.o")
	if out != "@[all]: 1001\n\n" {
		t.Errorf("report %q", out)
	}
	has(t, errs, "killed by a test; its last snapshot counts", "btc: 2 of 2 hosts in the report, 1 failed")
}

// TestInterrupt checks that an interrupt ends the run on all hosts, and that the report is printed.
func TestInterrupt(t *testing.T) {
	f := newFleet(t)
	cmd, out, errs := f.command("--host", "until1,until2,stuck", "--host-timeout", "15s", "--by", "host", "x.o")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if names, _ := filepath.Glob(filepath.Join(f.dir, "waits.*")); len(names) == 2 {
			if _, err := os.Stat(filepath.Join(f.dir, "pids")); err == nil {
				break
			}
		}
	}
	cmd.Process.Signal(syscall.SIGINT)
	began := time.Now()
	cmd.Wait()
	if took := time.Since(began); took > time.Minute || cmd.ProcessState.ExitCode() != 2 {
		t.Errorf("%v after %s", cmd.ProcessState, took)
	}
	if out.String() != "@[until1, all]: 5\n@[until2, all]: 5\n\n" {
		t.Errorf("report %q", out)
	}
	has(t, rows(errs.String()), "ending the run on all hosts", "stuck late no report 15s after the interrupt\n")
	f.gone()
}

// TestEvents checks that the output of the script is printed with the name of the host.
func TestEvents(t *testing.T) {
	f := newFleet(t)
	out, errs := f.run(0, "--host", "talks1,talks2", "x.o")
	for _, h := range []string{"talks1", "talks2"} {
		has(t, linesOf(h, out), h+": a\x1b[2Jb\n"+h+": croot\n", h+": @p: -3\n")
		has(t, errs, h+": x.bt:3:9: ERROR: division by zero\n")
	}
	has(t, out, "@[all]: 2\n")
	has(t, errs, ": WARNING: the same everywhere\n", "and 1 other hosts: WARNING: the same everywhere",
		"14 events lost")
	if strings.Count(errs, ": WARNING: the same everywhere\n") != 2 { // first occurrence, and the total
		t.Errorf("warning repeated:\n%s", errs)
	}
	out, _ = f.run(0, "--host", "talks1", "-f", "json2", "x.o")
	has(t, out, `{"type": "printf", "host": "talks1", "time": "t", "line": 1`, `"name": "@", "shape": "count"`,
		`"entries": [{"key": ["all"], "value": 1}]`)
	_, errs = f.run(0, "--host", "talks1,n4", "-f", "prometheus", "-o", "out.prom", "x.o")
	has(t, f.read("out.prom"), `btc_x_total{object="x",comm="all"} 5`+"\n",
		`btc_lost_total{object="x",cause="events"} 7`)
	has(t, errs, "not part of metrics")
	if fi, err := os.Stat(filepath.Join(f.dir, "out.prom")); err != nil || fi.Mode() != 0o644 {
		t.Errorf("Stat = %v, %v", fi, err)
	}
}

// linesOf returns the lines of a host, in order. Those of different hosts may alternate.
func linesOf(host, out string) string {
	var lines strings.Builder
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, host+": ") {
			lines.WriteString(line)
		}
	}
	return lines.String()
}

// TestQuoting checks that no argument is interpreted by a shell on the way.
func TestQuoting(t *testing.T) {
	f := newFleet(t)
	f.write("p.bt", `BEGIN { @[str($1)] = count(); print(str(getopt("name", ""))); }`)
	f.compile("p.bt", "p.o")
	hostile := `a'b "c" $HOME $(touch x) ; touch x \ ` + "\n`touch x` *"
	f.run(0, "--host", "n1", "--unsafe", "--btrun", "btrun", "p.o", hostile, "--", "--name="+hostile)
	if have, want := f.read("arguments.n1"), "[--remote][--unsafe][-]["+hostile+"][--][--name="+hostile+"]"; have != want {
		t.Errorf("arguments on the host: %q\nwant %q", have, want)
	}
	has(t, f.read("ssh.log"), "-T -o BatchMode=yes -- n1 exec 'btrun' '--remote' '--unsafe' '-' 'a'\\''b")
	if _, err := os.Stat(filepath.Join(f.dir, "x")); err == nil {
		t.Error("a shell ran a command in a parameter")
	}
	f.write("bad.txt", "good\n-oProxyCommand=touch x\n")
	_, errs := f.run(1, "-H", "bad.txt", "x.o")
	has(t, errs, `btc: bad.txt:2: "-oProxyCommand=touch x" is not the name of a host`)
	for _, args := range [][]string{
		{"x.o"}, {"--host", "a"}, {"--host", "-x", "x.o"}, {"--host", "a", "none.o"}, {"--kubectl", "a=b", "--host", "a", "x.o"},
		{"--host", "a", "--namespace", "n", "x.o"}, {"--host", "a", "--timeout", "0", "x.o"}, {"--host", "a", "--parallel", "0", "x.o"},
		{"--host", "a", "--arch", "arm64", "x.o"}, {"--host", "a", "--push", "--btrun", "b", "x.o"},
	} {
		_, errs := f.run(1, args...)
		if !strings.HasPrefix(errs, "btc: ") {
			t.Errorf("%q: unexpected messages: %s", args, errs)
		}
	}
}

// TestArchitectures checks that hosts with an architecture that the object does not support get their
// own object, if there is a script.
func TestArchitectures(t *testing.T) {
	f := newFleet(t)
	cmd, out, errs := f.command("--host", "n40,arm1", "--by", "host", "x.bt")
	if err := cmd.Run(); err != nil || out.String() != "@[arm1, all]: 1\n@[n40, all]: 40\n\n" {
		t.Errorf("error = %v, output %q\n%s", err, out, errs)
	}
	f.size = 1 // makes the objects differ
	// reg("ax") is a register on one architecture only.
	f.write("r.bt", `t:raw_syscalls:sys_enter { @[comm] = count(); } kprobe:f { @r = sum(reg("ax")); }`)
	f.compile("r.bt", "r.o")
	f.size = 1
	_, stderr := f.run(2, "--host", "n40,arm1", "r.o")
	has(t, rows(stderr), "arm1 failed the object is for x86_64, and this host is arm64\n")
	_, stderr = f.run(2, "--host", "n40,arm1", "r.bt")
	has(t, rows(stderr), "arm1 failed the script cannot be compiled for arm64: ")
	// A script for riscv64 alone is compiled for other architectures if a host reports one.
	_, stderr = f.run(2, "--host", "n40,arm1", "--arch", "x86_64", "x.bt")
	has(t, rows(stderr), "arm1 failed the object is for x86_64, and this host is arm64\n")
}

// TestPush checks that --push copies the program and leaves nothing behind, whether the run ends or is
// interrupted.
func TestPush(t *testing.T) {
	f := newFleet(t)
	f.write("remote/keep", "")
	push := []string{"--push=" + filepath.Join(programs, "btrun"), "--push-dir", filepath.Join(f.dir, "remote")}
	_, errs := f.run(1, append(push, "--host", "n1", "--timeout", "1s", "--pid", "4194304", "x.o")...)
	has(t, rows(errs), "n1 failed ") // reported by the real btrun: no such process
	if os.Geteuid() == 0 {
		out, errs := f.run(
			0,
			append(push, "--host", "n1,n2", "--timeout", "1s", "--by", "host", "-e",
				`BEGIN { @[1] = count(); } interval:s:100 { exit(); }`)...)
		if out != "@[n1, 1]: 1\n@[n2, 1]: 1\n\n" {
			t.Errorf("unexpected result: %s\n%s", out, errs)
		}
		args := append(push, "--host", "n1", "-e", counting)
		cmd, _, _ := f.command(args...)
		read := f.startUntil(cmd, "up\n", 1)
		cmd.Process.Signal(syscall.SIGINT)
		if cmd.Wait(); read() != "n1: up\n@: 1\n\n" {
			t.Errorf("after an interrupt: %v, output %q", cmd.ProcessState, read())
		}
		cmd, _, _ = f.command(args...)
		f.startUntil(cmd, "up\n", 1)
		cmd.Process.Kill() // breaks the connection
		cmd.Wait()
	}
	var left []os.DirEntry
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if left, _ = os.ReadDir(filepath.Join(f.dir, "remote")); len(left) == 1 {
			break
		}
	}
	if len(left) != 1 {
		t.Errorf("files left on the host: %v", left)
	}
	_, errs = f.run(1, "--push=x.bt", "--host", "n1", "x.o")
	has(t, errs, "btc: --push: ")
}
