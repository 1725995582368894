// SPDX-License-Identifier: Apache-2.0

package hardship

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"btc/btrace"
)

// setSeccomp applies a filter to the calling thread.
func setSeccomp(p *unix.SockFprog) error {
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(p)), 0, 0)
}

// memoryGroup creates a cgroup with a memory limit and returns its directory.
func memoryGroup(t *testing.T, limit string) string {
	t.Helper()
	for _, c := range []struct{ root, file string }{
		{"/sys/fs/cgroup", "memory.max"}, {"/sys/fs/cgroup/unified", "memory.max"}, {"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
	} {
		if _, err := os.Stat(c.root + "/cgroup.procs"); err != nil {
			continue // a tmpfs on which the hierarchies of cgroup v1 are mounted
		}
		if c.file == "memory.max" {
			os.WriteFile(c.root+"/cgroup.subtree_control", []byte("+memory"), 0)
		}
		dir := fmt.Sprintf("%s/btc-hardship-%d", c.root, os.Getpid())
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		if _, err := os.Stat(dir + "/" + c.file); err != nil || os.WriteFile(dir+"/"+c.file, []byte(limit), 0) != nil {
			os.Remove(dir)
			continue
		}
		if _, err := os.Stat(dir + "/memory.swap.max"); err == nil {
			os.WriteFile(dir+"/memory.swap.max", []byte("0"), 0)
		}
		t.Cleanup(func() {
			for end := time.Now().Add(time.Minute); os.Remove(dir) != nil && time.Now().Before(end); {
				time.Sleep(10 * time.Millisecond)
			}
		})
		return dir
	}
	t.Skip("skipped: no cgroup with a memory limit can be created")
	return ""
}

// TestMemoryLimit checks runs in a cgroup with a memory limit. The maps of a run are charged to it, too.
// With enough memory, counts are exact. With less, a run ends with a message or is killed by the kernel,
// but does not hang and leaves nothing.
func TestMemoryLimit(t *testing.T) {
	needTracepoints(t)
	shell := filepath.Join(t.TempDir(), "btcmemory")
	copyShell(t, shell)
	small := compile(t, `tracepoint:sched:sched_process_exit /comm == "btcmemory"/ { @n = count(); @[ustack] = count(); }`)
	large := compile(t, `config = { max_map_keys = 4000000; } begin { @m[1] = 1; } tracepoint:sched:sched_process_exit /comm == "btcmemory"/ { @n = count(); @m[pid] = 1; } end { clear(@m); }`)
	for _, c := range []struct {
		name, limit, object string
		ok                  bool // the limit suffices
	}{{"enough", "268435456", small, true}, {"map", "67108864", large, false}, {"tight", "16777216", small, false}, {"less than the program", "4194304", small, false}} {
		t.Run(c.name, func(t *testing.T) {
			dir := memoryGroup(t, c.limit)
			r := start(t, nil, "sh", "-c", `echo $$ >`+dir+`/cgroup.procs && exec "$@"`, "sh", program(t, "btrun"), c.object)
			ended := make(chan int, 1)
			go func() { ended <- r.wait() }()
			var status int
			for waiting := true; waiting; {
				select {
				case status = <-ended:
					waiting = false
				case <-time.After(10 * time.Millisecond):
					if strings.Contains(r.err.String(), "Attached ") {
						for range 100 {
							if err := exec.Command(shell, "-c", ":").Run(); err != nil {
								t.Fatal(err)
							}
						}
						r.cmd.Process.Signal(os.Interrupt)
						status = <-ended
						waiting = false
					}
				}
			}
			t.Logf("status %d, stdout %.300s, stderr %.600s", status, &r.out, &r.err)
			switch n := number(r.out.String(), "@n: "); {
			case status == 0 && n != 100:
				t.Errorf("count = %d, want 100: %s %s", n, &r.out, &r.err)
			case status > 0 && strings.Count(r.err.String(), "btrun: ")+strings.Count(r.err.String(), ": error: ") != 1:
				t.Errorf("exit status %d, want one error: %s", status, &r.err)
			case status != 0 && c.ok:
				t.Errorf("exit status %d with enough memory: %s", status, &r.err)
			case c.name == "map" && !strings.Contains(r.err.String(), "memory"):
				t.Errorf("message without the reason: %s", &r.err)
			}
			left := []byte("?")
			for end := time.Now().Add(time.Minute); len(left) > 0 && time.Now().Before(end); time.Sleep(1500 * time.Millisecond) {
				left, _ = os.ReadFile(dir + "/cgroup.procs") // cgroup v1 caches it for a second
			}
			if len(left) > 0 {
				t.Errorf("processes left: %s", left)
			}
		})
	}
}

// copyShell copies the shell, so that its processes have a unique name.
func copyShell(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Skip("skipped: ", err)
	}
	if err := os.WriteFile(path, data, 0o755); err != nil {
		t.Fatal(err)
	}
}

