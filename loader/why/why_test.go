// SPDX-License-Identifier: Apache-2.0

//go:build linux

package why

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"btc/internal/manifest"
	"btc/internal/probe"
)

// tested returns a clause whose predicate was false because of a test.
func tested(t Test) *Clause {
	t.False = 812
	return &Clause{
		Probe: "kprobe:f", Line: 1, Sites: 1, Counted: true, Fired: 812, Tested: true, False: 812, Predicate: t.String(), Tests: []Test{t},
	}
}

func reading(r Read) *Clause {
	r.Text, r.N, r.Errno = "str(arg1)", 812, "EFAULT"
	return &Clause{Probe: "kprobe:f", Line: 1, Sites: 1, Counted: true, Fired: 812, Reads: []Read{r}}
}

// branched returns a clause that stores to @big in an if whose condition was never true.
func branched(prints bool) *Clause {
	b := Branch{Text: "if (args.ret > 4096)", Line: 3, Outer: -1, Counted: true, False: 812, Tests: []Test{{Left: "args.ret", Op: ">", Right: "4096", False: 812, Seen: []Value{{Text: "512", N: 800}}}}}
	if b.Effects = []string{"@big"}; prints {
		b.Effects = []string{"print"}
	}
	return &Clause{Probe: "kprobe:f", Line: 1, Sites: 1, Counted: true, Fired: 812, Branches: []Branch{b}}
}

func silent(f Fact) *Clause {
	return &Clause{Probe: "kprobe:f", Line: 1, Sites: 1, Counted: true, Host: []Fact{f}}
}

func entry(fired, untrue uint64) *Clause {
	return &Clause{Probe: "kprobe:f", Line: 1, Sites: 1, Counted: true, Fired: fired, Tested: untrue > 0, False: untrue}
}

func exit(entries ...*Clause) *Clause {
	return &Clause{
		Probe: "kretprobe:f", Line: 2, Sites: 1, Counted: true, Fired: 812, Tested: true, False: 812, Predicate: "@start[tid]",
		Tests:   []Test{{Left: "@start[tid]", False: 812}},
		Lookups: []Lookup{{Text: "@start[tid]", Map: "@start", N: 812, Missing: 812, Stores: entries}},
	}
}

var (
	nginx = Test{Left: "comm", Op: "==", Right: `"nginx"`, Builtin: "comm", Kind: "string", Size: 16, Literal: "nginx"}
	fd    = Test{Left: "args.fd", Op: "==", Right: "-1", Kind: "int", Size: 4, Number: -1, Seen: []Value{{Text: "4294967295", N: 64}}}
)

