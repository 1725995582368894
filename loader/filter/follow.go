// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"

	"btc/internal/kernelfs"
	"btc/loader/rewrite"
)

// Forks are followed by a program on the raw tracepoint sched_process_fork, which fires in the
// parent before the child runs. The program sets the byte of the new process to that of its parent.
// So the byte of a process ID is correct whenever a process has that ID, and nothing has to be done
// when a process exits. Processes that a followed process started earlier are found in /proc once
// the program is attached. Until that is done, the byte of process ID noProcess is 1, and the
// program also looks at the ancestors of a parent whose own byte is not set yet.

// noProcess is an ID that no process has.
const noProcess = 0

// maxAncestors bounds the number of ancestors that the program looks at.
const maxAncestors = 16

// Types are the kernel types whose layout LoadTracker needs.
var Types = []string{"task_struct", "pid", "upid", "pid_namespace"}

// offsets are the offsets of members of kernel structures, in bytes.
type offsets struct {
	pid, tgid, parent, leader, threadPID int32 // struct task_struct
	level, numbers                       int32 // struct pid
	nr, inNS, upid                       int32 // struct upid; upid is its size
	inum                                 int32 // struct pid_namespace
}

func findOffsets(types *btf.Spec) (o offsets, err error) {
	for _, want := range []struct {
		to   *int32
		path string
	}{
		{&o.pid, "task_struct.pid"},
		{&o.tgid, "task_struct.tgid"},
		{&o.parent, "task_struct.real_parent"},
		{&o.leader, "task_struct.group_leader"},
		{&o.threadPID, "task_struct.thread_pid"},
		{&o.level, "pid.level"},
		{&o.numbers, "pid.numbers"},
		{&o.nr, "upid.nr"},
		{&o.inNS, "upid.ns"},
		{&o.inum, "pid_namespace.ns.inum"},
	} {
		parts := strings.Split(want.path, ".")
		var s *btf.Struct
		if err := types.TypeByName(parts[0], &s); err != nil {
			return o, fmt.Errorf("the kernel's struct %s: %w", parts[0], err)
		}
		at, ok := offset(s, parts[1:])
		if !ok {
			return o, fmt.Errorf("the kernel has no member %s", want.path)
		}
		*want.to = at
		if parts[0] == "upid" {
			o.upid = int32(s.Size)
		}
	}
	return o, nil
}

// offset returns the offset of a member of a structure; the member may be inside an anonymous one.
func offset(s *btf.Struct, path []string) (int32, bool) {
	for _, m := range s.Members {
		inner, _ := btf.UnderlyingType(m.Type).(*btf.Struct)
		switch {
		case m.Name == path[0] && len(path) == 1:
			return int32(m.Offset.Bytes()), true
		case m.Name == path[0] && inner != nil:
			at, ok := offset(inner, path[1:])
			return int32(m.Offset.Bytes()) + at, ok
		case m.Name == "" && inner != nil:
			if at, ok := offset(inner, path); ok {
				return int32(m.Offset.Bytes()) + at, true
			}
		}
	}
	return 0, false
}

// Follows reports whether processes are followed.
func (f *Filter) Follows() bool { return f != nil && f.follow }

// LoadTracker loads the program that follows forks; types contains Types. Process IDs are those of
// a PID namespace; the zero value is the initial one.
func (f *Filter) LoadTracker(types *btf.Spec, ns kernelfs.Namespace) error {
	o, err := findOffsets(types)
	if err != nil {
		return err
	}
	t := tracker{offsets: o, ns: ns, bytes: f.processes.FD(), size: int32(f.processes.ValueSize())}
	f.tracker, err = ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "btc_follow", Type: ebpf.RawTracepoint, License: "GPL", Instructions: t.program(),
	})
	return err
}

// tracker assembles the program.
type tracker struct {
	offsets
	ns    kernelfs.Namespace
	bytes int // file descriptor of the map
	size  int32
	asm   asm.Instructions
	// failed is the label to which failed reads jump.
	failed string
}

func (t *tracker) emit(ins ...asm.Instruction) { t.asm = append(t.asm, ins...) }

// read copies size bytes at reg+offset to the frame, and jumps to failed on an error.
func (t *tracker) read(to int16, size int32, reg asm.Register, offset int32) {
	t.emit(asm.Mov.Reg(asm.R3, reg), asm.Add.Imm(asm.R3, offset), asm.Mov.Reg(asm.R1, asm.RFP),
		asm.Add.Imm(asm.R1, int32(to)), asm.Mov.Imm(asm.R2, size), asm.FnProbeReadKernel.Call(),
		asm.JNE.Imm(asm.R0, 0, t.failed))
}

// Stack frame of the program.
const (
	word   = -16 // scratch word for reads
	number = -32 // struct upid
)

// process sets r0 to the ID of the process that the task in a register belongs to, and clobbers the
// register. It jumps to other if the process has no ID in the namespace.
func (t *tracker) process(task asm.Register, other string) {
	if t.ns == (kernelfs.Namespace{}) {
		t.read(word, 4, task, t.tgid)
		t.emit(asm.LoadMem(asm.R0, asm.RFP, word, asm.Word))
		return
	}
	t.read(word, 8, task, t.leader)
	t.emit(asm.LoadMem(task, asm.RFP, word, asm.DWord))
	t.read(word, 8, task, t.threadPID)
	t.emit(asm.LoadMem(task, asm.RFP, word, asm.DWord))
	t.read(word, 4, task, t.level)
	// The ID in the innermost namespace is the last of the array.
	t.emit(asm.LoadMem(asm.R1, asm.RFP, word, asm.Word), asm.Mul.Imm(asm.R1, t.upid), asm.Add.Reg(task, asm.R1))
	t.read(number, t.upid, task, t.numbers)
	t.emit(asm.LoadMem(task, asm.RFP, number+int16(t.inNS), asm.DWord))
	t.read(word, 4, task, t.inum)
	t.emit(asm.LoadMem(asm.R1, asm.RFP, word, asm.Word), asm.Mov.Imm32(asm.R2, int32(uint32(t.ns.Ino))),
		asm.JNE.Reg(asm.R1, asm.R2, other), asm.LoadMem(asm.R0, asm.RFP, number+int16(t.nr), asm.Word))
}

