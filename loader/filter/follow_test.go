// SPDX-License-Identifier: Apache-2.0

//go:build linux

package filter

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/rlimit"

	"btc/loader/host"
)

// tree is a shell with a child shell that starts a process for each line of input and prints its own
// process ID and that of the process.
type tree struct {
	pid int
	in  io.Writer
	out *bufio.Reader
}

func grow(t *testing.T) *tree {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c",
		`exec 3<&0; sh -c 'while read x <&3; do sleep 100 & echo $$ $!; done; kill $(jobs -p)' & wait`)
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
	tr := &tree{cmd.Process.Pid, in, bufio.NewReader(out)}
	t.Cleanup(func() {
		in.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	return tr
}

// fork makes the inner shell start a process; it returns the IDs of both.
func (tr *tree) fork(t *testing.T) (inner, child int) {
	t.Helper()
	fmt.Fprintln(tr.in)
	line, err := tr.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	a, b, _ := strings.Cut(strings.TrimSpace(line), " ")
	inner, err = strconv.Atoi(a)
	if err == nil {
		child, err = strconv.Atoi(b)
	}
	if err != nil {
		t.Fatal(err)
	}
	return inner, child
}

// following returns a filter for a process, with the program loaded.
func following(t *testing.T, pid int) *Filter {
	t.Helper()
	h, err := host.Probe()
	if err != nil {
		t.Skip("skipped: ", err)
	}
	types, err := btf.LoadKernelSpec()
	if err != nil {
		t.Skip("skipped: ", err)
	}
	f, err := New(Options{PIDs: []int{pid}, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	rlimit.RemoveMemlock()
	err = f.Make()
	if err == nil {
		err = f.LoadTracker(types, h.PIDNS)
	}
	if errors.Is(err, os.ErrPermission) {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestFollowWhileLooking checks that until the existing processes are known, a process is followed if
// any ancestor of its parent is; after that, only its parent decides.
func TestFollowWhileLooking(t *testing.T) {
	tr := grow(t)
	f := following(t, tr.pid)
	if err := f.attach(); err != nil {
		t.Fatal(err)
	}
	inner, child := tr.fork(t)
	if f.wanted(inner) || !f.wanted(child) {
		t.Errorf("parent followed: %v, child followed: %v", f.wanted(inner), f.wanted(child))
	}
	f.set(noProcess, 0)
	inner, child = tr.fork(t)
	if f.wanted(inner) || f.wanted(child) {
		t.Errorf("later: parent followed: %v, child followed: %v", f.wanted(inner), f.wanted(child))
	}
	f.set(child, 1) // entry of an earlier process with this ID
	f.set(inner, 1)
	if _, child = tr.fork(t); !f.wanted(child) {
		t.Error("child of a followed process not followed")
	}
}

// TestFollowExisting checks that existing processes are included with all their descendants, whatever
// the order of their IDs, and no others.
func TestFollowExisting(t *testing.T) {
	tr, other := grow(t), grow(t)
	inner, child := tr.fork(t)
	strange, stranger := other.fork(t)
	f := following(t, tr.pid)
	if err := f.Follow(0); err != nil {
		t.Fatal(err)
	}
	_, later := tr.fork(t)
	_, latest := other.fork(t)
	for pid, want := range map[int]bool{
		tr.pid: true, inner: true, child: true, later: true, other.pid: false, strange: false, stranger: false,
		latest: false, os.Getpid(): false, noProcess: false,
	} {
		if f.wanted(pid) != want {
			t.Errorf("process %d followed: %v", pid, !want)
		}
	}
	if n := len(f.Running()); n != 4 {
		t.Errorf("%d processes running, want 4", n)
	}
}

// TestNumberUsedAgain checks that a process that reuses the ID of a followed process is not followed.
func TestNumberUsedAgain(t *testing.T) {
	tr, other := grow(t), grow(t)
	f := following(t, tr.pid)
	if err := f.Follow(0); err != nil {
		t.Fatal(err)
	}
	_, last := other.fork(t)
	for pid := range 5000 { // the following IDs
		f.set(last+1+pid, 1)
	}
	inner, child := other.fork(t)
	if child <= last || child > last+5000 {
		t.Skip("skipped: process IDs wrapped around")
	}
	if f.wanted(child) {
		t.Errorf("process %d of %d followed: an earlier process with its ID was", child, inner)
	}
}

// TestMissingMember checks that the error names a required member that the kernel lacks.
func TestMissingMember(t *testing.T) {
	b, err := btf.NewBuilder([]btf.Type{&btf.Struct{Name: "task_struct", Size: 8, Members: []btf.Member{{Name: "pid", Type: &btf.Int{Name: "int", Size: 4}}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	types, err := btf.LoadSpecFromReader(strings.NewReader(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := findOffsets(types); err == nil || !strings.Contains(err.Error(), "no member task_struct.tgid") {
		t.Errorf("error = %v", err)
	}
}