// TestCauses checks each row of the table: the clauses for which it is the first cause, and its sentence.
func TestCauses(t *testing.T) {
	commSeen, pid := nginx, Test{Left: "pid", Op: "==", Right: "4242", Builtin: "pid", Kind: "int", Size: 4, Number: 4242}
	commSeen.Seen = []Value{{Text: `"nginx: worker"`, N: 9800}}
	other, none := pid, pid
	thread, mainThread, noThread := pid, pid, pid
	thread.Process, mainThread.Process, noThread.Process = Fact{Row: ThreadID, Name: "4242", PID: 4000}, Fact{Row: MainThread, Name: "4242", Other: "3 threads"}, Fact{Row: NoThread, Name: "4242"}
	status := Test{Left: "args.task.exit_code", Op: "==", Right: "3", Kind: "int", Size: 4, Signed: true, Number: 3, Seen: []Value{{Text: "0", N: 9}, {Text: "768", Number: 768, N: 2}}}
	call := silent(Fact{Row: OtherCall, Name: "open", Other: "openat", Dir: "sys_exit"})
	other.Process, none.Process = Fact{Row: OtherPID, Name: "4242", PID: 71022}, Fact{Row: NoProcess, Name: "4242"}
	compat, in32 := nginx, tested(Test{Left: "arg0", Op: "==", Right: "3", Kind: "int", Size: 8, Number: 3})
	compat.Process, in32.File32 = Fact{Row: CompatName, PID: 123}, "/opt/x"
	half := Test{Left: "retval", Op: "==", Right: "-1", Kind: "int", Size: 8, Number: -1, Seen: []Value{{Text: "4294967295", Number: 4294967295, N: 50}}}
	first := entry(0, 0)
	file := Fact{Name: "/lib/x.so", Other: "/opt/x.so", PID: 123}
	of := func(row string) Fact {
		f := file
		f.Row = row
		return f
	}
	rows := map[string]struct {
		clauses []*Clause
		want    string
	}{
		"map-full":          {[]*Clause{{Probe: "kprobe:f", Counted: true, Fired: 9, Dropped: []Dropped{{"@x", 5000, 4096}}}}, "@x is full: 5,000 times an update found no room beside its 4,096 keys; raise max_map_keys in config, or declare let @x = hash(16384)"},
		"null-pointer":      {[]*Clause{reading(Read{Address: 8})}, "str(arg1) failed 812 times with EFAULT: the address is 0x8, a member of a null pointer, or a number that is not an address; test the pointer before, or use the number itself"},
		"user-address":      {[]*Clause{reading(Read{Address: 0x7f0012345678})}, "str(arg1) failed 812 times with EFAULT: the script reads kernel memory, but 0x7f0012345678 is an address of user memory; use uptr()"},
		"kernel-address":    {[]*Clause{reading(Read{Address: 0xffff888012345678, User: true})}, "str(arg1) failed 812 times with EFAULT: the script reads user memory, but 0xffff888012345678 is an address of the kernel; use kptr()"},
		"not-resident":      {[]*Clause{reading(Read{Address: 0x7f0012345678, User: true})}, "str(arg1) failed 812 times with EFAULT: the address 0x7f0012345678 is in user memory that is not resident or not mapped; read it at the exit of the call, when the kernel has read it"},
		"no-memory":         {[]*Clause{reading(Read{Address: 0xdead000000000100})}, "str(arg1) failed 812 times with EFAULT: no memory is mapped at 0xdead000000000100; check the type of the pointer"},
		"never-stored":      {[]*Clause{exit()}, "@start[tid] found nothing in 812 lookups: no clause stores @start"},
		"entry-never-fired": {[]*Clause{first, exit(first)}, "@start[tid] found nothing in 812 lookups: kprobe:f (line 1), which stores @start, never fired"},
		"entry-predicate":   {[]*Clause{exit(entry(5, 5))}, "@start[tid] found nothing in 812 lookups: the predicate of kprobe:f (line 1), which stores @start, was never true"},
		"other-key":         {[]*Clause{exit(entry(812, 0))}, "@start[tid] found nothing in 812 lookups, although kprobe:f (line 1), which stores @start, ran 812 times; check that both use the same key, and that the element is not deleted before"},
		"early-return":      {[]*Clause{{Probe: "kprobe:f", Counted: true, Fired: 812, Early: []Early{{3, 800}, {5, 12}}}}, "kprobe:f returned early each of 812 times, by the tests in line 3, 5; check them"},
		"branch-false":      {[]*Clause{branched(false)}, "nothing was stored in @big: if (args.ret > 4096) in line 3 was false 812 times; seen instead: 512 (800)"},
		"not-attached":      {[]*Clause{{Probe: "kprobe:nf:f", Error: "module nf is not loaded"}}, "kprobe:nf:f is not attached: module nf is not loaded"},
		KprobesOff:          {[]*Clause{silent(of(KprobesOff))}, "kprobe:f cannot fire: kprobes are disabled on this host; write 1 to /lib/x.so"},
		FtraceOff:           {[]*Clause{silent(of(FtraceOff))}, "kprobe:f cannot fire: function tracing is disabled on this host; run sysctl kernel.ftrace_enabled=1"},
		Replaced:            {[]*Clause{silent(of(Replaced))}, "kprobe:f never fired: process 123 has mapped an earlier file that was at /lib/x.so and was replaced since; restart the process"},
		OtherFile:           {[]*Clause{silent(of(OtherFile))}, "kprobe:f never fired: process 123 has mapped /opt/x.so, and no traced process has mapped /lib/x.so now; probe /opt/x.so"},
		NotInProcess:        {[]*Clause{silent(of(NotInProcess))}, "kprobe:f never fired: process 123 has not mapped /lib/x.so; probe a file that it has mapped (/proc/123/maps)"},
		Unmapped:            {[]*Clause{silent(of(Unmapped))}, "kprobe:f never fired: no process has mapped /lib/x.so now; start a program that uses it, or probe the file that the program uses (/proc/PID/maps)"},
		Compat:              {[]*Clause{silent(of(Compat))}, "kprobe:f never fired: /lib/x.so is a 32-bit program, for whose system calls these tracepoints do not fire; use tracepoint:raw_syscalls:sys_enter"},
		OtherSymbols:        {[]*Clause{silent(of(OtherSymbols))}, "kprobe:f never fired: the kernel also has /lib/x.so, which its callers may call; probe that as well"},
		InOther:             {[]*Clause{silent(of(InOther))}, "kprobe:f never fired: /opt/x.so has not mapped /lib/x.so, but process 123 has; trace that process, or with --follow-forks those that /opt/x.so starts"},
		ThreadID:            {[]*Clause{tested(thread)}, "predicate pid == 4242 was false 812 times: 4242 is the ID of a thread of process 4000; compare tid, or pid with 4000"},
		MainThread:          {[]*Clause{tested(mainThread)}, "predicate pid == 4242 was false 812 times: 4242 is the first thread of a process that has 3 threads; compare pid for all of them"},
		NoThread:            {[]*Clause{tested(noThread)}, "predicate pid == 4242 was false 812 times: no thread of the PID namespace of btrun has the ID 4242 now"},
		"wait-status":       {[]*Clause{tested(status)}, "predicate args.task.exit_code == 3 was false 812 times: args.task.exit_code has the exit status in bits 8 to 15, and 768 is that status; compare (args.task.exit_code >> 8)"},
		OtherCall:           {[]*Clause{call}, "kprobe:f never fired: glibc makes the system call openat where programs call open(); trace tracepoint:syscalls:sys_exit_openat as well"},
		NoCall:              {[]*Clause{silent(Fact{Row: NoCall, Name: "time"})}, "kprobe:f never fired: programs call time() in the vDSO, mostly without a system call; probe the function of libc"},
		Inlined:             {[]*Clause{silent(Fact{Row: Inlined, Name: "3 of its 5 call sites in the debug information of /opt/x are", Other: "bar, baz"})}, "kprobe:f never fired: 3 of its 5 call sites in the debug information of /opt/x are inlined (in bar, baz): probe those"},
		"interval":          {[]*Clause{{Probe: "interval:s:10", Line: 1, Sites: 1, Counted: true, Timer: true, Took: 1500 * time.Millisecond}}, "interval:s:10 never fired: the run took 1.5 s"},
		"filtered":          {[]*Clause{{Probe: "kprobe:f", Counted: true, Reached: 812, Filter: "--cgroup"}}, "kprobe:f fired 812 times, each time in a process that does not pass --cgroup; check what it selects, or run without it"},
		OtherPID:            {[]*Clause{tested(other)}, "predicate pid == 4242 was false 812 times: pid 4242 is of another PID namespace; for btrun the process is 71022"},
		NoProcess:           {[]*Clause{tested(none)}, "predicate pid == 4242 was false 812 times: no process of the PID namespace of btrun has the ID 4242 now"},
		"comm-too-long":     {[]*Clause{tested(Test{Left: "comm", Op: "==", Right: `"a-very-long-name"`, Builtin: "comm", Kind: "string", Size: 16, Literal: "a-very-long-name"})}, `predicate comm == "a-very-long-name" was false 812 times: comm has at most 15 bytes; compare with "a-very-long-nam"`},
		"string-cut":        {[]*Clause{tested(Test{Left: "str(arg0, 8)", Op: "==", Right: `"/etc/passwd"`, Kind: "string", Size: 9, Literal: "/etc/passwd", Seen: []Value{{Text: `"/etc/pas"`, N: 64}}})}, `predicate str(arg0, 8) == "/etc/passwd" was false 812 times: the string has at most 8 bytes, and the literal has 11; make the string longer; seen instead: "/etc/pas" (64)`},
		NotInCommand:        {[]*Clause{silent(of(NotInCommand))}, "kprobe:f never fired: the program of -c (/opt/x.so) has not mapped /lib/x.so; probe a file that it maps (/proc/PID/maps)"},
		Blacklisted:         {[]*Clause{silent(of(Blacklisted))}, "kprobe:f cannot fire: the kernel forbids kprobes in /lib/x.so (/sys/kernel/debug/kprobes/blacklist); probe a function that calls it"},
		NotTraceable:        {[]*Clause{silent(Fact{Row: NotTraceable, Name: "f"})}, "kprobe:f never fired: f is not in the kernel's list of functions that can be traced (available_filter_functions): it is notrace or assembly; probe a function that calls it"},
		OtherArch:           {[]*Clause{silent(of(OtherArch))}, "kprobe:f cannot fire: /lib/x.so is a program or library for /opt/x.so, not for this machine; probe one for this machine"},
		Semaphore:           {[]*Clause{silent(of(Semaphore))}, "kprobe:f never fired: its semaphore is off in process 123, which has mapped /lib/x.so; restart the process"},
		CompatName:          {[]*Clause{tested(compat)}, `predicate comm == "nginx" was false 812 times: process 123 of this name is a 32-bit program, for whose system calls these tracepoints do not fire; use tracepoint:raw_syscalls:sys_enter`},
		"32-bit-arguments":  {[]*Clause{in32}, "predicate arg0 == 3 was false 812 times: /opt/x is a 32-bit program, whose arguments are not in the registers that arg0 reads; read them with reg() or from its stack"},
		"half-negative":     {[]*Clause{tested(half)}, "predicate retval == -1 was false 812 times: retval is a number of 8 bytes, and 4294967295, as 4 bytes, is -1; cast it: (int32)retval; seen instead: 4294967295 (50)"},
		"never-negative":    {[]*Clause{tested(fd)}, "predicate args.fd == -1 was false 812 times: args.fd is an unsigned number of 4 bytes, which is never negative; cast it: (int32)args.fd; seen instead: 4294967295 (64)"},
		"out-of-range":      {[]*Clause{tested(Test{Left: "$x", Op: "==", Right: "0xffffffff", Kind: "int", Size: 4, Signed: true, Number: 0xffffffff, Seen: []Value{{Text: "-1", N: 64}}})}, "predicate $x == 0xffffffff was false 812 times: $x is a signed number of 4 bytes, at most 2147483647; seen instead: -1 (64)"},
		"predicate-comm":    {[]*Clause{tested(commSeen)}, `predicate comm == "nginx" was false 812 times; seen instead: "nginx: worker" (9,800); comm is the name of the thread`},
		"predicate-seen":    {[]*Clause{tested(Test{Left: "uid", Op: "==", Right: "7", Builtin: "uid", Kind: "int", Size: 4, Number: 7, Seen: []Value{{Text: "0", N: 64}}})}, "predicate uid == 7 was false 812 times; seen instead: 0 (64)"},
		"predicate-false":   {[]*Clause{tested(Test{Left: "args.ret"})}, "predicate args.ret was false 812 times; print args.ret in a clause without predicate"},
		"predicate-part":    {[]*Clause{{Probe: "kprobe:f", Predicate: "a || b", Counted: true, Fired: 812, Tested: true, False: 812}}, "predicate a || b was false each of 812 times; print its parts in a clause without it"},
		"never-fired":       {[]*Clause{{Probe: "kprobe:f", Sites: 1, Counted: true, Ruled: []string{"kprobes are enabled", "x"}}}, "kprobe:f never fired, though it is attached; kprobes are enabled; x"},
	}
	for _, c := range Causes {
		if c.Name == "events-lost" {
			r := &Run{LostEvents: 1}
			if got, of := r.First(); got != "1 event did not fit in the ring buffer: print less, or raise perf_rb_pages in config" || of != nil {
				t.Errorf("%s: %q", c.Name, got)
			}
			continue
		}
		row, ok := rows[c.Name]
		if !ok {
			t.Errorf("%s: no test", c.Name)
			continue
		}
		if got, _ := (&Run{Clauses: row.clauses}).First(); got != row.want {
			t.Errorf("%s:\n got %s\nwant %s", c.Name, got, row.want)
		}
	}
}