// state returns the state of a process, such as "T (stopped)".
func state(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(b), "State:\t")
	line, _, _ := strings.Cut(rest, "\n")
	return line
}

// spin is a program that calls getpid and sleeps in turn.
func spin(t *testing.T, path, function string) {
	t.Helper()
	code := append([]byte{0x31, 0xff}, system(39, 0)...)                                         // getpid
	code = append(code, 0x6a, 0x00, 0x68, 0x40, 0x42, 0x0f, 0x00)                                // push 0 ; push 1000000
	code = append(code, 0x58, 0x5a, 0x6a, 0x00, 0x54, 0x5f)                                      // pop rax ; pop rdx ; push 0 ; push rsp ; pop rdi
	code = append(code, 0x50, 0x6a, 0x00, 0x54, 0x5f, 0x31, 0xf6, 0xb8, 35, 0, 0, 0, 0x0f, 0x05) // push rax (ns) ; push 0 (s) ; rdi = rsp ; rsi = 0 ; nanosleep
	code = append(code, 0x48, 0x83, 0xc4, 0x18)                                                  // add rsp, 24
	code = append(code, 0xeb, byte(-(len(code) + 2)))                                            // jmp to the start
	tinyProgram(t, path, function, code)
}

// TestSuspendedProcess checks that the symbols of a stopped or frozen process are read, that the run
// does not wait for it, and does not resume it.
func TestSuspendedProcess(t *testing.T) {
	needTracepoints(t)
	target := filepath.Join(t.TempDir(), "btcstopped")
	spin(t, target, "alpha_fn")
	object := compile(t, `tracepoint:syscalls:sys_enter_getpid /comm == "btcstopped"/ { @[ustack] = count(); @n = count(); }`)
	for _, how := range []string{"stopped", "traced", "exited, not waited for"} {
		t.Run(how, func(t *testing.T) {
			runtime.LockOSThread() // ptrace is of a thread
			defer runtime.UnlockOSThread()
			r := start(t, nil, program(t, "btrun"), object, "--every", "100ms")
			r.attached()
			cmd := exec.Command(target)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			pid := cmd.Process.Pid
			defer func() { cmd.Process.Kill(); cmd.Wait() }()
			r.until(func() bool { return number(r.out.String(), "@n: ") > 0 })
			switch how {
			case "stopped":
				cmd.Process.Signal(syscall.SIGSTOP)
				r.until(func() bool { return strings.HasPrefix(state(pid), "T") })
			case "traced":
				if err := unix.PtraceSeize(pid); err != nil {
					t.Skip("skipped: ", err)
				}
				if err := unix.PtraceInterrupt(pid); err != nil {
					t.Fatal(err)
				}
				r.until(func() bool { return strings.HasPrefix(state(pid), "t") })
				defer unix.PtraceDetach(pid)
			default:
				cmd.Process.Kill()
				r.until(func() bool { return strings.HasPrefix(state(pid), "Z") })
			}
			was := state(pid)
			r.cmd.Process.Signal(os.Interrupt)
			if status := r.wait(); status != 0 {
				t.Errorf("exit status %d: %s", status, &r.err)
			}
			if now := state(pid); now != was {
				t.Errorf("state was %s, is %s", was, now)
			}
			out := r.out.String()
			if last := out[max(0, strings.LastIndex(out, "@[")):]; !strings.Contains(last, "alpha_fn") || number(out, "@n: ") < 1 {
				t.Errorf("no symbol in the last maps: %s", &r.out)
			}
		})
	}
}

