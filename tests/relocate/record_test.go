// SPDX-License-Identifier: Apache-2.0

package relocate

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf/btf"

	"btc/internal/kernelfs"
	"btc/loader/kerneltypes"
)

// TestRecordOfFormat checks that the fields of a tracepoint's record are read at the offsets in the
// kernel's format file, whatever the BTF says.
func TestRecordOfFormat(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	if _, err := kernelfs.Tracepoint("sched", "sched_process_exec"); err != nil {
		t.Skip("skipped: ", err)
	}
	const record = "trace_event_raw_sched_process_exec"
	blob, missing, err := kerneltypes.Subset(kerneltypes.Path, append([]string{record}, names...))
	if err != nil || len(missing) > 0 {
		t.Skip("skipped: ", missing, err)
	}
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(blob))
	if err != nil {
		t.Fatal(err)
	}
	k := &changedKernel{t, spec}
	k.member(record, "pid").Offset = k.member(record, "__data_loc_filename").Offset
	path := filepath.Join(t.TempDir(), "changed.btf")
	if err := os.WriteFile(path, marshal(t, spec), 0o666); err != nil {
		t.Fatal(err)
	}
	startProcesses(t)
	out, err := trace(t, `tracepoint:sched:sched_process_exec { printf("%s", args.pid == pid ? "right" : "wrong"); exit() }`, path)
	if err != nil || !strings.HasPrefix(strings.TrimSpace(out), "right") || strings.Contains(out, "wrong") {
		t.Errorf("output %q, error %v, want output \"right\"", out, err)
	}
}

// startProcesses starts short-lived processes to trace, until the test ends.
func startProcesses(t *testing.T) {
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	go func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
				exec.Command("/bin/true").Run()
			}
		}
	}()
}

// TestChangedFormat checks that if types and format files disagree, as on kernels with additional
// fields in the common header, the format file decides: a field is read at its offset there, and
// rejected if it is missing. The test changes the files for one process only.
func TestChangedFormat(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	if _, err := os.Stat(kerneltypes.Path); err != nil {
		t.Skip("skipped: this kernel has no BTF")
	}
	dir, err := kernelfs.Tracefs()
	if err != nil {
		t.Skip("skipped: ", err)
	}
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Skip("skipped: ", err)
	}
	btrun := filepath.Join(t.TempDir(), "btrun")
	if out, err := exec.Command("go", "build", "-o", btrun, "btc/cmd/btrun").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, c := range []struct {
		name, event, script string
		change              func(format string) string
		want                string // in the output or the error message
	}{
		{"unchanged", "sched/sched_switch", `tracepoint:sched:sched_switch /pid == cpid/ { printf("%d", args.prev_pid == tid); }`,
			func(f string) string { return f }, "1"},
		{"two fields exchanged", "sched/sched_switch", `tracepoint:sched:sched_switch /pid == cpid/ { printf("%d", args.prev_pid == curtask->prio); }`,
			func(f string) string { return exchange(f, "prev_pid", "prev_prio") }, "1"},
		{"removed field", "sched/sched_switch", `tracepoint:sched:sched_switch /pid == cpid/ { printf("%d", args.prev_pid == tid); }`,
			func(f string) string { return strings.ReplaceAll(f, "prev_pid;", "was_pid;") }, "this kernel has no field prev_pid"},
		{"system calls, whose programs read a different record", "syscalls/sys_enter_clock_nanosleep", `tracepoint:syscalls:sys_enter_clock_nanosleep /pid == cpid/ { printf("%d", args.rqtp != 0); }`,
			func(f string) string { return strings.ReplaceAll(f, "rqtp;\toffset:32;", "rqtp;\toffset:40;") }, "1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := os.ReadFile(dir + "/events/" + c.event + "/format")
			if err != nil {
				t.Skip("skipped: ", err)
			}
			changed := filepath.Join(t.TempDir(), "format")
			if err := os.WriteFile(changed, []byte(c.change(string(b))), 0o644); err != nil {
				t.Fatal(err)
			}
			path := writeObject(t, c.script, embedded(t))
			cmd := exec.Command(unshare, "--mount", "--propagation", "private", "sh", "-c", `
				cd /sys/kernel/tracing && { [ -e events ] || { mount -t tracefs tracefs . && cd /sys/kernel/tracing; }; } &&
				mount --bind "$1" "events/$2/format" && exec "$3" -q -c 'sleep 0.2' "$4"`,
				"sh", changed, c.event, btrun, path)
			out, _ := cmd.CombinedOutput() // if the object is rejected, the message shows it
			text := strings.TrimSpace(string(out))
			if c.want == "1" && (strings.Trim(text, "1") != "" || text == "") || !strings.Contains(text, c.want) {
				t.Errorf("%q not found in the output:\n%s", c.want, text)
			}
		})
	}
}

// exchange swaps the offsets of two fields in a format file.
func exchange(format, a, b string) string {
	offset := func(name string) string {
		_, rest, _ := strings.Cut(format, " "+name+";\t")
		at, _, _ := strings.Cut(rest, "\t")
		return at
	}
	atA, atB := offset(a), offset(b)
	format = strings.Replace(format, " "+a+";\t"+atA, " "+a+";\t"+atB, 1)
	return strings.Replace(format, " "+b+";\t"+atB, " "+b+";\t"+atA, 1)
}