// TestNoCause checks clauses of which nothing may be said.
func TestNoCause(t *testing.T) {
	works := func() *Clause { return &Clause{Probe: "kprobe:f", Line: 1, Sites: 1, Counted: true, Fired: 100} }
	some := tested(nginx)
	some.False = 811
	few := works()
	few.Reads = []Read{{Text: "str(arg1)", N: 9, Errno: "EFAULT", Address: 0x7f0000000000, User: true}}
	early := works()
	early.Early = []Early{{3, 99}}
	found := exit(entry(0, 0))
	found.Lookups[0].Missing, found.False = 811, 811
	uncounted := &Clause{Probe: "kprobe:f", Line: 1, Sites: 1}
	untested := tested(nginx)
	untested.Tested = false
	own := &Clause{Probe: "begin", Own: true, Sites: 1, Counted: true}
	for name, clauses := range map[string][]*Clause{
		"works": {works()}, "sometimes true": {some}, "few reads fail": {few}, "returns sometimes": {early},
		"found sometimes": {found}, "not counted": {uncounted}, "predicate not counted": {untested},
		"begin": {own, works()}, "none": nil,
	} {
		if got, _ := (&Run{Clauses: clauses}).First(); got != "" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestFeeds checks which clauses have output: not those that only store what another clause reads, which has not run, and not
// timers.
func TestFeeds(t *testing.T) {
	start, timer := entry(812, 0), &Clause{Probe: "interval:s:1", Line: 3, Sites: 1, Counted: true, Timer: true, Fired: 5}
	slow := exit(start) // the start is found, and the rest of the predicate is false
	slow.Tests[0], slow.Lookups[0].Missing = Test{Left: "nsecs - @start[tid]", Op: ">", Right: "9"}, 0
	slow.Tests[0].False = 812
	if got, of := (&Run{Clauses: []*Clause{start, timer, slow}}).First(); !strings.HasPrefix(got, "predicate nsecs - @start[tid] > 9 was false") || of != slow {
		t.Errorf("the predicate of the clause that reads: %s", got)
	}
	never := exit(start)
	never.Fired, never.False, never.Lookups[0].N, never.Lookups[0].Missing = 0, 0, 0, 0
	if got, of := (&Run{Clauses: []*Clause{start, timer, never}}).First(); got != "kretprobe:f never fired, though it is attached" || of != never {
		t.Errorf("the clause that reads: %s", got)
	}
	slow.False = 811 // some output
	const others = "other clauses ran, but kretprobe:f never fired, though it is attached"
	if got, of := (&Run{Clauses: []*Clause{start, never, slow}}).First(); got != others || of != never {
		t.Errorf("another clause that reads has run: %s", got)
	}
	if got, _ := (&Run{Clauses: []*Clause{entry(1, 0), never}}).First(); got != others {
		t.Errorf("a clause that stores nothing has run: %s", got)
	}
}

// TestCalls checks what is said of the calls of a function of a program.
func TestCalls(t *testing.T) {
	for _, c := range []struct {
		calls *manifest.Calls
		fact  Fact
		ruled string
	}{
		{nil, Fact{}, "this host does not show whether callers have inlined copies of f"},
		{&manifest.Calls{Sites: 2}, Fact{}, "none of its 2 call sites in the debug information of /bin/x is inlined"},
		{&manifest.Calls{}, Fact{}, "the debug information of /bin/x shows no call of it by name"},
		{&manifest.Calls{Sites: 5, Inlined: 3, In: []string{"bar", "baz"}}, Fact{Row: Inlined, Name: "3 of its 5 call sites in the debug information of /bin/x are", Other: "bar, baz"}, "x"},
	} {
		facts, ruled := callers(&Site{Name: "f", Path: "/bin/x", Calls: c.calls}, []string{"x"})
		if got := ruled[len(ruled)-1]; got != c.ruled || c.fact != (Fact{}) && !slices.Equal(facts, []Fact{c.fact}) || c.fact == (Fact{}) && facts != nil {
			t.Errorf("%+v: %v, %s", c.calls, facts, got)
		}
	}
	for event, want := range map[string]Fact{
		"sys_exit_open": {Row: OtherCall, Name: "open", Other: "openat", Dir: "sys_exit"}, "sys_enter_time": {Row: NoCall, Name: "time"},
		"sys_enter_exit": {Row: OtherCall, Name: "exit", Other: "exit_group", Dir: "sys_enter"}, "sys_enter_read": {}, "sys_enter_openat": {}, "sys_enter_": {},
	} {
		if got := callFact(event); got != want {
			t.Errorf("%s: %v", event, got)
		}
	}
}

func TestNotTraceable(t *testing.T) {
	list := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(list, []byte("vfs_read\nnf_hook [nf]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"vfs_read": false, "nf_hook": false, "vfs_rea": true, "nf": true} {
		if got := notTraceable(list, name); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if notTraceable(filepath.Join(t.TempDir(), "none"), "vfs_read") { // the list is not known
		t.Error("no list")
	}
}

func TestText(t *testing.T) {
	c := tested(nginx)
	c.Tests[0].Seen = []Value{{Text: `"cat"`, N: 1200}}
	c.Filter, c.Reached = "-p", 900
	c.Reads = []Read{{Text: "str(arg1)", Line: 2, N: 1, Errno: "EFAULT", Address: 0x7f0000000000}}
	r := &Run{Took: 10 * time.Second, Clauses: []*Clause{{Probe: "begin", Own: true}, c}}
	want := []string{
		"why: after 10.0 s",
		"x.bt:1: kprobe:f: attached to 1 site, fired 812 times (88 more rejected by -p)",
		"  predicate: true 0 times, false 812 times",
		`    comm == "nginx" was false 812 times; seen instead: "cat" (1,200)`,
		"  line 2: str(arg1): read failed 1 time: EFAULT, user address 0x7f0000000000",
		`why: x.bt:1: predicate comm == "nginx" was false 812 times; seen instead: "cat" (1,200); comm is the name of the thread`,
	}
	if got := r.Text("x.bt"); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestFiles looks for processes that have mapped a file, its copy, or an earlier one of its path.
func TestFiles(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip("skipped: no sleep(1)")
	}
	data, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "a", "why-sleeper")
	write := func(path string) {
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path+".new", data, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	facts := func(path string, pids ...int) string {
		all, ruled := Facts(&Site{Kind: probe.Uprobe, Path: path, PIDs: pids, Traced: pids})
		if len(all) == 0 {
			return strings.Join(ruled, "; ")
		}
		return all[0].Row
	}
	write(path)
	if got := facts(path); got != Unmapped {
		t.Errorf("no process: %s", got)
	}
	c := exec.Command(path, "60")
	if err := c.Start(); err != nil {
		t.Skipf("skipped: %v", err)
	}
	defer c.Wait()
	defer c.Process.Kill()
	if got := facts(path); got != "1 of the processes that run now have mapped "+path {
		t.Errorf("mapped: %s", got)
	}
	copied := filepath.Join(dir, "b", "why-sleeper")
	write(copied)
	if got := facts(copied); got != OtherFile {
		t.Errorf("a copy: %s", got)
	}
	if got := facts(filepath.Join(dir, "b", "none"), c.Process.Pid); got != "" {
		t.Errorf("no file: %s", got)
	}
	write(filepath.Join(dir, "b", "other"))
	if got := facts(filepath.Join(dir, "b", "other"), c.Process.Pid); got != NotInProcess {
		t.Errorf("another file: %s", got)
	}
	if got := facts(path, os.Getpid()); got != InOther {
		t.Errorf("mapped by another process: %s", got)
	}
	if same, other := MappedBy(copied, c.Process.Pid); same || other != path {
		t.Errorf("MappedBy: %t, %q", same, other)
	}
	if same, _ := MappedBy(path, c.Process.Pid); !same {
		t.Error("MappedBy: not mapped")
	}
	none := filepath.Join(dir, "none")
	for _, x := range []struct {
		paths []string
		stop  bool
		found string
	}{{[]string{copied, path, none}, false, path}, {[]string{path}, true, ""}, {[]string{none, copied}, false, ""}} {
		var stop atomic.Bool
		stop.Store(x.stop)
		if got := strings.Join(Mapped(x.paths, []int{c.Process.Pid, os.Getpid()}, &stop), " "); got != x.found {
			t.Errorf("Mapped(%q), stopped %t: %q, want %q", x.paths, x.stop, got, x.found)
		}
	}
	if got := Mapped([]string{path}, nil, new(atomic.Bool)); len(got) != 1 {
		t.Errorf("mapped by a process of the host: %q", got)
	}
	write(path)
	if got := facts(path); got != Replaced {
		t.Errorf("replaced: %s", got)
	}
	fifo := filepath.Join(dir, "fifo") // opening what a user has put there must not wait
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Skipf("skipped: %v", err)
	}
	if got := facts(fifo); got != "" || is32(fifo) {
		t.Errorf("a FIFO: %s", got)
	}
}

func TestProcess(t *testing.T) {
	if got := Process(int64(os.Getpid()), false); got != (Fact{}) {
		t.Errorf("own: %v", got)
	}
	if got := Process(1<<22+1, false); got.Row != NoProcess {
		t.Errorf("none: %v", got)
	}
	if got := Process(1<<22+1, true); got.Row != NoThread {
		t.Errorf("no thread: %v", got)
	}
	if got := Process(int64(os.Getpid()), true); got.Row != MainThread || !strings.HasSuffix(got.Other, " threads") {
		t.Errorf("the first thread: %v", got)
	}
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil || len(tasks) < 2 {
		t.Fatalf("threads of this process: %v, %v", tasks, err)
	}
	tid, _ := strconv.Atoi(tasks[len(tasks)-1].Name())
	if got := Process(int64(tid), false); got.Row != ThreadID || got.PID != os.Getpid() {
		t.Errorf("thread %d: %v", tid, got)
	}
	if got := Process(int64(tid), true); got != (Fact{}) {
		t.Errorf("own thread: %v", got)
	}
}

// TestLastOperand checks that the operand is named that the wanted events failed.
func TestLastOperand(t *testing.T) {
	c := tested(nginx)
	c.Tests[0].False, c.Tests[0].Seen = 800, []Value{{Text: `"cat"`, N: 64}}
	c.Tests = append(c.Tests, Test{Left: "uid", Op: "==", Right: "7", Builtin: "uid", Kind: "int", Size: 4, Number: 7, False: 12, Seen: []Value{{Text: "0", N: 12}}})
	want := "predicate uid == 7 was false 12 times; seen instead: 0 (12)"
	if got, _ := (&Run{Clauses: []*Clause{c}}).First(); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// TestWithhold checks that a run under a policy does not show what the files of processes are, nor values and addresses that an
// object which others have signed does not print.
func TestWithhold(t *testing.T) {
	of := func() *Run {
		c, read := tested(nginx), reading(Read{Address: 0xffff888012345678, User: true})
		c.Tests[0].Seen = []Value{{Text: `"secret"`, N: 3}}
		gone, kept := silent(Fact{Row: OtherFile, Name: "/lib/x.so", Other: "/home/secret", PID: 71022}), silent(Fact{Row: FtraceOff})
		gone.Ruled = []string{"secret"}
		c.Tests[0].Process = Fact{Row: OtherPID, PID: 71022}
		return &Run{Clauses: []*Clause{c, read, gone, kept}}
	}
	text := func(r *Run) string {
		all := r.Text("x.bt")
		for _, c := range r.Clauses {
			for _, f := range c.Findings() {
				all = append(all, f.Sentence())
			}
		}
		return strings.Join(all, "\n")
	}
	for _, signed := range []bool{false, true} {
		r := of()
		for _, word := range []string{"seen instead: \"secret\"", "ffff888012345678", "/home/secret", "71022"} {
			if !strings.Contains(text(r), word) {
				t.Fatalf("without a policy, %s is not in\n%s", word, text(r))
			}
		}
		r.Withhold(signed)
		got := text(r)
		for word, want := range map[string]bool{
			"\"secret\"": !signed, "ffff888012345678": !signed, "/home/secret": false, "71022": false, "sysctl": true, "kernel address": true,
		} {
			if strings.Contains(got, word) != want {
				t.Errorf("signed %t: %s is shown: %t, in\n%s", signed, word, !want, got)
			}
		}
	}
}

// TestSigns checks which comparisons with negative numbers are explained by the width of the value: of a value of 8 bytes,
// == may have the bits of the negative number.
func TestSigns(t *testing.T) {
	low, high := []Value{{Text: "4294967295", Number: 4294967295, N: 1}}, []Value{{Text: "5", Number: 5, N: 1}}
	for _, c := range []struct {
		test Test
		want string
	}{
		{Test{Op: "==", Size: 8, Number: -1, Seen: low}, "half-negative"},
		{Test{Op: "<", Size: 8, Seen: low}, "half-negative"},
		{Test{Op: "<", Size: 8, Seen: high}, "never-negative"},
		{Test{Op: "==", Size: 8, Number: -1, Seen: high}, "predicate-seen"},
		{Test{Op: "==", Size: 4, Number: -1, Seen: low}, "never-negative"},
		{Test{Op: "==", Size: 8, Number: 7, Seen: low}, "predicate-seen"},
		{Test{Op: "==", Size: 8, Signed: true, Number: -1, Seen: low}, "predicate-seen"},
	} {
		c.test.Left, c.test.Kind = "x", "int"
		f, _, _ := (&Run{Clauses: []*Clause{tested(c.test)}}).Cause()
		if f == nil || f.Row != c.want {
			t.Errorf("%+v: %+v, want %s", c.test, f, c.want)
		}
	}
}

// TestCommand checks files of probes of a run with a command, whose process has ended.
func TestCommand(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "why-file")
	if err := os.WriteFile(path, []byte("x"), 0o755); err != nil {
		t.Fatal(err)
	}
	site := Site{Kind: probe.Uprobe, Path: path, Command: "/bin/none"}
	if facts, ruled := Facts(&site); len(facts) != 0 || len(ruled) != 1 || !strings.Contains(ruled[0], "not known") {
		t.Errorf("not looked at: %v %q", facts, ruled)
	}
	site.Looked = true
	if facts, _ := Facts(&site); len(facts) != 1 || facts[0].Row != NotInCommand {
		t.Errorf("looked at: %v", facts)
	}
	site.Mapped = true
	if facts, ruled := Facts(&site); len(facts) != 0 || len(ruled) != 1 {
		t.Errorf("mapped: %v %q", facts, ruled)
	}
	foreign := make([]byte, 64)
	copy(foreign, "\x7fELF\x02\x01\x01")
	foreign[18] = 22 // EM_S390
	if err := os.WriteFile(path, foreign, 0o755); err != nil {
		t.Fatal(err)
	}
	if facts, _ := Facts(&site); len(facts) != 1 || facts[0].Row != OtherArch || facts[0].Other != "s390" {
		t.Errorf("another architecture: %v", facts)
	}
	want := "uprobe:x:f does not fire now: no process has mapped x now; start a program that uses it, or probe the file that the program uses (/proc/PID/maps)"
	if got := (&Fact{Row: Unmapped, Name: "x"}).Sentence("uprobe:x:f"); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// TestBranches checks when a condition that was never true is a cause: only if nothing else stores to the map, or prints.
func TestBranches(t *testing.T) {
	const big = "nothing was stored in @big: if (args.ret > 4096) in line 3 was false 812 times; seen instead: 512 (800)"
	// nested returns a clause with an if inside that of branched; its condition was true and false that often.
	nested := func(isTrue, isFalse uint64) *Clause {
		c := branched(false)
		c.Branches = append(c.Branches, Branch{Text: "if (pid == 3)", Line: 4, Counted: true, True: isTrue, False: isFalse, Effects: []string{"@deep"}})
		c.Branches[0].Effects = nil
		return c
	}
	start := branched(false)
	start.Branches[0].Effects = []string{"@start"}
	two := branched(false)
	two.Branches[0].Text, two.Branches[0].Tests = "if (a && b == 7)", []Test{{Left: "a", False: 2}, {Left: "b", Op: "==", Right: "7", False: 810, Seen: []Value{{Text: "8", N: 64}}}}
	for _, test := range []struct {
		name    string
		clauses []*Clause
		change  func(c *Clause)
		want    string
	}{
		{"never true", []*Clause{branched(false)}, nil, big},
		{"once true", []*Clause{branched(false)}, func(c *Clause) { c.Branches[0].True = 1 }, ""},
		{"not counted", []*Clause{branched(false)}, func(c *Clause) { c.Branches[0].Counted = false }, ""},
		{"stored to outside", []*Clause{branched(false)}, func(c *Clause) { c.Effects = []string{"@big"} }, ""},
		{"stored to by another clause", []*Clause{branched(false), {Counted: true, Fired: 1, Effects: []string{"@big"}}}, nil, ""},
		{"that is not counted", []*Clause{branched(false), {Effects: []string{"@big"}}}, nil, ""},
		{"that did not fire", []*Clause{branched(false), {Counted: true, Effects: []string{"@big"}}}, nil, big},
		{"two conditions", []*Clause{branched(false), branched(false)}, nil, big},
		{"one of which was true", []*Clause{branched(false), branched(false)}, func(c *Clause) { c.Branches[0].True = 5 }, ""},
		{"prints", []*Clause{branched(true)}, nil, strings.Replace(big, "nothing was stored in @big", "the clause printed nothing", 1)},
		{"in begin", []*Clause{branched(true)}, func(c *Clause) { c.Own = true }, ""},
		{"in interval", []*Clause{branched(true)}, func(c *Clause) { c.Timer = true }, ""},
		{"for a lookup", []*Clause{exit(start), start}, nil, strings.Replace(big, "@big", "@start", 1)},
		{"prints outside", []*Clause{branched(true)}, func(c *Clause) { c.Effects = []string{"print"} }, ""},
		{"around another", []*Clause{nested(0, 0)}, nil, strings.Replace(big, "@big", "@deep", 1)},
		{"inside another", []*Clause{nested(0, 7)}, func(c *Clause) { c.Branches[0].True = 7 }, "nothing was stored in @deep: if (pid == 3) in line 4 was false 7 times"},
		{"inside, true", []*Clause{nested(1, 7)}, func(c *Clause) { c.Branches[0].True = 8 }, ""},
		{"operands", []*Clause{two}, nil, "nothing was stored in @big: if (a && b == 7) in line 3 was false 812 times; b == 7 was false 810 times; seen instead: 8 (64)"},
	} {
		if test.change != nil {
			test.change(test.clauses[len(test.clauses)-1])
		}
		r := &Run{Clauses: test.clauses}
		if got, _ := r.First(); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
	r := &Run{Clauses: []*Clause{branched(false)}}
	if text := strings.Join(r.Text("x.bt"), "\n"); !strings.Contains(text, "\n  line 3: if (args.ret > 4096): true 0 times, false 812 times\n    args.ret > 4096 was false 812 times; seen instead: 512 (800)\n") {
		t.Error(text)
	}
	r.Withhold(true)
	if got, _ := r.First(); strings.Contains(got, "512") {
		t.Errorf("a value is shown under a policy: %s", got)
	}
	r.Clauses[0].Branches, r.Clauses[0].Unknown = nil, true
	if text := strings.Join(r.Text("x.bt"), "\n"); !strings.Contains(text, "no cause found; not everything could be counted of the clauses in line 1") {
		t.Error(text)
	}
}
