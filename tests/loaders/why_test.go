// SPDX-License-Identifier: Apache-2.0

package loaders

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"btc/tests/stripped"
	"btc/tests/tier"
)

// TestWhyAddsNothing loads an object with btrun, cilium/ebpf, libbpf and bpftool: all have as many instructions in the kernel, and
// no counters. Only btrun --why has more, and a map for them.
func TestWhyAddsNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	b := buildPrograms(t, runtime.GOARCH)
	if err := stripped.Build(b.dir, "btc/cmd/btrun"); err != nil {
		t.Fatal(err)
	}
	marker := fmt.Sprintf("why%d", os.Getpid())
	b.compileScript(t, strings.ReplaceAll(`
		tracepoint:syscalls:sys_enter_lseek /comm == "loaderwork" && args.offset < 7/ { @M[tid] = args.offset; if (args.whence == 2) { return; } @M[0] = 1; }
		tracepoint:syscalls:sys_exit_lseek /@M[tid]/ { if (args.ret > 4096) { delete(@M[tid]); } }`, "@M", "@"+marker), b.path("why.o"))
	fifo := b.path("fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	// workload is a command that ends when the test has looked at the programs.
	workload := []string{"cat", fifo}
	btrun := func(options ...string) *exec.Cmd {
		return exec.Command(b.path("btrun"), append(options, "-c", strings.Join(workload, " "), b.path("why.o"))...)
	}
	bpftool := func(t *testing.T, release string) *exec.Cmd {
		pins := "/sys/fs/bpf/" + filepath.Base(b.dir) + "-" + release
		args := []string{"sh", "-c", bpftoolScript, "sh", fetched(t, "run/"+release+"-"+runtime.GOARCH), autoattach[release], pins, b.path("why.o")}
		return withTracefs(append(args, workload...)...)
	}
	want, maps := loadedWith(t, marker, fifo, btrun())
	if len(want) != 2 || maps["why_counters"] || maps["why_samples"] {
		t.Fatalf("btrun: %d instructions, maps %v", want, maps)
	}
	counted, maps := loadedWith(t, marker, fifo, btrun("--why"))
	if len(counted) != 2 || counted[0] <= want[0] || counted[1] <= want[1] || !maps["why_counters"] {
		t.Errorf("btrun --why: %d instructions, without it %d; maps %v", counted, want, maps)
	}
	for _, l := range []struct {
		name    string
		real    bool
		command func(t *testing.T) *exec.Cmd
	}{
		{"agent", false, func(*testing.T) *exec.Cmd {
			return withTracefs(append([]string{b.path("agent"), b.path("why.o")}, workload...)...)
		}},
		{"bpftool", false, func(t *testing.T) *exec.Cmd {
			if _, err := exec.LookPath("bpftool"); err != nil {
				t.Skip("skipped: no bpftool on this machine")
			}
			const script = `set -e; pins=$1; object=$2; shift 2; trap 'rm -rf "$pins"' EXIT; bpftool prog loadall "$object" "$pins"; "$@"`
			return withTracefs(append([]string{"sh", "-c", script, "sh", "/sys/fs/bpf/" + marker, b.path("why.o")}, workload...)...)
		}},
		{"bpftool-bookworm", true, func(t *testing.T) *exec.Cmd { return bpftool(t, "bookworm") }},
		{"bpftool-sid", true, func(t *testing.T) *exec.Cmd { return bpftool(t, "sid") }},
		{"libbpf-sid", true, func(t *testing.T) *exec.Cmd {
			return inSid(t, append([]string{libbpfProgram(t, b), b.path("why.o")}, workload...)...)
		}},
	} {
		t.Run(l.name, func(t *testing.T) {
			if l.real && !*all {
				tier.Real.Need(t, "a loader that is fetched")
			}
			got, maps := loadedWith(t, marker, fifo, l.command(t))
			if d := cmp.Diff(want, got); d != "" || maps["why_counters"] {
				t.Errorf("instructions in the kernel (-btrun +%s), maps %v:\n%s", l.name, maps, d)
			}
		})
	}
}

