// SPDX-License-Identifier: Apache-2.0

// Package tools runs the tools in examples on its own workloads and checks their output. If bpftrace is
// available (build/oracle), its tool of the same name traces the same workload, and both must report
// the same. Tools that need kprobes are run by the cases of tests/kernels.
package tools

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const root = "../.."

// tool is a test of examples/NAME.bt.
type tool struct {
	name string
	args string // parameters
	// run is a shell command. It runs in an empty directory on a disk, $D; $W is a unique name.
	run   string
	needs string // programs that run calls, separated by spaces
	// want are regular expressions that must match a line or more of the output. %W stands for $W.
	want []string
	// same, if set, is a regular expression for comparing with bpftrace's tool: the submatches of all
	// its matches must be the same in both outputs, in any order.
	same string
}

var tools = []tool{
	{name: "opensnoop", run: `cat $D/absent-$W; touch $D/$W; cat $D/$W`,
		want: []string{`cat +-1 +2 \S+/absent-%W$`, `cat +\d+ +0 \S+/%W$`},
		same: `(cat|touch) +(\S+) +(\d+) \S+/((?:absent-)?%W)$`},
	{name: "execsnoop", run: `/bin/true $W; env /bin/true 2 $W`,
		want: []string{`^\d+ +\d+ +\d+ +/bin/true %W$`, ` /bin/true 2 %W$`},
		same: `(/bin/true .*%W)$`},
	{name: "exitsnoop", run: `cp /bin/sleep $D/$W; $D/$W 0.05; $D/$W 1000 & ` + named + `kill -9 $!; wait $!; cp /bin/false $D/$W.f; $D/$W.f`,
		want: []string{` %W +\d+ +0 +0$`, ` %W +\d+ +0 +9$`, ` %W\.f +\d+ +1 +0$`}},
	{name: "biolatency", run: `dd if=/dev/zero of=$D/$W bs=4k count=32 oflag=direct status=none`,
		want: []string{`^@us\[\d+, \d+\]:`, `^\[\d+K?, \d+K?\) +\d+ \|`}},
	{name: "biosnoop", run: `cp /bin/dd $D/$W; sync $D/$W; $D/$W if=/dev/zero of=$D/f bs=4k count=8 oflag=direct status=none`,
		want: []string{` %W +\d+ +\d+:\d+ +WS?\S* +\d+ +4096 +\d+$`},
		same: ` (%W) +(\d+) +(?:\d+:\d+ +W.*)?\d+$`},
	{name: "biostacks", run: `dd if=/dev/zero of=$D/$W bs=4k count=8 oflag=direct status=none`,
		want: []string{`blk_mq_start_request\+\d+`, `^\[\d+K?, \d+K?\) +\d+ \|`}},
	{name: "bitesize", run: `cp /bin/dd $D/$W; sync $D/$W; $D/$W if=/dev/zero of=$D/f bs=4k count=16 oflag=direct status=none`,
		want: []string{`^@bytes\[%W\]:`, `^\[4K, 8K\) +\d+ \|`},
		same: `^@\w*\[(%W)\]: *\n((?:\[.*\n)+)`},
	{name: "runqlat", run: `for i in 1 2 3 4 5 6 7 8; do sleep 0.01; done`, want: []string{`^\[\d+, \d+\) +\d+ \|`}},
	{name: "runqlen", run: `timeout 0.3 sh -c 'while :; do :; done'; true`, want: []string{`^@waiting:`, `^\[\d+\] +\d+ \|`}},
	{name: "cpuwalk", run: `timeout 0.3 sh -c 'while :; do :; done'; true`, want: []string{`^@cpu:`, `^\[\d+\] +\d+ \|`}},
	{name: "offcputime", args: "-- --min=200000", run: `cp /bin/sleep $D/$W; $D/$W 0.3`,
		want: []string{`%W\]: ([2-9]\d{5}|\d{7,})$`, `(do_nanosleep|schedule)\+\d+`}},
	{name: "wakeuptime", run: `cp /bin/sleep $D/$W; $D/$W 0.2`, want: []string{`^@us\[%W, `}},
	{name: "syscount", run: `cp /bin/dd $D/$W; $D/$W if=/dev/zero of=/dev/null bs=1 count=500000 status=none`,
		want: []string{`^@syscalls\[read\]: ([5-9]\d{5}|\d{7,})$`, `^@processes\[%W\]: 100\d{4}$`},
		same: `^@process(?:es)?\[(%W)\]: (\d+)$`},
	{name: "tcplife", needs: "bash python3", run: connect, want: []string{`\d+ +%W +127\.0\.0\.1:\d+ +127\.0\.0\.1:\d+ +\d+ +\d+ +\d+$`}},
	{name: "tcpconnect", needs: "bash python3", run: connect, want: []string{` +\d+ +%W +127\.0\.0\.1:\d+$`}},
	{name: "tcpstates", needs: "bash python3", run: connect, want: []string{`CLOSE +-> SYN_SENT`, `SYN_SENT +-> ESTABLISHED`, `-> CLOSE `}},
	{name: "tcpretrans", want: []string{`^TIME`}},
	{name: "tcpdrop"},
	{name: "writeback", run: `dd if=/dev/zero of=$D/$W bs=64k count=32 status=none; sync`, want: []string{`^\d+ +\S+ +\d+ +2 +\d+$`}},
	{name: "killsnoop", run: `sleep 5 & kill -9 $!; kill -0 99999999; true`,
		want: []string{` sh +9 +\d+ +0$`, ` sh +0 +99999999 +-3$`},
		same: ` sh +\S*(?:9|SIGKILL) +(\d+) +(0)$`},
	{name: "signals", run: `cp /bin/sleep $D/$W; $D/$W 1000 & ` + named + `kill -USR1 $!; wait $!`, want: []string{`^@\[sh, User defined signal 1, %W\]: \d+$`}},
	{name: "threadsnoop", needs: "gcc", run: `printf '#include <pthread.h>\nvoid *the_worker(void *p) { return p; }\nint main(void) { pthread_t t; pthread_create(&t, 0, the_worker, 0); pthread_join(t, 0); return 0; }\n' > $D/x.c
gcc -pthread -o $D/$W $D/x.c && $D/$W`, want: []string{` %W +the_worker$`},
		same: ` (%W) +(the_worker)$`},
	{name: "bashreadline", needs: "/bin/bash", run: `echo "echo said-$W" | HISTFILE=/dev/null /bin/bash --norc -i >/dev/null 2>&1`, want: []string{` echo said-%W$`},
		same: ` (echo said-%W)$`},
	{name: "gethostlatency", needs: "getent", run: `cp $(command -v getent) $D/$W; $D/$W ahosts localhost; $D/$W hosts $W.invalid`, want: []string{` %W +\d+ +localhost$`},
		same: ` (%W) +\d+ +(localhost)$`},
	{name: "sslsnoop", needs: "openssl", run: tls, want: []string{` %W +SSL_write +1 +\d+$`},
		same: ` (%W) +.*(SSL_write)\b`},
	{name: "ssllatency", needs: "openssl", run: tls, want: []string{`^@us\[SSL_write, true\]:`}},
	{name: "statsnoop", run: `stat $D/absent-$W; stat $D >/dev/null; stat -f $D/absent-$W`,
		want: []string{` stat +2 +\S+/absent-%W$`},
		same: ` (stat) +(2) +\S+/(absent-%W)$`},
	{name: "syncsnoop", run: `touch $D/$W; cp /bin/sync $D/s$W; $D/s$W $D/$W; $D/s$W -d $D/$W`,
		want: []string{` s%W +\S*sys_enter_fsync$`, ` s%W +\S*sys_enter_fdatasync$`},
		same: ` (s%W) +(\S+)$`},
	{name: "loads", run: `sleep 2.2`, want: []string{`^\d\d:\d\d:\d\d \d+\.\d\d \d+\.\d\d \d+\.\d\d$`}},
	{name: "pidpersec", run: `for i in 1 2 3 4 5 6; do /bin/true; done; sleep 2.2`, want: []string{`^\d\d:\d\d:\d\d \d+$`}},
	{name: "setuids", needs: "setpriv", run: `cp $(command -v setpriv) $D/$W; $D/$W --reuid 4321 /bin/true`,
		want: []string{` %W +setresuid +0 +4321 +0$`},
		same: ` (%W) +(?:0 +)?(setresuid) .*\b(4321)\b`},
	{name: "naptime", run: `cp /bin/sleep $D/$W; $D/$W 0.123`,
		want: []string{` %W +\d+ +sh +0\.123$`},
		same: ` (%W) .*0\.(12)`},
	{name: "shmsnoop", needs: "ipcmk ipcrm", run: `id=$(ipcmk -M 12345 | tr -dc 0-9); ipcrm -m $id`,
		want: []string{` ipcmk +shmget  key -?\d+, size 12345, flags \d+$`, ` ipcrm +shmctl  id \d+, command 0$`}},
}

