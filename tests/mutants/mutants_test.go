// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"btc/compile"
	"btc/internal/manifest"
	"btc/internal/objfile"
	"btc/loader/bpfmap"
	"btc/loader/diag"
	"btc/loader/format"
	"btc/loader/object"
	"btc/loader/options"
	"btc/loader/output"
	"btc/loader/permit"
	"btc/loader/render"
	"btc/loader/run"
	"btc/loader/sites"
	"btc/targets/kernel"
)

var (
	count    = flag.Int("mutants", 10000, "how many to make")
	jobs     = flag.Int("jobs", 1, "how many processes make them; 0: one for each CPU")
	seed     = flag.Uint64("seed", 1, "of the first; each has its own")
	ofKernel = flag.Int("kernel", 200, "one of so many is loaded into the kernel, too (root); 0: none")
)

// Limits for one mutant.
const (
	maxTime   = 5 * time.Second // CPU time
	maxMemory = 256 << 20       // bytes, sum of all allocations
)

// scripts use every kind of map, event and layout.
var scripts = []string{
	`begin { @a = 1; @b[1, "x"] = (1, "y", (int8)3); printf("%d %s %-5d|%5s\n", 1, "a", 2, "b"); print(@b); print((1, 2)); clear(@b); zero(@a); exit(); }`,
	`tracepoint:syscalls:sys_enter_openat { @[comm, pid] = count(); @h = hist(args.dfd); @l[cpu] = lhist(args.flags, 0, 100, 10); @s[pid] = stats(args.dfd); @m = max(pid); @v = avg(pid); }`,
	`profile:hz:99 { @[kstack(5), ustack, comm] = count(); @u[usym(reg("ip")), ksym(reg("ip"))] = sum(1); printf("%s\n", kstack); }`,
	`config = { unstable_tseries=enable } interval:ms:100 { @t = tseries(rand, 1s, 10); @k[cpu] = tseries(rand, 100ms, 5, "max"); }`,
	`begin { print(strftime("%H", nsecs)); print(ntop(0x0100007f)); print(macaddr((uint8[6])0)); join(0); cat("/etc/%s", "hostname"); system("id %d", 1); time("%H\n"); print(username); print(cgroup_path(cgroup)); errorf("x %d", 1); }`,
	`struct S { int a; char b[8]; struct { long c:5; long d:7; } e; int f[3]; } uprobe:/bin/sh:main { $s = (struct S *)arg0; @[*$s] = 1; print(*$s); @e = $s->e; print($1); print(str($2)); }`,
	`iter:task { @[ctx.task.comm] = count(); } fentry:filp_close { @f = args.filp; @p = path(args.filp.f_path); } self:signal:SIGUSR1 { print(@); }`,
	`kprobe:tcp_* { @[probe, func] = count(); } kretprobe:vfs_read /retval > 0/ { @b = hist(retval, 3); delete(@b2[1]); @b2[tid] = nsecs; }`,
	`usdt:/bin/sh:a:b { print(arg1); } uretprobe:/bin/sh:main { @u[usym((uint64)uaddr("main"))] = 1; } hardware:cycles:1000000 { @ = kaddr("vfs_read"); }`,
}

// base is a compiled script.
type base struct {
	object   []byte
	manifest []byte
}

// bases compiles the scripts and a part of the corpus.
func bases(t testing.TB) []base {
	t.Helper()
	x86, err := kernel.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("../corpus/*.bt")
	if err != nil || len(more) == 0 {
		t.Fatal("no scripts in the corpus: ", err)
	}
	texts := scripts
	for i, f := range more {
		if i%6 == 0 {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, string(b))
		}
	}
	var all []base
	for i, text := range texts {
		out, diags := compile.Compile(compile.Input{Name: "x.bt", Text: text, Target: x86, Compiler: "test"})
		if out == nil {
			if i < len(scripts) {
				t.Fatalf("%s: %v", text, diags.Err())
			}
			continue
		}
		object, _, err := objfile.Split(out.Object)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, base{object, out.Manifest})
	}
	return all
}

