// SPDX-License-Identifier: Apache-2.0

// Package programs traces real user-space programs on the kernel of this machine: interpreters,
// libraries, and programs in C, C++, Go and Rust that are compiled here. A test is skipped if its
// program is not installed.
package programs

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var bin string // directory of btc and btrun

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "programs")
	if err != nil {
		panic(err)
	}
	cmd := exec.Command("go", "build", "-o", dir+"/", "btc/cmd/btc", "btc/cmd/btrun")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		os.Exit(1)
	}
	bin = dir
	status := m.Run()
	os.RemoveAll(dir)
	os.Exit(status)
}

// need skips the test if a program or the permission to trace is missing.
func need(t *testing.T, programs ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skip("skipped: ", err)
		}
	}
}

// build compiles source code to a program in the test's directory.
func build(t *testing.T, name, text string, command ...string) string {
	t.Helper()
	need(t, command[0])
	dir := t.TempDir()
	source, out := filepath.Join(dir, name), filepath.Join(dir, strings.TrimSuffix(name, filepath.Ext(name)))
	if err := os.WriteFile(source, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(command[0], append(append([]string(nil), command[1:]...), "-o", out, source)...)
	cmd.Dir = dir
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, b)
	}
	return out
}

// tracer is a running btc run.
type tracer struct {
	t    *testing.T
	cmd  *exec.Cmd
	mu   sync.Mutex
	text bytes.Buffer
	seen chan struct{}
	done chan error
	stop context.CancelFunc
}

func (r *tracer) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	had := bytes.Contains(r.text.Bytes(), []byte("Attached "))
	r.text.Write(p)
	if !had && bytes.Contains(r.text.Bytes(), []byte("Attached ")) {
		close(r.seen)
	}
	return len(p), nil
}

func (r *tracer) output() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// limit is the time limit for one run.
const limit = 2 * time.Minute

// trace starts a script with options and waits until it is attached or has exited.
func trace(t *testing.T, script string, options ...string) *tracer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	r := &tracer{t: t, seen: make(chan struct{}), done: make(chan error, 1), stop: cancel}
	r.cmd = exec.CommandContext(ctx, filepath.Join(bin, "btc"), append([]string{"run", "-e", script}, options...)...)
	r.cmd.Stdout, r.cmd.Stderr = r, r
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r.cmd.WaitDelay = 2 * time.Second
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cancel)
	go func() { r.done <- r.cmd.Wait() }()
	select {
	case <-r.seen:
	case err := <-r.done:
		r.done <- err
	}
	return r
}

// end interrupts the tracer, unless it has exited, and returns its output.
func (r *tracer) end() string {
	r.t.Helper()
	syscall.Kill(-r.cmd.Process.Pid, syscall.SIGINT)
	<-r.done
	r.stop()
	return r.output()
}

// until waits until the output matches.
func (r *tracer) until(expression string) {
	r.t.Helper()
	want := regexp.MustCompile("(?m)" + expression)
	for end := time.Now().Add(limit); !want.MatchString(r.output()); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("no match of %s in:\n%s", expression, r.output())
		}
	}
}

// wait waits for the tracer to exit by itself and returns its output.
func (r *tracer) wait() string {
	<-r.done
	r.stop()
	return r.output()
}

func wants(t *testing.T, output string, expressions ...string) {
	t.Helper()
	for _, e := range expressions {
		if !regexp.MustCompile("(?m)" + e).MatchString(output) {
			t.Errorf("no match of %s in:\n%s", e, output)
		}
	}
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// start runs a program until the test ends.
func start(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(name, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd
}

// port returns a port on which nobody listens.
func port(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, p, _ := net.SplitHostPort(l.Addr().String())
	return p
}

// answers waits until a server accepts connections.
func answers(t *testing.T, port string) {
	t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if c, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			c.Close()
			return
		}
	}
	t.Fatal("server does not accept connections")
}

// hasProbes skips the test if a program was built without static probes.
func hasProbes(t *testing.T, path string) {
	t.Helper()
	out, err := exec.Command(filepath.Join(bin, "btrun"), "--list", "usdt:"+path+":*").CombinedOutput()
	if err != nil || len(bytes.TrimSpace(out)) == 0 {
		t.Skipf("skipped: %s has no static probes", path)
	}
}