// loadedWith runs a command that loads programs and then reads the FIFO. It returns the number of instructions in the kernel of
// those that use a map with the name, in ascending order, and the names of their maps.
func loadedWith(t *testing.T, name, fifo string, cmd *exec.Cmd) (instructions []int, maps map[string]bool) {
	t.Helper()
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %v\n%s", cmd.Args, err, said.String())
		}
	}()
	var ready int
	err := error(unix.ENXIO)
	for end := time.Now().Add(30 * time.Second); err == unix.ENXIO && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		ready, err = unix.Open(fifo, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		_ = cmd.Process.Kill()
		t.Fatalf("%v: the workload did not start: %v\n%s", cmd.Args, err, said.String())
	}
	defer unix.Close(ready)
	maps = map[string]bool{}
	for id, err := ebpf.ProgramGetNextID(0); err == nil; id, err = ebpf.ProgramGetNextID(id) {
		prog, err := ebpf.NewProgramFromID(id)
		if err != nil {
			continue // unloaded in the meantime
		}
		info, err := prog.Info()
		prog.Close()
		if err != nil {
			continue
		}
		ids, _ := info.MapIDs()
		var names []string
		for _, id := range ids {
			if m, err := ebpf.NewMapFromID(id); err == nil {
				if info, err := m.Info(); err == nil {
					names = append(names, info.Name)
				}
				m.Close()
			}
		}
		if !slices.Contains(names, name) {
			continue
		}
		size, err := info.TranslatedSize()
		if err != nil {
			t.Error(err)
		}
		instructions = append(instructions, size/8)
		for _, n := range names {
			maps[n] = true
		}
	}
	slices.Sort(instructions)
	return instructions, maps
}

// TestWhyCounts checks that the counts of btrun --why are exact: those of programs that nothing interrupts, and the atomic ones of
// uprobes.
func TestWhyCounts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	b := buildPrograms(t, runtime.GOARCH)
	if err := stripped.Build(b.dir, "btc/cmd/btrun"); err != nil {
		t.Fatal(err)
	}
	b.compileScript(t, `
tracepoint:syscalls:sys_enter_lseek /comm == "loaderwork" && args.offset < 6/ { @a = count(); }
tracepoint:syscalls:sys_enter_lseek /comm == "loaderwork"/ {
	if (args.offset > 8 || args.whence == 7) { @b = count(); } else if (args.offset == 8) { @c[tid] = 1; }
	$i = 0;
	while ($i < 3) { if (args.offset + $i == 13) { @d = count(); } if (comm == "nobody") { @e[comm] = count(); } $i++; }
	if (args.whence == 5) { @f = count(); printf("%d\n", args.whence); }
}
uprobe:WORK:main.step { if (pid != 1) { @g = count(); } if ((pid & 0) == 1 || pid == 1) { @h = count(); } }
`, b.path("counts.o"))
	out, err := exec.Command(b.path("btrun"), "--why", "-c", b.path(workload), b.path("counts.o")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"  predicate: true 2,400 times, false ",
		"    args.offset < 6 was false 2,400 times; seen instead: ",
		"  line 4: if (args.offset > 8 || args.whence == 7): true 1,200 times, false 3,600 times\n",
		"    args.whence == 7 was false 3,600 times; seen instead: 0 (",
		"  line 4: if (args.offset == 8): true 400 times, false 3,200 times\n",
		"  line 6: while ($i < 3): true 14,400 times, false 4,800 times\n",
		"  line 6: if (args.offset + $i == 13): true 400 times, false 14,000 times\n",
		"  line 6: if (comm == \"nobody\"): true 0 times, false 14,400 times\n",
		fmt.Sprintf("    comm == \"nobody\" was false 14,400 times; seen instead: %q (", workload),
		"  line 7: if (args.whence == 5): true 0 times, false 4,800 times\n",
		": attached to 1 site, fired 4,800 times\n",
		"  line 9: if (pid != 1): true 4,800 times, false 0 times\n",
		"nothing was stored in @e: if (comm == \"nobody\") in line 6 was false 14,400 times; seen instead: ",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q", want)
		}
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
}