// named waits until the last background process is named $W: at first it is a copy of the shell.
const named = `until [ "$(cat /proc/$!/comm)" = $W ]; do sleep 0.01; done; `

// connect opens a connection from a process named $W to a listening port.
const connect = `cp $(command -v bash) $D/$W; 
python3 -c 'import os,socket,sys
s = socket.create_server(("127.0.0.1", 0))
with open(sys.argv[1] + ".new", "w") as f: f.write(str(s.getsockname()[1]))
os.rename(sys.argv[1] + ".new", sys.argv[1])
c, _ = s.accept(); c.recv(10); c.close()' $D/port &
until [ -e $D/port ]; do sleep 0.05; done; port=$(cat $D/port)
$D/$W -c "exec 3<>/dev/tcp/127.0.0.1/$port; echo hi >&3; cat <&3"; wait`

// tls sends a byte from a process named $W to a server on this machine.
const tls = `cd $D; cp $(command -v openssl) $W; port=$((20000 + $$ % 20000))
openssl req -x509 -newkey rsa:2048 -nodes -keyout k.pem -out c.pem -subj /CN=x -days 1 2>/dev/null
openssl s_server -accept $port -key k.pem -cert c.pem -www -naccept 1 >/dev/null 2>&1 & server=$!
for i in $(seq 300); do
	sleep 0.1; kill -0 $server || break; echo | ./$W s_client -connect 127.0.0.1:$port >/dev/null 2>&1 && break
done; kill $server 2>/dev/null; wait`