// TestPythonHTTPServer traces a server in Debian's Python that was started before the tracer. The audit
// probe has the name of the event as a string, and the name of the file in the tuple after it.
func TestPythonHTTPServer(t *testing.T) {
	const python = "/usr/bin/python3"
	need(t, python, "curl")
	hasProbes(t, python)
	dir, p := t.TempDir(), port(t)
	if err := os.WriteFile(filepath.Join(dir, "page.txt"), []byte("text\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	server := start(t, python, "-m", "http.server", p, "--bind", "127.0.0.1", "--directory", dir)
	answers(t, p)
	r := trace(t, `
usdt:/usr/bin/python3:python:audit /str(arg0) == "open"/ { printf("serves %s\n", str(*(uint64 *)(arg1 + 24) + 48)); }
usdt:/usr/bin/python3:python:line { @lines = count(); }
usdt:/usr/bin/python3:python:function__entry /str(arg1) == "send_head"/ { printf("%s in %s\n", str(arg1), str(arg0)); }`,
		"-p", fmt.Sprint(server.Process.Pid))
	run(t, "curl", "-sf", "http://127.0.0.1:"+p+"/page.txt")
	wants(t, r.end(), `^serves .*/page\.txt$`, `^send_head in .*http/server\.py$`, `^@lines: [1-9]`)
}

func TestPythonGarbageCollector(t *testing.T) {
	const python = "/usr/bin/python3"
	need(t, python)
	hasProbes(t, python)
	out := trace(t, `usdt:/usr/bin/python3:python:gc__start /pid == cpid/ { @gen[arg0] = count(); } usdt:/usr/bin/python3:gc__done /pid == cpid/ { @done = count(); }`,
		"-c", python+" -c import\tgc;gc.collect(1);gc.collect(2)").wait()
	wants(t, out, `^@done: [1-9]`, `^@gen\[1\]: 1$`, `^@gen\[2\]: [1-9]`)
}

func TestBashReadline(t *testing.T) {
	need(t, "bash", "script")
	r := trace(t, `uretprobe:bash:readline { printf("typed %s\n", str(retval)); }`)
	cmd := exec.Command("script", "-qc", "bash --norc -i", "/dev/null")
	cmd.Stdin = strings.NewReader("echo one two\nexit\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("skipped: no interactive shell: %v %s", err, out)
	}
	wants(t, r.end(), `^typed echo one two$`)
}

func TestMalloc(t *testing.T) {
	prog := build(t, "m.c", "#include <stdlib.h>\nint main(void) { for (int i = 0; i < 50; i++) { void *volatile p = malloc(4321); (void)p; } return 0; }", "gcc", "-O0")
	out := trace(t, `uprobe:libc:malloc /arg0 == 4321/ { @calls = count(); } uretprobe:libc:malloc /retval == 0/ { @failed = count(); }`, "-c", prog).wait()
	wants(t, out, `^@calls: 50$`)
}

func TestTLS(t *testing.T) {
	need(t, "openssl", "curl")
	dir, p := t.TempDir(), port(t)
	run(t, "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", dir+"/k", "-out", dir+"/c", "-days", "1", "-subj", "/CN=localhost")
	start(t, "openssl", "s_server", "-accept", p, "-cert", dir+"/c", "-key", dir+"/k", "-www")
	answers(t, p)
	r := trace(t, `uprobe:libssl:SSL_write, uprobe:libssl:SSL_write_ex /comm == "curl"/ { printf("%s\n", str(arg1, 12)); }`)
	run(t, "curl", "-sk", "https://127.0.0.1:"+p+"/")
	out := r.end()
	if strings.Contains(out, "does not exist") {
		t.Skip("skipped: libssl not found")
	}
	wants(t, out, `^GET / HTTP`)
}

// TestPostgres traces a PostgreSQL server that is started for the test. Its probes have the source of
// each query and its progress.
func TestPostgres(t *testing.T) {
	paths, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(paths) == 0 {
		t.Skip("skipped: PostgreSQL is not installed")
	}
	need(t, "psql")
	hasProbes(t, paths[0])
	// PostgreSQL refuses to run as root, and paths of sockets must be short.
	const nobody = 65534
	dir, err := os.MkdirTemp("/tmp", "pg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	as := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		return cmd
	}
	data := dir + "/data"
	if out, err := as(filepath.Dir(paths[0])+"/initdb", "-D", data, "-U", "tester", "-A", "trust", "--no-sync", "--no-locale").CombinedOutput(); err != nil {
		t.Skipf("skipped: cannot create a database: %v %s", err, out)
	}
	server := as(paths[0], "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Process.Signal(syscall.SIGQUIT); server.Wait() })
	query := func(text string) ([]byte, error) {
		return as("psql", "-X", "-h", dir, "-U", "tester", "-d", "postgres", "-Atc", text).CombinedOutput()
	}
	ready := false
	for end := time.Now().Add(limit); !ready && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		_, err := query("select 1")
		ready = err == nil
	}
	if !ready {
		t.Fatal("server does not accept connections")
	}
	r := trace(t, fmt.Sprintf(`
usdt:%[1]s:postgresql:query__start { printf("begins %%s\n", str(arg0)); @begin[pid] = nsecs; }
usdt:%[1]s:postgresql:query__done /@begin[pid]/ { printf("ends %%s\n", str(arg0)); @took = count(); delete(@begin, pid); }
usdt:%[1]s:postgresql:query__parse* { @parse[probe] = count(); }
usdt:%[1]s:postgresql:transaction__commit { @commits = count(); }`, paths[0]))
	if out, err := query("select 40 + 2 as answer"); err != nil || strings.TrimSpace(string(out)) != "42" {
		t.Fatalf("%v %s", err, out)
	}
	wants(t, r.end(), `^begins select 40 \+ 2 as answer$`, `^ends select 40 \+ 2 as answer$`, `^@took: 1$`, `^@commits: [1-9]`,
		`^@parse\[usdt:.*:postgresql:query__parse__start\]: 1$`, `^@parse\[usdt:.*:postgresql:query__parse__done\]: 1$`)
}

const goSource = `package main
import "fmt"
type box struct{ n int }
//go:noinline
func (b *box) Put(n int) { b.n += n }
func main() { b := &box{}; for i := 0; i < 7; i++ { b.Put(i) }; fmt.Println(b.n) }
`

// TestGo checks that symbols of Go contain brackets, stars and dots, so they must be quoted.
func TestGo(t *testing.T) {
	need(t, "go")
	t.Setenv("GO111MODULE", "off")
	prog := build(t, "g.go", goSource, "go", "build")
	out := trace(t, fmt.Sprintf(`uprobe:%s:"main.(*box).Put" { @ = count(); @sum = sum(reg("bx")); }`, prog), "-c", prog).wait()
	wants(t, out, `^@: 7$`, `^@sum: 21$`)
}

func TestCPlusPlus(t *testing.T) {
	prog := build(t, "c.cc", `
namespace ns { template <class T> __attribute__((noinline)) T twice(T v) { asm volatile(""); return v + v; }
__attribute__((noinline)) int over(int a) { asm volatile(""); return a; } __attribute__((noinline)) long over(long a, int b) { asm volatile(""); return a + b; }
struct thing { int id; __attribute__((noinline)) int get(int by) const { asm volatile(""); return id * by; } }; }
int main() { ns::thing t{5}; int n = 0; for (int i = 0; i < 3; i++) n += ns::over(i) + ns::over(1L, i) + ns::twice(i) + ns::twice(2L) + t.get(i); return n == 0; }
`, "g++", "-g", "-O1")
	out := trace(t, fmt.Sprintf(`
uprobe:%[1]s:cpp:"ns::over" { @over = count(); }
uprobe:%[1]s:cpp:"ns::twice<int>" { @one = count(); }
uprobe:%[1]s:cpp:"ns::twice" { @each = count(); }
uprobe:%[1]s:cpp:"ns::thing::get" { @sum = sum(args.this->id * args.by); @f[func] = count(); }`, prog), "-c", prog).wait()
	wants(t, out, `^@over: 6$`, `^@one: 3$`, `^@each: 6$`, `^@sum: 15$`, `^@f\[ns::thing::get\(int\) const\]: 3$`)
}

func TestRust(t *testing.T) {
	prog := build(t, "r.rs", `
mod inner { #[inline(never)] pub fn add(a: u32, b: u32) -> u32 { std::hint::black_box(a + b) } }
fn main() { let mut s = 0; for i in 0..4 { s = inner::add(s, i); } std::process::exit((s == 0) as i32); }
`, "rustc", "-C", "symbol-mangling-version=v0", "-C", "debuginfo=2")
	out := trace(t, fmt.Sprintf(`uprobe:%s:*inner3add* { @[func] = count(); @b = sum(args.b); }`, prog), "-c", prog).wait()
	wants(t, out, `^@\[.*inner::add.*\]: 4$`, `^@b: 6$`)
}

const cSource = `
#include <stdio.h>
struct item { char name[8]; int count; struct item *next; };
enum kind { SMALL = 1, LARGE = 2 };
__attribute__((noinline)) int use(struct item *it, enum kind k, unsigned char flag, const char *text) {
	it->count += k;
	return it->count; }
int main(void) {
	struct item b = {"second", 20, 0}, a = {"first", 10, &b};
	char text[] = "words"; // on the stack: a page that nobody has touched cannot be read
	return use(&a, LARGE, 200, text) == 0;
}
`

// TestDebugInformation checks that names, types and lines come from the program's debug information.
func TestDebugInformation(t *testing.T) {
	prog := build(t, "d.c", cSource, "gcc", "-g", "-O0")
	out := trace(t, fmt.Sprintf(`
uprobe:%[1]s:use { printf("%%s %%d %%s %%d %%d %%s\n", args.it->name, args.it.count, args.it->next->name, args.k, args.flag, str(args.text)); printf("%%d\n", ((struct item *)arg0)->next.count); }
uprobe:%[1]s@d.c:6 { @line = count(); }
uretprobe:%[1]s:use { @result = retval; }`, prog), "-c", prog).wait()
	wants(t, out, `^first 10 second 2 200 words$`, `^20$`, `^@line: 1$`, `^@result: 12$`)
}

// TestNameOfKernelStruct checks a struct name that the kernel has, too: uprobes use the struct of the
// program, other clauses that of the kernel. A definition in the script takes precedence over both.
func TestNameOfKernelStruct(t *testing.T) {
	const source = `struct node { char mark[3]; int number; };
__attribute__((noinline)) int use(struct node *n) { asm volatile("" ::: "memory"); return n->number; }
int main(void) { struct node n = { "ab", 7 }; return use(&n); }
`
	prog := build(t, "n.c", source, "gcc", "-g", "-O0")
	out := trace(t, fmt.Sprintf(`
begin { printf("kernel %%d\n", sizeof(struct node) > 8); }
uprobe:%[1]s:use { $n = (struct node *)arg0; printf("program %%d %%d %%s\n", sizeof(struct node), $n->number, $n->mark); }`, prog), "-c", prog).wait()
	wants(t, out, `^kernel 1$`, `^program 8 7 ab$`)
	out = trace(t, fmt.Sprintf(`
struct node { int a; }
uprobe:%[1]s:use { printf("own %%d %%d\n", sizeof(struct node), args.n->number); }`, prog), "-c", prog).wait()
	wants(t, out, `^own 4 7$`)
}

// TestSizeOfVariable checks that uaddr() points to a signed number of the variable's size, with and
// without debug information, also through a variable of the script; of 8 bytes for what is not a number.
func TestSizeOfVariable(t *testing.T) {
	const source = `int number = -42; unsigned char byte = 200; short half = -3; long word = -5; char text[5] = "text";
__attribute__((noinline)) void use(void) { asm volatile("" ::: "memory"); }
int main(void) { use(); return 0; }
`
	for _, option := range []string{"-g", "-O1"} {
		prog := build(t, "v.c", source, "gcc", option)
		out := trace(t, fmt.Sprintf(`uprobe:%s:use {
	$p = uaddr("number");
	printf("%%d %%d %%d %%d %%d %%d %%d\n", *uaddr("number"), *uaddr("byte"), *uaddr("half"), *uaddr("word"), *$p, *$p < 0, sizeof(*uaddr("text")));
}`, prog), "-c", prog).wait()
		wants(t, out, `^-42 -56 -3 -5 -42 1 8$`)
	}
}

// TestOtherBuild checks that an object is rejected if its program has been rebuilt, but not if the
// program has only been stripped.
func TestOtherBuild(t *testing.T) {
	need(t, "gcc", "objcopy")
	prog := build(t, "d.c", cSource, "gcc", "-g", "-O0")
	object := filepath.Join(t.TempDir(), "x.o")
	run(t, filepath.Join(bin, "btc"), "compile", "-o", object, "-e", fmt.Sprintf(`uprobe:%s:use { printf("%%s\n", args.it->name); exit(); }`, prog))
	run(t, "objcopy", "--strip-debug", prog)
	out, err := exec.Command(filepath.Join(bin, "btrun"), "-c", prog, object).CombinedOutput()
	if err != nil {
		t.Errorf("stripped: %v", err)
	}
	wants(t, string(out), `^first$`)
	other := build(t, "d.c", strings.Replace(cSource, "char name[8]", "long more; char name[8]", 1), "gcc", "-g", "-O0")
	if err := os.Rename(other, prog); err != nil {
		t.Fatal(err)
	}
	out, err = exec.Command(filepath.Join(bin, "btrun"), "-c", prog, object).CombinedOutput()
	if err == nil {
		t.Error("object accepted for another build of the program")
	}
	wants(t, string(out), `is another build`)
}

// TestReplacedWhileTraced replaces a program while it is traced: the old file remains traced, the new
// one is a different file.
func TestReplacedWhileTraced(t *testing.T) {
	prog := build(t, "w.c", "#include <unistd.h>\n__attribute__((noinline)) void tick(void) { asm volatile(\"\"); }\nint main(void) { for (;;) { tick(); usleep(50000); } }", "gcc", "-O0")
	start(t, prog)
	r := trace(t, fmt.Sprintf(`uprobe:%s:tick { @ticks++; printf("tick %%d\n", @ticks); }`, prog))
	text, err := os.ReadFile(prog)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(prog); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(prog, text, 0o755); err != nil {
		t.Fatal(err)
	}
	ticks := strings.Count(r.output(), "tick ")
	r.until(fmt.Sprintf("^tick %d$", ticks+2)) // the first one may be from before
	r.end()
}

// TestProcessGone traces a process that exits before the probes are attached.
func TestProcessGone(t *testing.T) {
	need(t, "true")
	cmd := exec.Command("true")
	cmd.Run()
	out := trace(t, `uprobe:libc:malloc { @ = count(); }`, "-p", fmt.Sprint(cmd.Process.Pid)).wait()
	wants(t, out, `there is no process`)
	if out := trace(t, `uprobe:libc:malloc { @ = count(); }`, "-c", "true").wait(); !strings.Contains(out, "Attached 1 probe") {
		t.Errorf("command that exits immediately: %s", out)
	}
}

// TestSymbolFiveTimes checks that a symbol that occurs five times in a file is traced at all five
// addresses.
func TestSymbolFiveTimes(t *testing.T) {
	need(t, "gcc")
	dir := t.TempDir()
	args := []string{"-O0", "-o", dir + "/five", dir + "/main.c"}
	text, calls := "", ""
	for i := range 5 {
		src := fmt.Sprintf("static __attribute__((noinline)) int same(int v) { asm volatile(\"\"); return v + %d; }\nint call%d(int v) { return same(v); }\n", i, i)
		os.WriteFile(fmt.Sprintf("%s/f%d.c", dir, i), []byte(src), 0o644)
		args = append(args, fmt.Sprintf("%s/f%d.c", dir, i))
		text += fmt.Sprintf("int call%d(int);\n", i)
		calls += fmt.Sprintf("call%d(1);", i)
	}
	os.WriteFile(dir+"/main.c", []byte(text+"int main(void) { "+calls+" return 0; }\n"), 0o644)
	run(t, "gcc", args...)
	out := trace(t, fmt.Sprintf(`uprobe:%s/five:same { @ = count(); @f[func] = count(); }`, dir), "-c", dir+"/five").wait()
	wants(t, out, `^Attached 5 probes$`, `^@: 5$`, `(@f\[same\]: 1\n){5}`)
}

// TestStripped checks that in a program without symbols, a name is not found, but an address is.
func TestStripped(t *testing.T) {
	need(t, "gcc", "strip", "nm")
	prog := build(t, "s.c", "__attribute__((noinline)) void here(void) { asm volatile(\"\"); }\nint main(void) { here(); here(); return 0; }", "gcc", "-O0", "-no-pie")
	syms, err := exec.Command("nm", prog).Output()
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^([0-9a-f]+) T here$`).FindSubmatch(syms)
	run(t, "strip", prog)
	wants(t, trace(t, fmt.Sprintf(`uprobe:%s:here { @ = count(); }`, prog), "-c", prog).wait(), `No matches for uprobe .*:here`)
	out := trace(t, fmt.Sprintf(`uprobe:%s:0x%s { @ = count(); }`, prog, m[1]), "-c", prog).wait()
	wants(t, out, `^@: 2$`)
	wants(t, trace(t, fmt.Sprintf(`uprobe:%s:0x7 { @ = count(); }`, prog), "-c", prog).wait(), `Could not resolve address: .*:0x7`)
}

const library = `
__asm__(".pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n.4byte 2f-1f, 4f-3f, 3\n1: .asciz \"stapsdt\"\n2: .balign 4\n3: .8byte made_here, 0, 0\n.asciz \"late\"\n.asciz \"fired\"\n.asciz \"-4@%edi\"\n4: .balign 4\n.popsection");
__attribute__((noinline)) void fire(int n) { __asm__ volatile("made_here: nop" : : "D"(n)); }
`

// TestProbesMadeAtRunTime traces probes of a library that a process creates and maps from memory, as
// libstapsdt does for interpreters: the name that the process shows is not the name of a file.
func TestProbesMadeAtRunTime(t *testing.T) {
	need(t, "gcc")
	if out, _ := exec.Command("uname", "-m").Output(); strings.TrimSpace(string(out)) != "x86_64" {
		t.Skip("skipped: the note names a register of x86_64")
	}
	dir := t.TempDir()
	os.WriteFile(dir+"/l.c", []byte(library), 0o644)
	run(t, "gcc", "-shared", "-fPIC", "-o", dir+"/l.so", dir+"/l.c")
	prog := build(t, "host.c", `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv) {
	char b[65536], name[64];
	int in = open(argv[1], O_RDONLY), out = memfd_create("probes", 0), n;
	while ((n = read(in, b, sizeof b)) > 0) write(out, b, n);
	snprintf(name, sizeof name, "/proc/self/fd/%d", out);
	void *l = dlopen(name, RTLD_NOW);
	if (!l) { puts(dlerror()); return 1; }
	close(out);
	void (*fire)(int) = dlsym(l, "fire");
	puts("loaded");
	fflush(stdout);
	for (;;) { fire(-7); usleep(20000); }
}`, "gcc", "-O0", "-ldl")
	server := exec.Command(prog, dir+"/l.so")
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Process.Kill(); server.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "loaded\n" {
		t.Fatalf("first line = %q, %v, want \"loaded\"", line, err)
	}
	r := trace(t, `usdt::late:fired { @[(int32)arg0] = count(); }`, "-p", fmt.Sprint(server.Process.Pid), "--every", "200ms")
	r.until(`^@\[-7\]: [1-9]`)
	r.end()
}

// TestMalformedNote checks that a note without a code address is ignored with a warning, and that the
// other notes are used.
func TestMalformedNote(t *testing.T) {
	if out, _ := exec.Command("uname", "-m").Output(); strings.TrimSpace(string(out)) != "x86_64" {
		t.Skip("skipped: the note names a register of x86_64")
	}
	const bad = `__asm__(".pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n.4byte 2f-1f, 4f-3f, 3\n1: .asciz \"stapsdt\"\n2: .balign 4\n3: .8byte 5, 0, 0\n.asciz \"late\"\n.asciz \"bad\"\n.asciz \"\"\n4: .balign 4\n.popsection");`
	prog := build(t, "n.c", bad+library+"int main(void) { for (int i = 0; i < 9; i++) fire(i); return 0; }", "gcc", "-O0", "-no-pie")
	out := trace(t, fmt.Sprintf(`usdt:%s:late:fired { @ = sum(arg0); }`, prog), "-c", prog).wait()
	wants(t, out, `warning: .*late:bad has no code at address 0x5; the other probes are used`, `^@: 36$`)
	wants(t, trace(t, fmt.Sprintf(`usdt:%s:late:bad { @ = count(); }`, prog), "-c", prog).wait(), `late:bad has no code at address 0x5`)
}

// TestArchive traces a library inside an archive, as application packages contain them.
func TestArchive(t *testing.T) {
	need(t, "gcc", "zip")
	prog := build(t, "z.c", "__attribute__((noinline)) void f(void) { asm volatile(\"\"); }\nint main(void) { f(); return 0; }", "gcc", "-O0")
	archive := filepath.Join(t.TempDir(), "a.zip")
	run(t, "zip", "-q", "-0", "-j", archive, prog)
	wants(t, trace(t, fmt.Sprintf(`uprobe:"%s!/z":f { @ = count(); }`, archive), "-c", "true").wait(), `^Attached 1 probe$`)
	wants(t, trace(t, fmt.Sprintf(`uprobe:"%s!/none":f { @ = count(); }`, archive), "-c", "true").wait(), `the archive has no member none`)
}

// TestMembersOfStructs checks that members are read as in bpftrace: a bit field is zero-extended
// whatever its sign, a floating-point number is null, and a string that fills its array is complete.
func TestMembersOfStructs(t *testing.T) {
	path := build(t, "members.c", `
struct members { short a:4, b:8; int e:9; unsigned g:1; float f; double d[2]; char s[5]; int last; };
void __attribute__((noinline)) seen(struct members *m) { asm volatile("" : : "r"(m) : "memory"); }
int main(void) {
	struct members m = { -1, -39, -12, 1, 1.5, { 2.5, 3.5 }, { 'h', 'e', 'l', 'l', 'o' }, 0x41414141 };
	seen(&m);
}
`, "gcc", "-O0")
	const members = `struct members { short a:4, b:8; int e:9; unsigned g:1; float f; double d[2]; char s[5]; int last; }; `
	out := trace(t, members+`uprobe:`+path+`:seen {
	$m = (struct members *)arg0;
	printf("%d %d %d %d %d\n", $m.a, $m.b, $m.e, $m.g, $m.b < 0);
	print(*$m);
	$c = *$m;
	printf("%d %d\n", $c.a, $c.b);
	$s = $m.s;
	printf("%s,%s,%s,%d,%d\n", $s, $m.s, $c.s, sizeof($m.s), $c.s == "hello");
	@s[$m.s, $c.s] = $m.s;
	@t = "ab"; @t = $c.s;
}`, "-c", path).wait()
	wants(t, out, `^15 217 500 1 0$`, `^\{ \.a = 15, \.b = 217, \.e = 500, \.g = 1, \.f = null, \.d = \[null,null\], \.s = .*, \.last = 1094795585 \}$`, `^15 217$`,
		`^hello,hello,hello,6,1$`, `^@s\[hello, hello\]: hello$`, `^@t: hello$`)
}

// TestOffsetInFunction checks that an offset in a function must be the start of an instruction, except
// with --unsafe.
func TestOffsetInFunction(t *testing.T) {
	need(t, "gcc", "nm")
	if out, _ := exec.Command("uname", "-m").Output(); strings.TrimSpace(string(out)) != "x86_64" {
		t.Skip("skipped: the program uses x86_64 instructions")
	}
	prog := build(t, "p.c", `
__asm__(".globl here\n.type here,@function\nhere: nop\nmovl $7, %eax\naddl $1, %eax\nret\n.size here, .-here");
int here(void);
int main(void) { return here() + here() != 16; }`, "gcc", "-O0", "-no-pie")
	at := func(offset string, options ...string) string {
		return trace(t, fmt.Sprintf(`uprobe:%s:%s { @ = count(); }`, prog, offset), append(options, "-c", prog)...).wait()
	}
	for _, off := range []string{"0", "1", "6", "9"} {
		wants(t, at("here+"+off), `^@: 2$`)
	}
	for _, off := range []string{"2", "5", "8"} {
		wants(t, at("here+"+off), `Could not add uprobe into middle of instruction: .*:here\+`+off+`$`, `Use --unsafe to force attachment\.`)
	}
	wants(t, at("here+10"), `Offset outside the function bounds`)
	wants(t, at("here+2", "--unsafe", "--dry-run"), `warning: Unsafe uprobe in the middle of the instruction: .*:here\+2$`)
	syms, err := exec.Command("nm", prog).Output()
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^([0-9a-f]+) T here$`).FindSubmatch(syms)
	var addr uint64
	fmt.Sscanf(string(m[1]), "%x", &addr)
	wants(t, at(fmt.Sprintf("0x%x", addr+6)), `^@: 2$`)
	wants(t, at(fmt.Sprintf("0x%x", addr+7)), `Could not add uprobe into middle of instruction: .*:here\+7$`)
	out := trace(t, fmt.Sprintf(`uretprobe:%s:0x%x { @ = count(); }`, prog, addr+6), "-c", prog).wait()
	wants(t, out, `uretprobes cannot be attached at function offset`)
}

