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

	"btc/loader/hostinfo"
	"btc/loader/kerneltypes"
)

// The record of a tracepoint is read where the kernel's format file has its
// fields, whatever BTF says.
func TestRecordOfFormat(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	if _, err := hostinfo.Tracepoint("sched", "sched_process_exec"); err != nil {
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
	k := &kernel{t, spec}
	k.member(record, "pid").Offset = k.member(record, "__data_loc_filename").Offset
	path := filepath.Join(t.TempDir(), "changed.btf")
	if err := os.WriteFile(path, marshal(t, spec), 0o666); err != nil {
		t.Fatal(err)
	}
	startProcesses(t)
	out, err := trace(t, `tracepoint:sched:sched_process_exec { printf("%s", args.pid == pid ? "right" : "wrong"); exit() }`, path)
	if err != nil || !strings.HasPrefix(strings.TrimSpace(out), "right") || strings.Contains(out, "wrong") {
		t.Errorf("have %q, %v", out, err)
	}
}

// startProcesses starts short processes, for something to trace, until the test ends.
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