// TestMutants checks that parsing a manifest, and describing, expanding, decoding and printing with it,
// ends in bounded time and memory whatever the manifest says, with or without an error.
func TestMutants(t *testing.T) {
	if *jobs != 1 {
		parallel(t)
		return
	}
	objects := bases(t)
	quiet(t)
	accepted, loaded := 0, 0
	for i := range *count {
		n := *seed + uint64(i)
		r := rand.New(rand.NewPCG(n, 1))
		b := objects[r.IntN(len(objects))]
		kernel := *ofKernel > 0 && i%*ofKernel == 0 && os.Getuid() == 0
		if ok, reached := try(t, n, b, r, kernel); ok {
			accepted++
			if reached {
				loaded++
			}
		}
		if t.Failed() {
			return
		}
		if (i+1)%50_000 == 0 {
			t.Logf("%d mutants so far", i+1)
		}
	}
	t.Logf("%d mutants, %d valid manifests, %d reached the kernel", *count, accepted, loaded)
	if accepted < *count/20 {
		t.Errorf("only %d of %d mutants are valid: the mutations are too coarse to test the code after validation", accepted, *count)
	}
}

// parallel tests the mutants in several processes: the limits are those of a process. Each prints how far it is.
func parallel(t *testing.T) {
	if *jobs < 1 {
		*jobs = runtime.NumCPU()
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var sum [3]int // mutants, valid manifests, those that reached the kernel
	for job := range *jobs {
		from, to := *count*job / *jobs, *count*(job+1) / *jobs
		wg.Go(func() {
			cmd := exec.Command(os.Args[0], "-test.run", "^TestMutants$", "-test.v", "-test.timeout", "0", "-mutants", strconv.Itoa(to-from),
				"-seed", strconv.FormatUint(*seed+uint64(from), 10), "-kernel", strconv.Itoa(*ofKernel))
			out, err := cmd.CombinedOutput()
			mu.Lock()
			defer mu.Unlock()
			var n [3]int
			for line := range strings.Lines(string(out)) {
				if _, rest, ok := strings.Cut(line, "mutants_test.go:"); ok {
					_, rest, _ = strings.Cut(rest, ": ")
					fmt.Sscanf(rest, "%d mutants, %d valid manifests, %d reached the kernel", &n[0], &n[1], &n[2])
				}
			}
			if err != nil || n[0] != to-from {
				t.Errorf("mutants %d to %d: %v\n%s", *seed+uint64(from), *seed+uint64(to)-1, err, out)
			}
			for i := range sum {
				sum[i] += n[i]
			}
		})
	}
	wg.Wait()
	t.Logf("%d mutants, %d valid manifests, %d reached the kernel", sum[0], sum[1], sum[2])
}

// allocated returns the number of bytes that this process has allocated in all. Unlike runtime.ReadMemStats it does not
// stop the process.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// quiet removes settings of the environment that would change the runs.
func quiet(t *testing.T) {
	t.Setenv("BPFTRACE_MISSING_PROBES", "ignore")
}

// try makes mutant n and processes it as btrun does.
func try(t *testing.T, n uint64, b base, r *rand.Rand, kernel bool) (accepted, reached bool) {
	before := allocated()
	begin := processTime()
	stage := "mutation"
	watch := time.AfterFunc(24*maxTime, func() {
		panic(fmt.Sprintf("mutant %d still running after %v, in %s", n, 24*maxTime, stage))
	})
	defer watch.Stop()
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("mutant %d (-seed %d -mutants 1): panic in %s: %v\n%s", n, n, stage, p, debug.Stack())
			return
		}
		if used := allocated() - before; used > maxMemory {
			t.Errorf("mutant %d: allocated %d MiB up to %s", n, used>>20, stage)
		}
		if took := processTime() - begin; took > maxTime {
			t.Errorf("mutant %d: took %v up to %s", n, took, stage)
		}
	}()
	m, err := manifest.Parse(b.manifest)
	if err != nil {
		t.Fatal(err)
	}
	Mutate(m, r)
	sum := sha256.Sum256(b.object)
	if r.IntN(20) > 0 {
		m.Object = manifest.Object{SHA256: hex.EncodeToString(sum[:]), Size: int64(len(b.object))}
	}
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}

	stage = "Parse"
	if m, err = manifest.Parse(text); err != nil {
		return false, false
	}
	stage = "messages"
	for _, p := range m.Programs {
		f := diag.Error{Script: &m.Script, Pos: p.Pos, Text: "x"}
		_ = f.Error() + f.Warning() + f.Message("ERROR")
	}
	for _, e := range m.Errors {
		f := diag.Error{Script: &m.Script, Pos: e.Pos, Chain: e.Chain, Text: e.Text}
		_ = f.Error() + f.Message("ERROR") + f.Brief("WARNING")
	}
	stage = "events"
	events(m, r)
	stage = "maps"
	maps(m, r)
	stage = "object"
	o, err := object.Parse(b.object, m)
	if err != nil {
		return true, false
	}
	stage = "parameters"
	params, named, err := manifest.MergeParams(m, []string{"1", "text"}, nil)
	if err == nil {
		manifest.ParseParams(m, params, named)
		if sites.Substitute(m, params) != nil {
			return true, false
		}
	}
	stage = "permissions"
	permit.Describe(o, 128).Print(io.Discard)
	new(permit.Grants).Check(o)
	if !kernel {
		return true, false
	}
	stage = "load"
	if s, err := run.Load(o, run.Options{Run: options.Run{DryRun: true, MaxMemory: 64 << 20, Args: []string{"1", "text"}}}); err == nil {
		s.Close()
	}
	return true, true
}