// TestAddressNeedsProof checks that a breakpoint is written only where an instruction is proved to begin, in files that
// say little: without symbols, in the PLT, and in code that nothing leads to.
func TestAddressNeedsProof(t *testing.T) {
	need(t, "gcc", "strip", "objdump")
	if out, _ := exec.Command("uname", "-m").Output(); strings.TrimSpace(string(out)) != "x86_64" {
		t.Skip("skipped: the program uses x86_64 instructions")
	}
	prog := build(t, "victim.c", `#include <stdio.h>
#include <unistd.h>
__attribute__((noinline)) long secret(long a) { volatile long x = a; return x * 3 + 0x11223344; }
int main(void) { printf("%lx\n", secret(1)); usleep(1); return 0; }`, "gcc", "-O1", "-no-pie")
	text, err := exec.Command("objdump", "-d", prog).Output()
	if err != nil {
		t.Fatal(err)
	}
	address := func(pattern string) (addr uint64) {
		m := regexp.MustCompile(pattern).FindSubmatch(text)
		if m == nil {
			t.Skipf("skipped: the compiler writes no %s", pattern)
		}
		fmt.Sscanf(string(m[1]), "%x", &addr)
		return addr
	}
	lea, start := address(`(?m)^ +([0-9a-f]+):.*lea +0x11223344`), address(`(?m)^([0-9a-f]+) <secret>`)
	plt := address(`(?ms)^[0-9a-f]+ <usleep@plt>:.*?([0-9a-f]+):[^\n]*jmp +\*`)
	if out, err := exec.Command("strip", prog).CombinedOutput(); err != nil {
		t.Skipf("skipped: %v: %s", err, out)
	}
	const refused = `Could not add|Failed to check`
	for _, c := range []struct {
		kind  string
		addr  uint64
		wants string // with the address; "": it is attached
	}{
		{"uprobe", start, ""},
		{"uprobe", lea, ""},
		{"uprobe", lea + 4, "Could not add uprobe into middle of instruction: "},
		{"uprobe", plt + 2, "Failed to check if uprobe is in proper place: "},
		{"uretprobe", start, ""},
		{"uretprobe", lea, "Failed to check if uretprobe is in proper place: "},
		{"uretprobe", plt, "Failed to check if uretprobe is in proper place: "},
	} {
		script := fmt.Sprintf(`%s:%s:0x%x { @ = count(); }`, c.kind, prog, c.addr)
		if c.wants == "" {
			wants(t, trace(t, script, "-c", prog).wait(), `^@: 1$`)
			continue
		}
		wants(t, trace(t, script, "-c", prog).wait(), c.wants+regexp.QuoteMeta(prog)+fmt.Sprintf(`:0x%x`, c.addr))
		out := trace(t, script, "--allow", "probe-address", "--dry-run").wait()
		if regexp.MustCompile(refused).MatchString(out) || !strings.Contains(out, "warning: Un") {
			t.Errorf("%s with --allow probe-address: %s", script, out)
		}
	}
}

