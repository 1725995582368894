// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	pprof "github.com/google/pprof/profile"

	"btc/loader/cgroup"
)

// writes counts the writes of a process whose name hurts folded stacks, in maps of all kinds that are profiles.
const writes = `
tracepoint:syscalls:sys_enter_write /comm == "a;b c 7"/ {
  @count[comm, kstack, ustack] = count(); @bytes[ustack, comm] = sum(args.count); @avg[kstack(2)] = avg(args.count);
  @hist[(kstack, comm), pid] = hist(args.count); @plain[ustack(perf)]++; @max[kstack] = max(args.count); @pids[pid] = count();
}
`

// The workload of the tests.
const (
	writesN    = 100
	writesSize = 64
)

// TestProfiles checks that the sums of profiles are those of the maps, and that pprof's package reads them.
func TestProfiles(t *testing.T) {
	dir := programs(t)
	object := compile(t, dir, writes)
	command := fmt.Sprintf(`%s/workload -report /dev/null -comm "a;b c 7" write -n %d -size %d`, dir, writesN, writesSize)
	for _, x := range []struct {
		name        string
		types       string
		values      []int64
		label, root string
	}{
		{"@count", "samples/count", []int64{writesN}, "a;b c 7", "a:b_c_7;"},
		{"bytes", "total/bytes", []int64{writesN * writesSize}, "a;b c 7", "a:b_c_7;"},
		{"avg", "samples/count total/count", []int64{writesN, writesN * writesSize}, "", ""},
		{"hist", "samples/count", []int64{writesN}, "a;b c 7", "a:b_c_7;"},
		{"plain", "total/count", []int64{writesN}, "", ""},
	} {
		file := filepath.Join(dir, "x.pb.gz")
		run(t, dir, nil, "-f", "pprof", "--map", x.name, "-o", file, "-c", command, object)
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p, err := pprof.ParseData(data)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.CheckValid(); err != nil {
			t.Error(err)
		}
		types := ""
		for _, typ := range p.SampleType {
			types += " " + typ.Type + "/" + typ.Unit
		}
		if types != " "+x.types {
			t.Errorf("%s: types%s, want %s", x.name, types, x.types)
		}
		sums := make([]int64, len(x.values))
		for _, s := range p.Sample {
			for i := range sums {
				sums[i] += s.Value[i]
			}
			if x.label != "" && len(s.Label["comm"]) == 1 && s.Label["comm"][0] != x.label && len(s.Label["key2"]) == 0 {
				t.Errorf("%s: labels %v", x.name, s.Label)
			}
		}
		if fmt.Sprint(sums) != fmt.Sprint(x.values) {
			t.Errorf("%s: sums %d, want %d", x.name, sums, x.values)
		}
		if p.TimeNanos == 0 || p.DurationNanos <= 0 {
			t.Errorf("%s: from %d for %d ns", x.name, p.TimeNanos, p.DurationNanos)
		}
		if out, err := exec.Command("go", "tool", "pprof", "-top", file).CombinedOutput(); err != nil || !strings.Contains(string(out), "Total samples = ") {
			t.Errorf("go tool pprof: %v\n%s", err, out)
		}

		if out, err := exec.Command("go", "tool", "pprof", "-raw", file).CombinedOutput(); err != nil {
			t.Errorf("go tool pprof: %v\n%s", err, out)
		}

		out, _ := run(t, dir, nil, "-q", "-f", "folded", "--map", x.name, "-c", command, object)
		sum := int64(0)
		for line := range strings.Lines(string(out)) {
			words := strings.Fields(line)
			if len(words) != 2 || !strings.HasPrefix(line, x.root) {
				t.Errorf("%s: %q", x.name, line)
				continue
			}
			n, err := strconv.ParseInt(words[1], 10, 64)
			if err != nil {
				t.Errorf("%s: %q", x.name, line)
			}
			sum += n
			user, isKernel := -1, -1
			for i, frame := range strings.Split(words[0], ";") {
				if strings.HasSuffix(frame, "_[k]") {
					isKernel = i
				} else {
					user = i
				}
			}
			if isKernel >= 0 && user > isKernel {
				t.Errorf("%s: a frame of the user is above one of the kernel: %s", x.name, line)
			}
		}
		if want := x.values[len(x.values)-1]; sum != want {
			t.Errorf("%s: folded sum %d, want %d", x.name, sum, want)
		}
	}
}

