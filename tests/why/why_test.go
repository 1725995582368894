// SPDX-License-Identifier: Apache-2.0

// Package why runs scripts with mistakes with --why, and checks the sentence that says what is wrong.
package why

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"btc/tests/stripped"
)

// dir has the programs: btc and btrun, walker and its stripped copy, user with library (a/libwork.so and b/libwork.so), and
// small, if the C compiler makes 32-bit programs.
var dir string

func TestMain(m *testing.M) {
	status := 0
	if os.Getuid() == 0 {
		var err error
		if dir, err = os.MkdirTemp("", "why"); err == nil {
			err = build()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = 1
		}
	}
	if status == 0 {
		status = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(status)
}

func build() error {
	if err := stripped.Build(dir, "./cmd/btc", "./cmd/btrun"); err != nil {
		return err
	}
	cc, err := exec.LookPath("gcc")
	if err != nil {
		return nil // the tests skip
	}
	os.Mkdir(filepath.Join(dir, "a"), 0o755)
	os.Mkdir(filepath.Join(dir, "b"), 0o755)
	exec.Command(cc, "-m32", "-O1", "-nostdlib", "-static", "-fno-pie", "-no-pie", "-o", filepath.Join(dir, "small"), "testdata/small.c").Run()
	for _, args := range []string{
		cc + " -O2 -g -Wl,--build-id -o DIR/walker testdata/walker.c -lpthread",
		cc + " -O2 -s -o DIR/stripped testdata/walker.c -lpthread",
		cc + " -O1 -shared -fPIC -o DIR/a/libwork.so testdata/library.c",
		cc + " -O1 -shared -fPIC -o DIR/b/libwork.so testdata/library.c",
		cc + " -O1 -o DIR/user testdata/user.c -LDIR/b -lwork -Wl,-rpath,DIR/b",
	} {
		words := strings.Fields(strings.ReplaceAll(args, "DIR", dir))
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", args, err, out)
		}
	}
	return nil
}

func program(t *testing.T, name string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("skipped: not root: programs cannot be loaded")
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("skipped: no C compiler that makes %s", name)
	}
	return path
}

// start starts a program, which is killed at the end of the test.
func start(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(args[0], args[1:]...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
	})
	time.Sleep(50 * time.Millisecond)
	return c
}

// explain runs a script and returns the sentence of --why, without the position.
func explain(t *testing.T, script string, args ...string) string {
	t.Helper()
	c := exec.Command(filepath.Join(dir, "btc"), append(append([]string{"run", "--why"}, args...), "-e", script)...)
	c.Dir = dir
	out, _ := c.CombinedOutput() // the status is that of the script
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	text, ok := strings.CutPrefix(lines[len(lines)-1], "why: ")
	if !ok {
		return string(out)
	}
	if rest, ok := strings.CutPrefix(text, "stdin:"); ok {
		_, text, _ = strings.Cut(rest, ": ")
	}
	return text
}