// TestFuncOfEntryAndReturn checks that func, used as a key, is equal at the entry and the return of a
// function.
func TestFuncOfEntryAndReturn(t *testing.T) {
	path := build(t, "pair.c", `__attribute__((noinline)) int first(int x) { __asm__ volatile(""); return x + 1; }
__attribute__((noinline)) int second(int x) { __asm__ volatile(""); return first(x) + 2; }
int main(void) { int s = 0; for (int i = 0; i < 3; i++) s += second(i); return s == 0; }
`, "gcc", "-O1")
	text := strings.ReplaceAll(`uprobe:P:first, uprobe:P:second { @start[tid, func] = 1; }
		uretprobe:P:first, uretprobe:P:second /@start[tid, func]/ { @same[func] = count(); }
		end { clear(@start); }`, "P", path)
	wants(t, trace(t, text, "-c", path).wait(), `@same\[first\]: 3\n`, `@same\[second\]: 3\n`)
}

// TestNamesOfEndedProcess checks that function names are found in the file even if the process exits
// before they are looked up, for programs at fixed and at randomized addresses.
func TestNamesOfEndedProcess(t *testing.T) {
	for _, kind := range []string{"-no-pie", "-pie"} {
		prog := build(t, "e.c", "__attribute__((noinline)) int inner(int v) { asm volatile(\"\"); return v; }\nint main(void) { return inner(0); }", "gcc", "-O0", kind)
		r := trace(t, fmt.Sprintf(`uprobe:%s:inner { @f[func] = count(); @u[usym(reg("ip"))] = count(); @s[ustack(2)] = count(); }`, prog))
		for range 3 {
			run(t, prog)
		}
		out := r.end()
		wants(t, out, `(@f\[inner\]: 1\n){3}`, `(@u\[inner\]: 1\n){3}`, `(@s\[\n\s+inner\+0\n\s+main\+[0-9]+\n\]: 1\n){3}`)
	}
}

