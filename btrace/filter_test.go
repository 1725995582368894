// SPDX-License-Identifier: Apache-2.0

package btrace_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"btc/btrace"
)

// shell starts a shell script; it is killed with all its descendants when the test ends.
func shell(t *testing.T, script string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/bin/sh", append([]string{"-c", script, "sh"}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Skip("skipped: ", err)
	}
	t.Cleanup(func() {
		unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		cmd.Wait()
	})
	return cmd
}

// writers write to the file given as the first argument once the second one exists, until the third
// one does.
const writers = `while [ ! -e "$2" ]; do sleep 0.02; done; while [ ! -e "$3" ]; do echo 1 >> "$1"; done`

func lines(t *testing.T, path string) int {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
}

// untilLines waits until each of the files has so many lines.
func untilLines(t *testing.T, n int, paths ...string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		short := slices.IndexFunc(paths, func(path string) bool { return lines(t, path) < n })
		if short < 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not get %d lines", paths[short], n)
		}
	}
}

// countOf returns the value of the script's only map.
func countOf(t *testing.T, s *btrace.Session) int {
	t.Helper()
	x, err := s.Map("").Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	v, ok := x.Get()
	if !ok {
		return 0
	}
	n, ok := v.(btrace.Count)
	if !ok {
		t.Fatalf("value of type %T, want Count", v)
	}
	return int(n)
}

// inOwnMounts reruns the test in its own mount namespace, where it returns the mount point of cgroup
// v2. In the original process it returns "".
func inOwnMounts(t *testing.T) string {
	t.Helper()
	needRoot(t)
	const variable = "BTC_TEST_CGROUPS"
	if dir := os.Getenv(variable); dir != "" {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("cgroup2", dir, "cgroup2", 0, ""); err != nil {
			t.Skip("skipped: cannot mount cgroup v2: ", err)
		}
		return dir
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), variable+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, unix.EPERM):
		t.Skip("skipped: cannot create a mount namespace")
	case strings.Contains(string(out), "skipped: "):
		t.Skip("skipped: ", string(out))
	case err != nil:
		t.Fatalf("%v\n%s", err, out)
	}
	return ""
}

func newCgroup(t *testing.T, path string) string {
	t.Helper()
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Skip("skipped: ", err)
	}
	t.Cleanup(func() {
		// Until its processes have been reaped.
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if err := unix.Rmdir(path); err == nil || errors.Is(err, unix.ENOENT) {
				return
			}
		}
		t.Errorf("cannot remove %s", path)
	})
	return path
}

func moveTo(t *testing.T, group string, cmd *exec.Cmd) {
	t.Helper()
	if err := os.WriteFile(group+"/cgroup.procs", []byte(strconv.Itoa(cmd.Process.Pid)), 0); err != nil {
		t.Fatal(err)
	}
}