// TestProfileEvery checks that the file of a run contains a whole profile at any time.
func TestProfileEvery(t *testing.T) {
	dir := programs(t)
	object := compile(t, dir, `interval:ms:10 { @n += 1; if (@n <= 40) { @[kstack] = count(); } else { exit(); } }`)
	file := filepath.Join(dir, "x.pb.gz")
	run(t, dir, nil, "-q", "-f", "pprof", "--every", "100ms", "-o", file, object)
	data, _ := os.ReadFile(file)
	p, err := pprof.ParseData(data)
	if err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	for _, s := range p.Sample {
		sum += s.Value[0]
	}
	if sum != 40 {
		t.Errorf("%d samples, want 40", sum)
	}
}

// profiled runs btc profile, and returns what it wrote.
func profiled(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if out, err := exec.Command(filepath.Join(dir, "btc"), append([]string{"profile", "-o", file}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("btc profile %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestProfileCommand profiles commands, in each form.
func TestProfileCommand(t *testing.T) {
	dir := programs(t)
	sleep := profiled(t, dir, "x.folded", "--off-cpu", "-c", "sleep 0.4")
	waited := int64(0)
	for line := range strings.Lines(sleep) {
		at := strings.LastIndexByte(line, ' ')
		n, err := strconv.ParseInt(strings.TrimSpace(line[at+1:]), 10, 64)
		if err != nil {
			t.Errorf("%q", line)
		}
		if strings.HasPrefix(line, "sleep;") && strings.Contains(line, "nanosleep") {
			waited += n
		}
	}
	if waited < 390_000 {
		t.Errorf("sleep 0.4 waited for %d us in\n%s", waited, sleep)
	}

	burn := "dd if=/dev/zero of=/dev/null bs=1M count=20000"
	if svg := profiled(t, dir, "x.svg", "-F", "999", "-c", burn); !strings.Contains(svg, "<title>dd (") || !strings.Contains(svg, "command dd") || !strings.Contains(svg, "read_zero") {
		t.Errorf("no dd in the picture of %d bytes", len(svg))
	}
	p, err := pprof.ParseData([]byte(profiled(t, dir, "x.pb.gz", "-F", "999", "-c", burn)))
	if err != nil {
		t.Fatal(err)
	}
	if p.Period != 1001001 || p.SampleType[0].Type != "samples" || len(p.Sample) == 0 {
		t.Errorf("period %d, types %v, %d samples", p.Period, p.SampleType, len(p.Sample))
	}
	for _, s := range p.Sample {
		if comm := s.Label["comm"]; len(comm) != 1 || comm[0] != "dd" && comm[0] != "btrun" {
			t.Errorf("a sample of %q", comm)
		}
	}
}

// TestProfileWaitsInCgroup checks that --off-cpu measures the threads of a cgroup, and of those below it, and no others; and so
// with --follow-forks for the processes that a process starts.
func TestProfileWaitsInCgroup(t *testing.T) {
	dir := programs(t)
	group := ""
	for _, h := range cgroup.Mounted() {
		if h.Name == "unified" {
			group = filepath.Join(h.Mount, fmt.Sprintf("btc-test-%d", os.Getpid()))
		}
	}
	below := filepath.Join(group, "below")
	if group == "" || os.MkdirAll(below, 0o755) != nil {
		t.Skip("skipped: no cgroup of version 2 can be made here")
	}
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	shells := map[string]*exec.Cmd{}
	for _, name := range []string{"inside", "outside"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, binary, 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sh", "-c", "read x; while :; do "+path+" 0.05; done")
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err == nil && name == "inside" {
			err = os.WriteFile(filepath.Join(below, "cgroup.procs"), strconv.AppendInt(nil, int64(cmd.Process.Pid), 10), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		in.Write([]byte("\n"))
		shells[name] = cmd
	}
	t.Cleanup(func() {
		for _, cmd := range shells {
			cmd.Process.Kill()
			cmd.Wait()
		}
		for range 100 { // the last sleep ends
			if os.Remove(below) == nil && os.Remove(group) == nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Errorf("%s is left", group)
	})
	for _, args := range [][]string{{"--cgroup", group}, {"-p", strconv.Itoa(shells["inside"].Process.Pid), "--follow-forks"}} {
		text := profiled(t, dir, "x.folded", append(args, "--off-cpu", "1s")...)
		in, out := strings.Contains(text, "\ninside;") || strings.HasPrefix(text, "inside;"), strings.Contains(text, "outside;")
		if !in || out {
			t.Errorf("%q: inside %t, outside %t:\n%s", args, in, out, text)
		}
	}
	out, err := exec.Command(filepath.Join(dir, "btc"), "profile", "--off-cpu", "--cgroup", group+"/none", "-o", filepath.Join(dir, "y.svg"), "1s").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "none") {
		t.Errorf("a cgroup that does not exist: %v\n%s", err, out)
	}
}

// TestProfileInterrupted checks that Ctrl-C ends a profile, and that what was sampled is drawn.
func TestProfileInterrupted(t *testing.T) {
	dir := programs(t)
	file := filepath.Join(dir, "x.svg")
	cmd := exec.Command(filepath.Join(dir, "btc"), "profile", "-o", file)
	var errs strings.Builder
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		time.Sleep(500 * time.Millisecond)
		cmd.Process.Signal(os.Interrupt) // before it is attached, it ends without a picture
		select {
		case err := <-done:
			if data, _ := os.ReadFile(file); len(data) > 0 && err != nil || len(data) == 0 && err == nil {
				t.Errorf("%v, and a picture of %d bytes\n%s", err, len(data), errs.String())
			}
			return
		case <-time.After(30 * time.Second):
		}
	}
}

// TestProfileReplay checks that the replay of a recording in the formats of profiles is what the run wrote, and draws it.
func TestProfileReplay(t *testing.T) {
	dir := programs(t)
	object := compile(t, dir, writes)
	command := fmt.Sprintf(`%s/workload -report /dev/null -comm "a;b c 7" write -n %d -size %d`, dir, writesN, writesSize)
	recording := filepath.Join(dir, "run.jsonl")
	want, _ := run(t, dir, nil, "-q", "-f", "folded", "--map", "bytes", "--record", recording, "-c", command, object)
	replay := func(args ...string) string {
		out, err := exec.Command(filepath.Join(dir, "btc"), append([]string{"replay", "--map", "bytes"}, append(args, recording)...)...).Output()
		if err != nil {
			t.Errorf("btc replay %s: %v", strings.Join(args, " "), err)
		}
		return string(out)
	}
	if got := replay("-f", "folded"); got != string(want) || got == "" {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	p, err := pprof.ParseData([]byte(replay("-f", "pprof")))
	if err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	for _, s := range p.Sample {
		sum += s.Value[0]
	}
	if sum != writesN*writesSize {
		t.Errorf("sum %d, want %d", sum, writesN*writesSize)
	}
	if svg := replay("-f", "svg"); !strings.Contains(svg, ">6.2 KiB in ") || !strings.Contains(svg, "main.main (6.2 KiB, 100.00%)") {
		t.Errorf("a picture without all bytes: %.3000s", svg)
	}
	out, err := exec.Command(filepath.Join(dir, "btc"), "replay", "-f", "svg", recording).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "choose one of @count, @bytes, @avg, @hist, @plain with --map") {
		t.Errorf("without --map: %v %s", err, out)
	}
}

// TestReplayOfExec checks that the stacks of a process that executes another program while it is traced are named by the program
// that they are of, and that a replay prints what the run printed.
func TestReplayOfExec(t *testing.T) {
	dir := programs(t)
	object := compile(t, dir, `
		tracepoint:syscalls:sys_enter_write /pid == cpid/ { printf("%s%s\n", comm, ustack); @[comm, ustack] = count(); }
		tracepoint:syscalls:sys_enter_execve /pid == cpid/ { @execs[ustack] = count(); print(@execs); }
		interval:ms:50 { print(@); }`)
	recording := filepath.Join(dir, "exec.jsonl")
	want, _ := run(t, dir, nil, "-q", "--record", recording, "-c", `sh -c 'echo > /dev/null; sleep 0.3; exec dd bs=1 count=2 if=/dev/zero of=/dev/null status=none'`, object)
	got, err := exec.Command(filepath.Join(dir, "btc"), "replay", recording).Output()
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("the replay prints\n%s\nand the run printed\n%s", got, want)
	}
	for _, name := range []string{"sh", "dd"} {
		leafs := regexp.MustCompile(`(?m)(?:^@\[`+name+`, |^`+name+`)\n *(.*)$`).FindAllStringSubmatch(string(want), -1)
		for _, leaf := range leafs {
			if !strings.Contains(leaf[1], "+") {
				t.Errorf("a stack of %s starts with %q", name, leaf[1])
			}
		}
		if len(leafs) < 2 {
			t.Errorf("%d stacks of %s:\n%s", len(leafs), name, want)
		}
	}
}