// kprobes are the tools that this package only compiles. They are run by cases of tests/kernels.
var kprobes = []string{
	"tcpaccept", "tcpsynbl", "vfscount", "vfsstat", "fileslower", "ext4dist", "xfsdist", "mdflush", "oomkill",
	"swapin", "dcsnoop", "capable", "undump",
}

var bin string

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "btc-tools")
	if err == nil {
		bin = dir
		cmd := exec.Command(
			"go", "build", "-trimpath", "-gcflags", "github.com/ianlancetaylor/demangle=-l", "-ldflags", "-s -w",
			"-o", dir, "btc/cmd/btc", "btc/cmd/btrun",
		)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		cmd.Stderr = os.Stderr
		err = cmd.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	os.RemoveAll(dir)
	os.Exit(status)
}

// TestCompile compiles each tool. The only warnings allowed are those about functions and system calls
// of other kernels or architectures.
func TestCompile(t *testing.T) {
	names := slices.Clone(kprobes)
	for _, c := range tools {
		names = append(names, c.name)
	}
	for _, name := range names {
		out, err := exec.Command(bin+"/btc", "compile", filepath.Join(root, "examples", name+".bt"), "-o", filepath.Join(t.TempDir(), "x.o")).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, ": warning[") && !strings.Contains(line, "not traceable") {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
}

// TestTools runs the tools.
func TestTools(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	for i, c := range tools {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, fmt.Sprintf("wk%d%c", os.Getpid(), 'a'+i%26))
		})
	}
}