// TestCgroups checks, under load, that everything that runs in a cgroup and below it is counted, and
// nothing else.
func TestCgroups(t *testing.T) {
	mount := inOwnMounts(t)
	if mount == "" {
		return
	}
	name := fmt.Sprintf("btc-test-%d", os.Getpid())
	in := newCgroup(t, filepath.Join(mount, name))
	below := newCgroup(t, in+"/below")
	sibling := newCgroup(t, in+"-2")
	st, err := os.Stat(in)
	if err != nil {
		t.Fatal(err)
	}
	id := strconv.FormatUint(st.Sys().(*syscall.Stat_t).Ino, 10)
	for _, tc := range []struct {
		name    string
		cgroups []string
		files   []string // cgroups whose writers are counted
	}{
		{"path", []string{in}, []string{"in", "below"}},
		{"path below the mount point", []string{"/" + name}, []string{"in", "below"}},
		{"id", []string{id}, []string{"in", "below"}},
		{"inner", []string{below}, []string{"below"}},
		{"several", []string{sibling, below}, []string{"sibling", "below"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			start, stop := filepath.Join(dir, "start"), filepath.Join(dir, "stop")
			var all []*exec.Cmd
			for file, group := range map[string]string{"in": in, "below": below, "sibling": sibling, "out": ""} {
				cmd := shell(t, writers, filepath.Join(dir, file), start, stop)
				if group != "" {
					moveTo(t, group, cmd)
				}
				all = append(all, cmd)
			}
			s := loaded(t, `tracepoint:syscalls:sys_enter_write { @ = count(); }`,
				btrace.Options{Cgroups: tc.cgroups, DropEvents: true})
			attach(t, s)
			if err := os.WriteFile(start, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			untilLines(t, 50, dir+"/in", dir+"/below", dir+"/sibling", dir+"/out")
			if err := os.WriteFile(stop, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, cmd := range all {
				if err := cmd.Wait(); err != nil {
					t.Fatal(err)
				}
			}
			want := 0
			for _, file := range tc.files {
				want += lines(t, filepath.Join(dir, file))
			}
			if got := countOf(t, s); got != want || want == 0 {
				t.Errorf("counted %d writes of the cgroups, want %d", got, want)
			}
		})
	}
}

// TestCgroupRemoved checks that a session ends when its cgroup is removed.
func TestCgroupRemoved(t *testing.T) {
	mount := inOwnMounts(t)
	if mount == "" {
		return
	}
	group := newCgroup(t, filepath.Join(mount, fmt.Sprintf("btc-test-%d", os.Getpid())))
	s := loaded(t, `profile:hz:9 { @ = count(); }`, btrace.Options{Cgroups: []string{group}})
	attach(t, s)
	if err := os.Remove(group); err != nil {
		t.Fatal(err)
	}
	said := ""
	for e := range s.Events() {
		said += e.Text
	}
	if code, err := s.Wait(); code != 0 || err != nil || !strings.Contains(said, "nothing is left to trace") {
		t.Errorf("messages %q, exit code %d, error %v", said, code, err)
	}
}

// TestCgroupRefused checks that names that are not v2 cgroups are rejected with a reason.
func TestCgroupRefused(t *testing.T) {
	mount := inOwnMounts(t)
	if mount == "" {
		return
	}
	old := t.TempDir()
	if err := unix.Mount("cgroup", old, "cgroup", 0, "none,name=btc-test"); err == nil {
		defer unix.Unmount(old, 0)
	} else {
		t.Log("no cgroup v1: ", err)
		old = ""
	}
	for name, why := range map[string]string{
		"":                 "empty",
		"/nowhere":         "there is no cgroup /nowhere",
		"18446744073709":   "no cgroup with the ID",
		t.TempDir():        "not in a cgroup file system",
		"/proc/self/comm":  "is not the directory of a cgroup",
		old:                "is a cgroup of version 1 (btc-test)",
		mount + "/nowhere": "there is no cgroup",
	} {
		if name == "" && why != "empty" {
			continue
		}
		_, err := btrace.Load(parsed(t, `profile:hz:9 { @ = count(); }`), btrace.Options{Cgroups: []string{name}})
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: error = %v", name, err)
		}
	}
}

// TestNoCgroups2 checks the errors on a host that has only cgroup v1, or no cgroups.
func TestNoCgroups2(t *testing.T) {
	mount := inOwnMounts(t)
	if mount == "" {
		return
	}
	refused := func(want string) {
		t.Helper()
		for _, name := range []string{"/x", "123"} {
			_, err := btrace.Load(parsed(t, `profile:hz:9 { @ = count(); }`), btrace.Options{Cgroups: []string{name}})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error = %v, want %s", name, err, want)
			}
		}
	}
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	slices.Reverse(all)
	for _, line := range all {
		if f := strings.Fields(line); strings.HasPrefix(f[2], "cgroup") {
			if err := unix.Unmount(f[1], unix.MNT_DETACH); err != nil {
				t.Fatal(err)
			}
		}
	}
	refused("no cgroup file system is mounted here")
	if err := unix.Mount("cgroup", mount, "cgroup", 0, "none,name=btc-test"); err != nil {
		t.Skip("skipped: no cgroup v1: ", err)
	}
	refused("only cgroups of version 1 are mounted here")
}