// processTime returns the CPU time of this process, which does not include waiting for a busy machine.
func processTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// bytesOf returns n bytes: random, all zero, all ones, or small numbers.
func bytesOf(n int, r *rand.Rand) []byte {
	b := make([]byte, n)
	switch kind := r.IntN(4); kind {
	case 0, 1:
		for i := range b {
			if b[i] = byte(r.Uint32()); kind == 1 && i%8 > 1 {
				b[i] = 0
			}
		}
	case 2:
		for i := range b {
			b[i] = 0xff
		}
	}
	return b
}

var env = format.Env{Escape: true, Trailer: "..", Clock: func(ns uint64, clock int) time.Time { return time.Unix(0, int64(ns)) }}

// sinks returns one sink for each output format; the output is discarded.
func sinks(m *manifest.Manifest) []output.Sink {
	var all []output.Sink
	for _, f := range output.Formats {
		out := output.NewWriter("none", func(text []byte, _ bool) []byte { return text[:0] })
		drop := func(string) {}
		all = append(all, f.New(&output.Run{Manifest: m, Env: &env, Out: out, Message: drop, MessageNow: drop, Post: func(_ int, job func()) { job() },
			Frames: func(*manifest.Layout, uint64) []uint64 { return []uint64{1, 1 << 63} },
			Object: "x", Host: "h", Losses: func() []output.Loss { return []output.Loss{{Cause: "map", N: 1}} }}))
	}
	return all
}

// events decodes and prints records of each event.
func events(m *manifest.Manifest, r *rand.Rand) {
	var e format.Event
	for i := range m.Events {
		x := &m.Events[i]
		for range 2 {
			record := bytesOf(x.Size+r.IntN(256), r)
			binary.NativeEndian.PutUint32(record, uint32(x.ID))
			binary.NativeEndian.PutUint32(record[4:], uint32(len(record)))
			if e.Read(m, record) != nil {
				continue
			}
			format.Strftime(nil, x.Format, time.Unix(0, 0))
			for _, s := range sinks(m) {
				s.Printf(&e, format.ParseFormat(x.Format))
				for _, v := range e.Values {
					s.Print(&format.Event{Event: e.Event, Values: []format.Value{v}})
				}
			}
		}
	}
}

// maps prints maps with contents of the sizes in their layouts.
func maps(m *manifest.Manifest, r *rand.Rand) {
	for i := range m.Maps {
		x := &m.Maps[i]
		if x.Shape == "intern" || x.Shape == "stack" {
			continue
		}
		var entries []bpfmap.Entry
		for range 1 + r.IntN(3) {
			e := bpfmap.Entry{Key: bytesOf(x.KeySize, r)}
			for range 2 {
				e.Values = append(e.Values, bytesOf(x.ValueSize, r))
			}
			entries = append(entries, e)
		}
		var elems []render.Element
		if x.Shape == "tseries" {
			elems = render.ReduceSeries(x, entries)
		} else {
			for _, e := range entries {
				elems = append(elems, render.Reduce(x, e))
			}
		}
		top := render.Top{Keep: r.IntN(3), Div: uint32(r.IntN(3))}
		for _, s := range sinks(m) {
			s.Map(&output.Map{Event: &manifest.Event{}, Map: x, Elements: elems, Top: top})
			s.Map(&output.Map{Event: &manifest.Event{}, Map: x})
			both := func(show func(*output.Map)) {
				show(&output.Map{Map: x, Elements: elems})
				show(&output.Map{Map: x})
			}
			s.Snapshot(both)
			s.End(both)
		}
	}
}