// startAs starts a program with a given process ID (clone3, Linux 5.5).
func startAs(path string, pid int) error {
	name, err := unix.BytePtrFromString(path)
	if err != nil {
		return err
	}
	argv, env := []*byte{name, nil}, []*byte{nil}
	tid := int32(pid)
	args := struct{ flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64 }{
		exitSignal: uint64(unix.SIGCHLD), setTID: uint64(uintptr(unsafe.Pointer(&tid))), setTIDSize: 1}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	got, _, errno := syscall.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
	if errno != 0 {
		return errno
	}
	if got == 0 { // the child has one thread and may only call the kernel
		syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&env[0])))
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 1, 0, 0)
	}
	runtime.KeepAlive(&tid)
	runtime.KeepAlive(argv)
	runtime.KeepAlive(env)
	return nil
}

// TestPIDReuse checks that stacks of a process that has exited are not named by another program that
// has its process ID, whose functions are at the same addresses.
func TestPIDReuse(t *testing.T) {
	needTracepoints(t)
	dir := t.TempDir()
	first, second := filepath.Join(dir, "btcfirst"), filepath.Join(dir, "btcsecond")
	// Both have a function of the same size at the same address. The first calls getpid and exits, the second pauses.
	tinyProgram(t, first, "alpha_fn", append(system(39, 0), system(60, 0)...))
	tinyProgram(t, second, "beta_fn", append(system(34, 0), system(60, 0)...))
	for _, c := range []struct{ name, script string }{
		{"map", `tracepoint:syscalls:sys_enter_getpid /comm == "btcfirst"/ { @[ustack] = count(); @n = count(); }`},
		{"map, at the exit", `tracepoint:sched:sched_process_exit /comm == "btcfirst"/ { @[ustack] = count(); @n = count(); }`},
		{"one frame", `tracepoint:syscalls:sys_enter_getpid /comm == "btcfirst"/ { @[ustack(1)] = count(); @n = count(); }`},
		{"printed", `tracepoint:syscalls:sys_enter_getpid /comm == "btcfirst"/ { printf("%s\n", ustack); @n = count(); }`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := start(t, nil, program(t, "btrun"), compile(t, c.script))
			r.attached()
			r.cmd.Process.Signal(syscall.SIGSTOP) // symbols are not read before the second program runs
			cmd := exec.Command(first)
			if err := cmd.Run(); err != nil {
				t.Fatal(err)
			}
			pid := cmd.Process.Pid
			if err := startAs(second, pid); err != nil {
				r.cmd.Process.Signal(syscall.SIGCONT)
				t.Skipf("skipped: no process with a given ID: %v", err)
			}
			defer func() {
				syscall.Kill(pid, syscall.SIGKILL)
				unix.Wait4(pid, nil, 0, nil)
			}()
			r.until(func() bool {
				b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
				return string(b) == "btcsecond\n"
			})
			r.cmd.Process.Signal(syscall.SIGCONT)
			time.Sleep(200 * time.Millisecond)
			r.cmd.Process.Signal(os.Interrupt)
			if status := r.wait(); status != 0 {
				t.Errorf("exit status %d: %s", status, &r.err)
			}
			if out := r.out.String(); strings.Contains(out, "beta_fn") || strings.Contains(out, "btcsecond") || number(out, "@n: ") != 1 {
				t.Errorf("the wrong program was read, or the count is not 1:\n%s%s", out, &r.err)
			}
		})
	}
}

// dropping is the environment variable with the object of which dropMidway loads the programs.
const dropping = "HARDSHIP_DROP"