// TestEndsDuringAttach checks that if a process exits while its probes are being attached, the run ends
// or reports that the process is gone, and does not hang.
func TestEndsDuringAttach(t *testing.T) {
	need(t, "sleep")
	object := filepath.Join(t.TempDir(), "x.o")
	run(t, filepath.Join(bin, "btc"), "compile", "-o", object, "-e", `uprobe:libc:getp* { @[probe] = count(); } profile:hz:99 { @p = count(); } tracepoint:sched:* { @t = count(); }`)
	for i := range 12 {
		victim := exec.Command("sleep", "1000")
		if err := victim.Start(); err != nil {
			t.Fatal(err)
		}
		tracer := exec.Command(filepath.Join(bin, "btrun"), "-p", fmt.Sprint(victim.Process.Pid), object)
		var text bytes.Buffer
		tracer.Stdout, tracer.Stderr = &text, &text
		if err := tracer.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i*i) * time.Millisecond) // at any stage: nothing to wait for
		victim.Process.Kill()
		if i%2 == 0 { // otherwise it remains a zombie
			victim.Wait()
		} else {
			defer victim.Wait()
		}
		done := make(chan error, 1)
		go func() { done <- tracer.Wait() }()
		select {
		case err := <-done:
			if err != nil && !strings.Contains(text.String(), "there is no process") && !strings.Contains(text.String(), " ended before its probes were attached") {
				t.Errorf("run %d: error = %v, output: %s", i, err, text.String())
			}
		case <-time.After(limit):
			tracer.Process.Kill()
			t.Fatalf("run %d: still running without its process: %s", i, text.String())
		}
	}
}