func (c tool) test(t *testing.T, name string) {
	for _, p := range strings.Fields(c.needs) {
		if _, err := exec.LookPath(p); err != nil {
			t.Skip("skipped: ", p, " is not installed")
		}
	}
	dir, err := os.MkdirTemp("/var/tmp", "btc-tools") // on a disk, which /tmp may not be
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	object := filepath.Join(t.TempDir(), c.name+".o")
	if out, err := exec.Command(bin+"/btc", "compile", filepath.Join(root, "examples", c.name+".bt"), "-o", object).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ours := start(t, append([]string{bin + "/btrun", object}, strings.Fields(c.args)...)...)
	var theirs *session
	if oracle, err := filepath.Abs(root + "/build/oracle/root/usr/sbin/" + c.name + ".bt"); c.same != "" && err == nil {
		if _, err := os.Stat(oracle); err == nil {
			theirs = start(t, reference(t, oracle)...)
		}
	}
	if !ours.attached(t) {
		t.Skip("skipped: this kernel: ", strings.TrimSpace(ours.output()))
	}
	if theirs != nil && !theirs.attached(t) {
		t.Fatalf("bpftrace failed to attach:\n%s", theirs.output())
	}
	cmd := exec.Command("sh", "-c", c.run)
	cmd.Env = append(os.Environ(), "D="+dir, "W="+name, "LC_ALL=C")
	if out, err := cmd.CombinedOutput(); err != nil && cmd.ProcessState == nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out := ours.end(t)
	for _, p := range c.want {
		re := regexp.MustCompile("(?m)" + strings.ReplaceAll(p, "%W", name))
		if !re.MatchString(out) {
			t.Errorf("no line matches %s:\n%.4000s", re, out)
		}
	}
	if theirs == nil {
		return
	}
	re := regexp.MustCompile("(?m)" + strings.ReplaceAll(c.same, "%W", name))
	have, want := facts(re, out), facts(re, theirs.end(t))
	if len(have) == 0 || !slices.Equal(have, want) {
		t.Errorf("matches of %s\nin our output    %q\nin bpftrace's   %q", re, have, want)
	}
}

// userFile matches a program or a library that a script attaches probes to.
var userFile = regexp.MustCompile(`probe:(libc|libssl|/bin/bash):`)

// reference returns the command that runs bpftrace's tool. bpftrace has its own root directory, so the
// files that its user-space probes name are bind-mounted.
func reference(t *testing.T, script string) []string {
	oracle := root + "/tests/setup/bpftrace-oracle"
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	if !userFile.Match(text) {
		return []string{oracle, "/usr/sbin/" + filepath.Base(script)}
	}
	dir, err := os.MkdirTemp("/tmp", "btc-tools") // /tmp is the same in both
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	host := dir + "/host"
	if err := os.Mkdir(host, 0o755); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, filepath.Base(script))
	text = userFile.ReplaceAllFunc(text, func(m []byte) []byte {
		file := string(userFile.FindSubmatch(m)[1])
		return []byte("probe:" + host + library(t, file) + ":")
	})
	if err := os.WriteFile(copied, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return []string{"unshare", "--mount", "--propagation", "private", "sh", "-c",
		`mount --bind / "$0" && exec "$@"`, host, oracle, copied}
}

// library returns the path of a library of this machine.
func library(t *testing.T, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	out, err := exec.Command("/sbin/ldconfig", "-p").Output()
	if err != nil {
		t.Skip("skipped: no list of libraries: ", err)
	}
	m := regexp.MustCompile(`(?m)^\s*` + name + `\.so\.\S+ .* => (/\S+)$`).FindSubmatch(out)
	if m == nil {
		t.Skip("skipped: no library ", name)
	}
	return string(m[1])
}

// facts returns the submatches of all matches, sorted.
func facts(re *regexp.Regexp, out string) []string {
	var all []string
	for _, m := range re.FindAllStringSubmatch(out, -1) {
		all = append(all, strings.Join(m[1:], " "))
	}
	slices.Sort(all)
	return all
}

// session is a running tracer.
type session struct {
	cmd  *exec.Cmd
	path string // file with its output and errors
}

func start(t *testing.T, args ...string) *session {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = f, f
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	return &session{cmd, f.Name()}
}

func (s *session) output() string {
	b, _ := os.ReadFile(s.path)
	return string(b)
}

// attached waits until the tracer has attached. It returns false if the kernel lacks a feature that the
// tool needs.
func (s *session) attached(t *testing.T) bool {
	t.Helper()
	for range 2400 {
		if strings.Contains(s.output(), "Attached ") {
			return true
		}
		if strings.Contains(s.output(), "Failed to resolve kernel symbol") {
			return false
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("not attached after 120 s:\n%s", s.output())
	return false
}

// end interrupts the tracer and returns its output.
func (s *session) end(t *testing.T) string {
	t.Helper()
	time.Sleep(300 * time.Millisecond) // for lines that are still in the buffers
	s.cmd.Process.Signal(os.Interrupt)
	done := make(chan error, 1)
	go func() { done <- s.cmd.Wait() }()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("%v\n%s", err, s.output())
		}
	case <-time.After(2 * time.Minute):
		t.Fatalf("tracer does not exit:\n%s", s.output())
	}
	return s.output()
}