// TestSeveralProcesses checks that the given processes are counted and no others, and that the session
// ends with the last of them.
func TestSeveralProcesses(t *testing.T) {
	for probe, script := range map[string]string{
		"tracepoint": `tracepoint:syscalls:sys_enter_write { @ = count(); }`,
		"uprobe":     `uprobe:libc:write { @ = count(); }`,
	} {
		t.Run(probe, func(t *testing.T) {
			needRoot(t)
			dir := t.TempDir()
			start := filepath.Join(dir, "start")
			limited := strings.Replace(writers, `while [ ! -e "$3" ]`, `i=0; while i=$((i+1)); [ $i -le "$3" ]`, 1)
			one := shell(t, limited, filepath.Join(dir, "in"), start, "300")
			two := shell(t, limited, filepath.Join(dir, "in"), start, "500")
			shell(t, writers, filepath.Join(dir, "out"), os.DevNull, "")
			untilLines(t, 1, dir+"/out") // load outside
			s := loaded(t, script, btrace.Options{
				PIDs: []int{one.Process.Pid, two.Process.Pid, one.Process.Pid}, DropEvents: true,
			})
			attach(t, s)
			if err := os.WriteFile(start, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(one.Wait(), two.Wait()); err != nil {
				t.Fatal(err)
			}
			if code, err := s.Wait(); code != 0 || err != nil {
				t.Fatal(code, err)
			}
			if got := countOf(t, s); got != 800 {
				t.Errorf("counted %d writes, want 800", got)
			}
		})
	}
}

// forks is a script that keeps starting processes on two levels. Each process of the lower level writes
// a line once the file of the second argument exists. Once the file of the third argument exists, no
// more processes are started.
const forks = `work() { while [ ! -e "$3" ]; do ( ( [ -e "$2" ] && echo 1 >> "$1"; : ); : ); done; }
work "$@" & work "$@" & wait`

// TestFollowForks checks that all writes of descendants are counted, whenever they were started, and
// nothing else, and that the session ends when all of them have exited.
func TestFollowForks(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	start, stop := filepath.Join(dir, "start"), filepath.Join(dir, "stop")
	for i := range 3 { // the test is about races while attaching
		in := shell(t, forks, filepath.Join(dir, "in"), start, stop)
		out := shell(t, forks, filepath.Join(dir, "out"), start, stop)
		time.Sleep(20 * time.Millisecond)
		s := loaded(t, `tracepoint:syscalls:sys_enter_write { @ = count(); }`,
			btrace.Options{PIDs: []int{in.Process.Pid}, FollowForks: true, DropEvents: true})
		attach(t, s)
		if err := os.WriteFile(start, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		untilLines(t, 20, dir+"/in", dir+"/out")
		if err := os.WriteFile(stop, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(in.Wait(), out.Wait()); err != nil {
			t.Fatal(err)
		}
		if code, err := s.Wait(); code != 0 || err != nil {
			t.Fatal(code, err)
		}
		if got, want := countOf(t, s), lines(t, filepath.Join(dir, "in")); got != want || want == 0 {
			t.Errorf("round %d: counted %d writes, want %d", i, got, want)
		}
		s.Close()
		for _, file := range []string{"in", "out", "start", "stop"} {
			os.Remove(filepath.Join(dir, file))
		}
	}
}

// TestFollowCommand checks that, with a command and FollowForks, what the command starts is counted,
// and nothing else, and that the session lasts until all descendants have exited.
func TestFollowCommand(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	// The first process exits while its child still runs.
	text := "(sleep 0.3; echo 1 >> " + dir + "/in; echo 1 >> " + dir + "/in) &\necho 1 >> " + dir + "/in\n"
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	start := filepath.Join(dir, "start")
	shell(t, writers, filepath.Join(dir, "out"), start, "")
	s := loaded(t, `tracepoint:syscalls:sys_enter_write { @ = count(); }`,
		btrace.Options{Command: "/bin/sh " + script, FollowForks: true, DropEvents: true})
	if err := os.WriteFile(start, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	attach(t, s)
	if code, err := s.Wait(); code != 0 || err != nil {
		t.Fatal(code, err)
	}
	if got := countOf(t, s); got != 3 || lines(t, dir+"/in") != 3 {
		t.Errorf("counted %d writes, want 3", got)
	}
}

// burnVariable is set in the environment to make the test binary a process whose threads use the CPU
// once a line arrives.
const burnVariable = "BTC_TEST_BURN"

func init() {
	if os.Getenv(burnVariable) == "" {
		return
	}
	fmt.Println("ready")
	os.Stdin.Read(make([]byte, 1))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			runtime.LockOSThread()
			var used unix.Rusage
			for used.Utime.Sec == 0 && used.Utime.Usec < 100_000 {
				unix.Getrusage(unix.RUSAGE_THREAD, &used)
			}
		})
	}
	child := exec.Command("/bin/sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
	child.Run()
	all.Wait()
	os.Exit(0)
}

// TestThreadsStartedLater checks that, with a process filter, threads that the process starts later are
// sampled, too, but not its children.
func TestThreadsStartedLater(t *testing.T) {
	needRoot(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), burnVariable+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skip("skipped: ", err)
	}
	defer cmd.Wait()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	s := loaded(t, `profile:hz:199 { @[pid, tid] = count(); }`,
		btrace.Options{PID: cmd.Process.Pid, DropEvents: true})
	attach(t, s)
	before := map[string]bool{}
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		before[task.Name()] = true
	}
	in.Write([]byte("\n"))
	if code, err := s.Wait(); code != 0 || err != nil {
		t.Fatal(code, err)
	}
	x, err := s.Map("").Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	later := 0
	for _, e := range x.Entries {
		if pid := fmt.Sprint(e.Key[0]); pid != strconv.Itoa(cmd.Process.Pid) {
			t.Errorf("unexpected sample of process %s", pid)
		}
		if !before[fmt.Sprint(e.Key[1])] {
			later++
		}
	}
	if later == 0 {
		t.Errorf("no sample of a thread that was started later: %v", x.Entries)
	}
}

// pidsVariable is set in the environment to make the test binary list the processes of its own PID
// namespace.
const pidsVariable = "BTC_TEST_PIDS"

func init() {
	if os.Getenv(pidsVariable) == "" {
		return
	}
	err := errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("proc", "/proc", "proc", 0, ""))
	if err != nil {
		fmt.Println("skipped: ", err)
		os.Exit(1)
	}
}

// TestFiltersInNamespace checks that filters by process use the IDs of the session's PID namespace.
func TestFiltersInNamespace(t *testing.T) {
	needRoot(t)
	cmd := exec.Command(os.Args[0], "-test.run=^(TestFollow.*|TestSeveralProcesses)$", "-test.v")
	cmd.Env = append(os.Environ(), pidsVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, unix.EPERM):
		t.Skip("skipped: cannot create a PID namespace")
	case strings.Contains(string(out), "skipped: "):
		t.Skip("skipped: ", string(out))
	case err != nil || !strings.Contains(string(out), "--- PASS: TestFollowForks"):
		t.Fatalf("%v\n%s", err, out)
	}
}