// TestMistakes checks the sentence for each of many mistakes.
func TestMistakes(t *testing.T) {
	walker := start(t, program(t, "walker"), "600000")
	pid := walker.Process.Pid
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil || len(tasks) != 2 {
		t.Fatalf("threads of walker: %v %v", tasks, err)
	}
	other := start(t, "/bin/sleep", "600").Process.Pid
	replace := strings.NewReplacer("PID", strconv.Itoa(pid), "TID", tasks[1].Name(), "OTHER", strconv.Itoa(other))
	const second = " interval:ms:500 { exit(); }"
	for _, c := range []struct{ name, script, args, want string }{
		{"name of the thread", `uprobe:./walker:slow /comm == "walker"/ { @ = count(); }` + second, "", `predicate comm == "walker" was false # times; seen instead: "walker-worker" (#); comm is the name of the thread`},
		{"name too long", `uprobe:./walker:slow /comm == "walker-worker-1"/ { @ = count(); }` + second, "", `seen instead: "walker-worker" (#); comm is the name of the thread`},
		{"name cut", `uprobe:./walker:slow /comm == "walker-worker-of-all"/ { @ = count(); }` + second, "", `comm has at most 15 bytes; compare with "walker-worker-o"`},
		{"inlined", `uprobe:./walker:square { @ = count(); }` + second, "", "uprobe:./walker:square never fired: # of its # call sites in the debug information of ./walker are inlined (in bar, baz): probe those"},
		{"not called", `uprobe:./walker:unused { @ = count(); }` + second, "", "its only call site in the debug information of ./walker is not inlined"},
		{"kernel address", `uprobe:./walker:takes { @[str(kptr(arg0))] = count(); }` + second, "", "the script reads kernel memory, but # is an address of user memory; use uptr()"},
		{"null pointer", `uprobe:./walker:takes { @[str(uptr(arg2))] = count(); }` + second, "", "the address is #, a null pointer; test the pointer before"},
		{"stripped", `uprobe:./stripped:slow { @ = count(); }` + second, "", "./stripped is stripped: only what it exports has a name"},
		{"no such thread", `uprobe:./walker:slow /tid == 4194303/ { @ = count(); }` + second, "", "no thread of the PID namespace of btrun has the ID # now"},
		{"thread for process", `uprobe:./walker:slow /pid == TID/ { @ = count(); }` + second, "", "# is the ID of a thread of process #; compare tid, or pid with #"},
		{"process for thread", `uprobe:./walker:slow /tid == PID/ { @ = count(); }` + second, "", "# is the first thread of a process that has # threads; compare pid for all of them"},
		{"wrong process", `uprobe:./walker:slow { @ = count(); }` + second, "-p OTHER", "process # has not mapped ./walker, but process # has; trace that process, or with --follow-forks those that process # starts"},
		{"wrong process, filter", `tracepoint:syscalls:sys_enter_openat { @ = count(); }` + second, "-p OTHER", "fired # times, each time in a process that does not pass -p"},
		{"wrong command", `uprobe:./walker:slow { @ = count(); }`, "-c '/bin/sleep 0.5'", "the program of -c (/bin/sleep) has not mapped ./walker, but process # has"},
		{"child of the command", `uprobe:./walker:slow { @ = count(); }`, "-c 'sh -c \"./walker 900; true\"'", "the program of -c (/usr/bin/sh) has not mapped ./walker, but process # has; trace that process, or with --follow-forks those that the program of -c (/usr/bin/sh) starts"},
		{"missing entry", `uprobe:./walker:unused { @s[tid] = nsecs; } uretprobe:./walker:slow /@s[tid]/ { @ = hist(nsecs - @s[tid]); }` + second, "", "@s[tid] found nothing in # lookups: uprobe:./walker:unused (line #), which stores @s, never fired"},
		{"other key", `uprobe:./walker:slow { @s[pid] = nsecs; } uretprobe:./walker:slow /@s[tid]/ { @ = hist(nsecs - @s[tid]); }` + second, "", "@s[tid] found nothing in # lookups, although uprobe:./walker:slow (line #), which stores @s, ran # times; check that both use the same key"},
		{"time unit", `uprobe:./walker:slow { @s[tid] = nsecs; } uretprobe:./walker:slow /(nsecs - @s[tid]) / 1000 > 1000000/ { @ = count(); }` + second, "", "predicate (nsecs - @s[tid]) / 1000 > 1000000 was false # times; seen instead: # (#)"},
		{"map full", "config = { max_map_keys = 3 } uprobe:./walker:slow { @[nsecs] = 1; }" + second, "", "@ is full: # times an update found no room beside its # keys"},
		{"sign", `uretprobe:./walker:fails /retval == -1/ { @ = count(); }` + second, "", "retval is a number of # bytes, and #, as # bytes, is -#; cast it: (int32)retval; seen instead: # (#)"},
		{"sign of an argument", `uprobe:./walker:takes /(int32)arg1 == 7/ { @ = count(); }` + second, "", "predicate (int32)arg1 == 7 was false # times; seen instead: -# (#)"},
		{"end of a line", `uprobe:./walker:takes /str(arg0) == "hello"/ { @ = count(); }` + second, "", `predicate str(arg0) == "hello" was false # times; seen instead: "hello\n" (#)`},
		{"string cut", `uprobe:./walker:takes /str(arg0, 4) == "hello"/ { @ = count(); }` + second, "", "the string has at most # bytes, and the literal has #; make the string longer"},
		{"exit status", `tracepoint:sched:sched_process_exit /comm == "walker" && curtask.exit_code == 3/ { @ = count(); }`, "-c './walker 300'", "curtask.exit_code has the exit status in bits 8 to 15, and 768 is that status; compare (curtask.exit_code >> 8)"},
		{"value of a field", `tracepoint:syscalls:sys_enter_openat /pid == PID && args.flags == 0/ { @ = count(); }` + second, "", "predicate args.flags == 0 was false # times; seen instead: 524288 (#)"},
		{"other system call", `tracepoint:syscalls:sys_enter_getrlimit { @ = count(); }` + second, "", "glibc makes the system call prlimit64 where programs call getrlimit(); trace tracepoint:syscalls:sys_enter_prlimit64 as well"},
		{"timer", `uprobe:./walker:takes /arg1 == 7/ { @ = count(); } interval:ms:100 { print(@); clear(@); }` + second, "", "predicate arg1 == 7 was false # times; seen instead: 4294967295 (#)"},
		{"long interval", `interval:s:60 { printf("x"); }`, "-c '/bin/sleep 0.3'", "interval:s:60 never fired: the run took #"},
		{"return", `uprobe:./walker:slow { if (comm != "nginx") { return; } @ = count(); }` + second, "", "returned early each of # times, by the tests in line #; check them"},
		{"works", `uprobe:./walker:slow { @ = count(); }` + second, "", "no cause found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := explain(t, replace.Replace(c.script), words(replace.Replace(c.args))...)
			if !matches(got, c.want) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// words splits at spaces outside quotes.
func words(text string) (all []string) {
	for i, part := range strings.Split(text, "'") {
		if i%2 == 1 {
			all = append(all, part)
		} else {
			all = append(all, strings.Fields(part)...)
		}
	}
	return all
}

// matches reports whether a text contains another one in which # stands for any number.
func matches(text, want string) bool {
	return regexp.MustCompile(strings.ReplaceAll(regexp.QuoteMeta(want), "#", `-?[0-9][0-9a-fx,.]*`)).MatchString(text)
}

// Test32Bit traces a 32-bit program.
func Test32Bit(t *testing.T) {
	program(t, "small")
	for script, want := range map[string]string{
		"uprobe:./small:target /arg0 == 3/ { @ = count(); }":                         "./small is a 32-bit program, whose arguments are not in the registers that arg0 reads",
		`tracepoint:syscalls:sys_enter_nanosleep /comm == "small"/ { @ = count(); }`: "process # of this name is a 32-bit program, for whose system calls these tracepoints do not fire",
		"tracepoint:syscalls:sys_enter_ustat { @ = count(); }":                       "/small is a 32-bit program, for whose system calls these tracepoints do not fire; use tracepoint:raw_syscalls:sys_enter",
	} {
		if got := explain(t, script, "-c", filepath.Join(dir, "small")); !matches(got, want) {
			t.Errorf("%s\n got %s\nwant %s", script, got, want)
		}
	}
}

// TestSemaphore traces a USDT probe whose semaphore the program has set to 0.
func TestSemaphore(t *testing.T) {
	start(t, program(t, "walker"), "600000", "off")
	want := "usdt:./walker:walker:hit never fired: its semaphore is off in process #, which has mapped ./walker; restart the process"
	if got := explain(t, "usdt:./walker:walker:hit { @ = count(); } interval:s:1 { exit(); }"); !matches(got, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestPIDNamespace compares pid with the ID that a process has in its own namespace.
func TestPIDNamespace(t *testing.T) {
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Skip("skipped: no unshare(1)")
	}
	if out, err := exec.Command(unshare, "-p", "-f", "--mount-proc", "true").CombinedOutput(); err != nil {
		t.Skipf("skipped: no PID namespaces: %s", out)
	}
	const id = "31999" // there; no other process should have it
	if _, err := os.Stat("/proc/" + id); err == nil {
		t.Skip("skipped: there is a process " + id)
	}
	start(t, unshare, "-p", "-f", "--mount-proc", "--kill-child", "sh", "-c", "echo 31998 > /proc/sys/kernel/ns_last_pid; "+program(t, "walker")+" 600000 & wait")
	time.Sleep(300 * time.Millisecond)
	got := explain(t, "uprobe:./walker:slow /pid == "+id+"/ { @ = count(); } interval:ms:500 { exit(); }")
	want := "predicate pid == 31999 was false # times: pid 31999 is of another PID namespace; for btrun the process is #"
	if !matches(got, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestLibrary probes a library that the program does not use, and one that was replaced while the program runs.
func TestLibrary(t *testing.T) {
	user := program(t, "user")
	script := func(file string) string { return "uprobe:" + file + ":work { @ = count(); }" }
	want := "process # has mapped " + filepath.Join(dir, "b/libwork.so") + ", and no traced process has mapped ./a/libwork.so now; probe " + filepath.Join(dir, "b/libwork.so")
	if got := explain(t, script("./a/libwork.so"), "-c", user+" 900"); !matches(got, want) {
		t.Errorf("another file, -c:\n got %s\nwant %s", got, want)
	}
	start(t, user, "600000")
	if got := explain(t, script("./a/libwork.so")+" interval:ms:500 { exit(); }"); !matches(got, want) {
		t.Errorf("another file:\n got %s\nwant %s", got, want)
	}
	data, err := os.ReadFile(filepath.Join(dir, "b/libwork.so"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "b/new"), data, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "b/new"), filepath.Join(dir, "b/libwork.so")); err != nil {
		t.Fatal(err)
	}
	want = "process # has mapped an earlier file that was at ./b/libwork.so and was replaced since; restart the process"
	if got := explain(t, script("./b/libwork.so")+" interval:ms:500 { exit(); }"); !matches(got, want) {
		t.Errorf("a replaced file:\n got %s\nwant %s", got, want)
	}
}

// run starts btrun with a script that prints nothing, and returns its error output so far.
func run(t *testing.T, script string, args ...string) (*exec.Cmd, func() string) {
	t.Helper()
	object := filepath.Join(t.TempDir(), "x.o")
	program(t, "btc")
	if out, err := exec.Command(filepath.Join(dir, "btc"), "compile", "-o", object, "-e", script).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(filepath.Join(dir, "btrun"), append(args, object)...)
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
		log.Close()
	})
	return c, func() string {
		text, _ := os.ReadFile(log.Name())
		return string(text)
	}
}

// await waits until the output has a text, a number of times.
func await(t *testing.T, output func() string, text string, n int) string {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if out := output(); strings.Count(out, text) >= n {
			return out
		}
	}
	t.Fatalf("no %q (%d) in\n%s", text, n, output())
	return ""
}

const silent = `tracepoint:syscalls:sys_enter_swapoff { @ = count(); printf("x\n"); }`

// TestSilence checks that the report comes once after a time without output, and again at the end.
func TestSilence(t *testing.T) {
	c, output := run(t, silent, "--why=1s")
	await(t, output, "Attached", 1)
	begun := time.Now()
	await(t, output, "never fired, though it is attached", 1)
	if took := time.Since(begun); took < 500*time.Millisecond {
		t.Errorf("reported after %v", took)
	}
	time.Sleep(2500 * time.Millisecond)
	if n := strings.Count(output(), "why: after"); n != 1 {
		t.Errorf("%d reports of one silence", n)
	}
	c.Process.Signal(os.Interrupt)
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	if n := strings.Count(output(), "why: after"); n != 2 {
		t.Errorf("%d reports, want one of the silence and one at the end, in\n%s", n, output())
	}
}

// TestSilenceBroken checks that output begins a new silence.
func TestSilenceBroken(t *testing.T) {
	_, output := run(t, `interval:ms:400 { printf("x\n"); } tracepoint:syscalls:sys_enter_swapoff { @ = count(); }`, "--why=1s")
	await(t, output, "x\n", 5)
	if strings.Contains(output(), "why:") {
		t.Errorf("a report although there is output:\n%s", output())
	}
}

// TestSignal checks that the report follows the maps that SIGUSR1 prints, or what the clause of the signal prints.
func TestSignal(t *testing.T) {
	for script, before := range map[string]string{
		silent + ` begin { @y = 7; }`:                                  "@y: 7",
		silent + ` self:signal:SIGUSR1 { printf("by the script\n"); }`: "by the script",
	} {
		c, output := run(t, script, "--why")
		await(t, output, "Attached", 1)
		for n := range 2 {
			c.Process.Signal(unix.SIGUSR1)
			out := await(t, output, "never fired, though it is attached", n+1)
			if i := strings.LastIndex(out, before); i < 0 || i > strings.LastIndex(out, "why: after") {
				t.Errorf("%q does not come before the report in\n%s", before, out)
			}
		}
	}
}

// TestOtherPrograms checks that objects for other programs are refused.
func TestOtherPrograms(t *testing.T) {
	program(t, "btc")
	object := filepath.Join(t.TempDir(), "x.o")
	for _, name := range []string{"gadget", "ebpf_exporter"} {
		out, err := exec.Command(filepath.Join(dir, "btc"), "compile", "--for", name, "-o", object, "-e", "tracepoint:syscalls:sys_enter_swapoff { @ = count(); }").CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		out, err = exec.Command(filepath.Join(dir, "btrun"), "--why", object).CombinedOutput()
		want := "--why is for objects that btrun runs itself, and this one was compiled with --for " + name
		if err == nil || !bytes.Contains(out, []byte(want)) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