// dropMidway loads an object, drops all capabilities, and attaches.
func dropMidway(object string) string {
	o, err := btrace.Open(object)
	if err != nil {
		return "cannot: " + err.Error()
	}
	session, err := btrace.Load(o, btrace.Options{})
	if err != nil {
		return "cannot: " + err.Error()
	}
	head := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	none := &[2]unix.CapUserData{}
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(head)), uintptr(unsafe.Pointer(none)), 0); errno != 0 {
		return "cannot: " + errno.Error()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err = session.Attach(ctx)
	if closing := session.Close(); closing != nil {
		return "Close: " + closing.Error()
	}
	if err == nil {
		return "attached"
	}
	return "error: " + err.Error()
}

// TestCapabilitiesLost checks a process that loses its capabilities between loading and attaching: the
// error names what is missing, or the probes are attached without it.
func TestCapabilitiesLost(t *testing.T) {
	needTracepoints(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range []string{
		`tracepoint:sched:sched_process_exit { @ = count(); }`, `profile:hz:9 { @ = count(); }`, `software:faults:100 { @ = count(); }`,
		`uprobe:/bin/sh:* { @ = count(); }`, `rawtracepoint:sched_switch { @ = count(); }`, `iter:task { @ = count(); }`, `begin { @ = count(); }`, `interval:ms:1 { @ = count(); }`,
	} {
		object := filepath.Join(t.TempDir(), "x.o")
		if out, err := exec.Command(program(t, "btc"), "compile", "-e", script, "-o", object).CombinedOutput(); err != nil {
			t.Logf("skipped: %s: %s", script, out)
			continue
		}
		r := start(t, []string{dropping + "=" + object}, self)
		status := r.wait()
		out := r.out.String()
		t.Logf("%s: %s", script, out)
		if strings.HasPrefix(out, "cannot: ") {
			t.Logf("skipped: %s: %s", script, out)
			continue
		}
		if status != 0 || out != "attached\n" && (!strings.HasPrefix(out, "error: ") || !strings.Contains(out, "CAP_") && !strings.Contains(out, "permi")) {
			t.Errorf("%s: status %d, %s%s", script, status, out, &r.err)
		}
	}
}

// TestStatisticsRefused checks --budget where the kernel's statistics cannot be enabled.
func TestStatisticsRefused(t *testing.T) {
	needTracepoints(t)
	if b, _ := os.ReadFile("/proc/sys/kernel/bpf_stats_enabled"); string(b) == "1\n" {
		t.Skip("skipped: the statistics are on")
	}
	object := compile(t, `tracepoint:sched:sched_process_exit { @n = count(); } interval:ms:1 { exit(); }`)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const enableStats = 32 // BPF_ENABLE_STATS
	for _, errno := range []syscall.Errno{unix.EPERM, unix.EINVAL, unix.ENOSYS} {
		env := []string{fmt.Sprintf("%s=%d %d %d", refuse, unix.SYS_BPF, int(errno), enableStats)}
		r := start(t, env, self, program(t, "btrun"), object, "--budget", "5%")
		if status := r.wait(); status == 0 || !strings.Contains(r.err.String(), "the budget of 5% cannot be enforced: the kernel's statistics of BPF programs are off") {
			t.Errorf("%v: status %d, %s", errno, status, &r.err)
		}
		r.oneMessage()
		r = start(t, env, self, program(t, "btrun"), object)
		if status := r.wait(); status != 0 || number(r.out.String(), "@n: ") < 0 && r.out.String() == "" {
			t.Errorf("%v, no budget: status %d, %s%s", errno, status, &r.out, &r.err)
		}
	}
}

// TestSeccomp checks runs in a container whose seccomp filter refuses a system call: they end with one
// message that says what is refused, or do without it and count exactly.
func TestSeccomp(t *testing.T) {
	needTracepoints(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(t.TempDir(), "btcseccomp")
	tinyProgram(t, target, "alpha_fn", append(append(system(39, 0), system(39, 0)...), system(60, 0)...))
	object := compile(t, `tracepoint:syscalls:sys_enter_getpid /comm == "btcseccomp"/ { @[ustack] = count(); @n = count(); printf("%s\n", ustack); }`)
	for _, c := range []struct {
		name  string
		nr    int
		first int // first argument, -1 for any
		fatal bool
	}{
		{"bpf", unix.SYS_BPF, -1, true}, {"bpf map create", unix.SYS_BPF, 0, true}, {"bpf prog load", unix.SYS_BPF, 5, true},
		{"bpf map update", unix.SYS_BPF, 2, true}, {"bpf link create", unix.SYS_BPF, 28, false}, {"bpf lookup and delete", unix.SYS_BPF, 21, false},
		{"perf_event_open", unix.SYS_PERF_EVENT_OPEN, -1, true}, {"process_vm_readv", unix.SYS_PROCESS_VM_READV, -1, false},
		{"pidfd_open", unix.SYS_PIDFD_OPEN, -1, false}, {"ptrace", unix.SYS_PTRACE, -1, false}, {"memfd_create", unix.SYS_MEMFD_CREATE, -1, false},
		{"seccomp", unix.SYS_SECCOMP, -1, false}, {"socketpair", unix.SYS_SOCKETPAIR, -1, false}, {"socket", unix.SYS_SOCKET, -1, false},
		{"capset", unix.SYS_CAPSET, -1, false}, {"prctl", unix.SYS_PRCTL, -1, false}, {"setresuid", unix.SYS_SETRESUID, -1, false},
		{"statfs", unix.SYS_STATFS, -1, false}, {"fstatfs", unix.SYS_FSTATFS, -1, false}, {"prlimit", unix.SYS_PRLIMIT64, -1, false},
		{"close_range", unix.SYS_CLOSE_RANGE, -1, false}, {"openat2", unix.SYS_OPENAT2, -1, false}, {"mlock", unix.SYS_MLOCK, -1, false},
		{"timerfd", unix.SYS_TIMERFD_CREATE, -1, false}, {"signalfd", unix.SYS_SIGNALFD4, -1, false}, {"waitid", unix.SYS_WAITID, -1, false},
	} {
		for _, errno := range []syscall.Errno{unix.EPERM, unix.ENOSYS} {
			if errno == unix.ENOSYS && !c.fatal && c.nr != unix.SYS_BPF && c.nr != unix.SYS_PROCESS_VM_READV {
				continue // takes half a second
			}
			t.Run(fmt.Sprintf("%s %s", c.name, unix.ErrnoName(errno)), func(t *testing.T) {
				text := fmt.Sprintf("%s=%d %d", refuse, c.nr, int(errno))
				if c.first >= 0 {
					text += fmt.Sprintf(" %d", c.first)
				}
				r := start(t, []string{text}, self, program(t, "btrun"), "--timeout", "1m", "-c", target, object)
				status := r.wait()
				t.Logf("status %d, stdout %.300s, stderr %.400s", status, &r.out, &r.err)
				switch n := number(r.out.String(), "@n: "); {
				case status == 0 && n != 2:
					t.Errorf("count = %d, want 2: %s%s", n, &r.out, &r.err)
				case status == 0 && c.fatal:
					t.Errorf("works without %s", c.name)
				case status < 0:
					t.Errorf("killed: %s", &r.err)
				case status > 0:
					r.oneMessage()
					if s := strings.ToLower(r.err.String()); !strings.Contains(s, "operation not permitted") && !strings.Contains(s, "not implemented") && !strings.Contains(s, "refuse") && !strings.Contains(s, "cap_") && !strings.Contains(s, "has no bpf") && !strings.Contains(s, "not support") {
						t.Errorf("message without the reason: %s", &r.err)
					} else if strings.Contains(s, "memlock") || (c.nr == unix.SYS_BPF && c.first != 2 || c.nr == unix.SYS_PERF_EVENT_OPEN) && c.fatal && !strings.Contains(s, "seccomp") {
						t.Errorf("message that does not name the filter: %s", &r.err)
					}
				}
			})
		}
	}
}