// load sets r1 to the address of the byte of process r0, and r0 to its value. It jumps to other if
// the ID is too large.
func (t *tracker) load(other string) {
	t.emit(asm.JGE.Imm(asm.R0, t.size, other), asm.LoadMapValue(asm.R1, t.bytes, 0), asm.Add.Reg(asm.R1, asm.R0),
		asm.LoadMem(asm.R0, asm.R1, 0, asm.Byte))
}

// program is called with the parent and the child as arguments.
func (t *tracker) program() asm.Instructions {
	t.failed = "end"
	t.emit(asm.LoadMem(asm.R9, asm.R1, 0, asm.DWord).WithSymbol("btc_follow"),
		asm.LoadMem(asm.R6, asm.R1, 8, asm.DWord))
	t.read(word, 4, asm.R6, t.pid)
	t.read(word+4, 4, asm.R6, t.tgid)
	t.emit(
		asm.LoadMem(asm.R1, asm.RFP, word, asm.Word),
		asm.LoadMem(asm.R2, asm.RFP, word+4, asm.Word),
		asm.JNE.Reg(asm.R1, asm.R2, "end"), // a new thread
	)
	t.process(asm.R6, "end")
	t.load("end")
	t.failed = "store"
	t.emit(asm.Mov.Reg(asm.R6, asm.R1), asm.Mov.Imm(asm.R7, 0))
	t.emit(rewrite.CurrentProcess(t.ns)...)
	t.emit(asm.JEq.Imm(asm.R0, noProcess, "store")) // the parent is in another namespace
	t.load("store")
	t.emit(asm.Mov.Reg(asm.R7, asm.R0), asm.JNE.Imm(asm.R7, 0, "store"), asm.Mov.Imm(asm.R0, noProcess))
	t.load("store")
	t.emit(asm.JEq.Imm(asm.R0, 0, "store")) // all bytes are up to date
	for range maxAncestors {
		t.read(word, 8, asm.R9, t.parent)
		t.emit(asm.LoadMem(asm.R9, asm.RFP, word, asm.DWord), asm.Mov.Reg(asm.R8, asm.R9))
		t.process(asm.R8, "store")
		t.emit(asm.JEq.Imm(asm.R0, noProcess, "store")) // past the first process
		t.load("store")
		t.emit(asm.Mov.Reg(asm.R7, asm.R0), asm.JNE.Imm(asm.R7, 0, "store"))
	}
	t.emit(asm.StoreMem(asm.R6, 0, asm.R7, asm.Byte).WithSymbol("store"), asm.Mov.Imm(asm.R0, 0).WithSymbol("end"),
		asm.Return())
	return t.asm
}

// Follow starts to follow forks of the selected processes, and adds the processes that they started
// earlier. child is a further selected process, or 0.
func (f *Filter) Follow(child int) error {
	if !f.follow {
		return nil
	}
	if err := f.attach(); err != nil {
		return fmt.Errorf("--follow-forks: %w", err)
	}
	if child != 0 {
		if err := f.set(child, 1); err != nil {
			return err
		}
	}
	for {
		more, err := f.addChildren()
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	return f.set(noProcess, 0)
}

// attach starts to follow forks, including those of processes whose bytes are not yet set from
// their ancestors'.
func (f *Filter) attach() error {
	l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: "sched_process_fork", Program: f.tracker})
	if err != nil {
		return err
	}
	f.link = l
	return f.set(noProcess, 1)
}

// addChildren adds the processes whose parents are followed, and reports whether there were any.
func (f *Filter) addChildren() (more bool, err error) {
	pids, err := allProcesses()
	if err != nil {
		return false, err
	}
	for _, pid := range pids {
		if parent := parentOf(pid); parent != noProcess && f.wanted(parent) && !f.wanted(pid) {
			if err := f.set(pid, 1); err != nil {
				return false, err
			}
			more = true
		}
	}
	return more, nil
}

// wanted reports whether the byte of a process is set.
func (f *Filter) wanted(pid int) bool {
	var b [1]byte
	_, err := f.bytes.ReadAt(b[:], int64(pid))
	return err == nil && b[0] != 0
}

// Running returns the followed processes that have not exited.
func (f *Filter) Running() (pids []int) {
	all, err := allProcesses()
	if err != nil {
		return nil
	}
	for _, pid := range all {
		if f.wanted(pid) && Alive(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// allProcesses returns the process IDs in /proc.
func allProcesses() (pids []int, err error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, err
}

// parentOf returns the parent of a process, or noProcess if it has none in this namespace or has
// exited.
func parentOf(pid int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // "12 (name) S 34 ..."
	if err != nil {
		return noProcess
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 2 {
		return noProcess
	}
	parent, _ := strconv.Atoi(fields[1])
	return parent
}

// maxNumber returns the largest possible process ID plus one.
func maxNumber() (int, error) {
	text, err := os.ReadFile("/proc/sys/kernel/pid_max")
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || n < 1 || n > 1<<22 { // PID_MAX_LIMIT
		return 0, fmt.Errorf("/proc/sys/kernel/pid_max: expected a number up to %d, found %q", 1<<22, text)
	}
	return n, nil
}