// TestListWalk checks that a script can follow a list to its end: the verifier does not know the length.
func TestListWalk(t *testing.T) {
	prog := build(t, "list.c", `struct node { int n; struct node *next; };
__attribute__((noinline)) int use(struct node *p) { asm volatile("" ::: "memory"); return p->n; }
int main(void) { struct node c = { 3, 0 }, b = { 2, &c }, a = { 1, &b }; return use(&a) != 1; }
`, "gcc", "-g", "-O0")
	for _, loop := range []string{
		`while ($p != 0) { printf("%d\n", $p->n); $p = $p->next; }`,
		`while (1) { if ($p == 0) { break; } printf("%d\n", $p->n); $p = $p->next; }`,
	} {
		out := trace(t, fmt.Sprintf(`uprobe:%s:use { $p = args.p; %s }`, prog, loop), "-c", prog).wait()
		wants(t, out, `^1\n2\n3\n`)
	}
}

// TestStackAtEntry checks that a stack at the entry of a function has the function's immediate caller
// once, whether or not the kernel finds it: functions that begin with push %rbp, with endbr64 or without
// either, and callers without a frame.
func TestStackAtEntry(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("skipped: the options of gcc are those of x86")
	}
	source := `#define FUNC __attribute__((noinline)) int
volatile int sink;
FUNC leaf(int x) { sink++; return sink + x; }
FUNC inner(int x) { int r = leaf(x) + 1; sink++; return r; }
FUNC outer(int x) { int r = inner(x) + 1; sink++; return r; }
int main(void) { int s = 0; for (int i = 0; i < 5; i++) s += outer(i); return s == 0; }
`
	for _, c := range []struct{ name, options, full, three string }{
		{"endbr", "-fcf-protection -fno-omit-frame-pointer", "leaf inner outer main", "leaf inner outer"},
		{"push", "-fcf-protection=none -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer", "leaf inner outer main", "leaf inner outer"},
		{"both", "-fcf-protection -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer", "leaf inner outer main", "leaf inner outer"},
		{"neither", "-fcf-protection=none -fno-omit-frame-pointer", "leaf inner outer main", "leaf inner outer"},
		{"frameless", "-fcf-protection -fomit-frame-pointer", "leaf inner", "leaf inner.*"},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"gcc", "-O2", "-fno-ipa-icf", "-fno-optimize-sibling-calls"}, strings.Fields(c.options)...)
			path := build(t, "entry.c", source, args...)
			text := strings.ReplaceAll(`uprobe:P:leaf { @all[ustack] = count(); @a1[ustack(1)] = count(); @a2[ustack(2)] = count(); @a3[ustack(perf, 3)] = count(); @a5[ustack(5)] = count(); @n = max(len(ustack(2))); }
				uprobe:P:inner { @inner[ustack(2)] = count(); } uprobe:P:leaf* { @pattern[ustack(2)] = count(); }`, "P", path)
			out := trace(t, text, "-c", path).wait()
			frames := map[string]string{} // of the one stack in each map
			for _, m := range regexp.MustCompile(`(?m)^@(\w+)\[\n((?:\s+.*\n)+)\]: 5$`).FindAllStringSubmatch(out, -1) {
				frames[m[1]] = strings.Join(strings.Fields(regexp.MustCompile(`(?m)^\s+(?:[0-9a-f]+ )?(\w+)\+.*$`).ReplaceAllString(m[2], "$1")), " ")
			}
			for name, want := range map[string]string{
				"all": c.full + ".*", "a1": "leaf", "a2": "leaf inner", "a3": c.three, "a5": c.full + ".*", "inner": "inner outer",
				"pattern": "leaf inner",
			} {
				if !regexp.MustCompile("^" + want + "$").MatchString(frames[name]) {
					t.Errorf("@%s has the frames %q, want %q", name, frames[name], want)
				}
			}
			wants(t, out, `@n: 2\n`)
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}
