// SPDX-License-Identifier: Apache-2.0

// Costs measures the cost of instructions, helpers, map operations and probes on this machine, and
// writes the table that btc cost uses for its estimates:
//
//	go run ./tests/bench/costs -o cmd/btc/cost/table.json
//	go run ./tests/bench/costs -compare
//
// With -compare, it compares these estimates with the measured cost of the scripts in
// tests/bench/events and examples, and prints the ratios. Both need root, Linux 5.10 and an otherwise
// idle machine. Programs are run with BPF_PROG_TEST_RUN and timed by the kernel's BPF statistics.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"btc/cmd/btc/cost"
	"btc/internal/arch"
	"btc/internal/probe"
)

const command = "go run ./tests/bench/costs -o cmd/btc/cost/table.json"

func main() {
	out := flag.String("o", "", "file of the table; default: standard output")
	compare := flag.Bool("compare", false, "compare estimates with what scripts cost")
	flag.Parse()
	runtime.LockOSThread()
	err := rlimit.RemoveMemlock()
	if err == nil && *compare {
		err = compareAll(os.Stdout, flag.Args())
	} else if err == nil {
		err = table(*out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "costs:", err)
		os.Exit(1)
	}
}

// table measures everything and writes the table.
func table(path string) error {
	m := &meter{}
	t := cost.Table{Measured: machine(), Helpers: map[string][]cost.Point{}, Maps: map[string]map[string][]cost.Point{}}
	if err := m.trapCosts(&t); err != nil { // before the statistics are enabled
		return err
	}
	stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		return fmt.Errorf("BPF statistics: %w", err)
	}
	defer stats.Close()
	if err := m.statistics(&t); err != nil {
		return err
	}
	for _, step := range []func(*cost.Table) error{m.instructions, m.helpers, m.mapOperations} {
		if err := step(&t); err != nil {
			return err
		}
	}
	b, err := json.MarshalIndent(&t, "", " ")
	if err != nil {
		return err
	}
	if b = append(compact(b), '\n'); path == "" {
		_, err = os.Stdout.Write(b)
		return err
	}
	return os.WriteFile(path, b, 0o644)
}

// compact formats the table with one point per line.
func compact(b []byte) []byte {
	return regexp.MustCompile(`\{\s+("bytes": \d+,)?\s*("ns": [\d.]+)\s+\}`).ReplaceAll(b, []byte(`{$1 $2}`))
}

func machine() cost.Machine {
	var u unix.Utsname
	unix.Uname(&u)
	name := "unknown CPU"
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if m := regexp.MustCompile(`model name\s*: (.*)`).FindSubmatch(info); m != nil {
			name = string(m[1])
		}
	}
	release, _, _ := strings.Cut(unix.ByteSliceToString(u.Release[:]), "-") // what follows names a build, which means nothing elsewhere
	return cost.Machine{Kernel: release, CPU: name, Arch: arch.HostLabel(), Command: command}
}

// meter measures the cost of code by running it.
type meter struct{}

// Runs per batch, and batches per measurement: the fastest batch counts.
const (
	runs    = 200
	batches = 30
)

// scratch is the size of the stack area for code: it begins at r10-scratch and is zeroed.
const scratch = 320

// time returns the duration of a raw tracepoint program with the given code, in ns. r6 is its context.
func (m *meter) time(code asm.Instructions, subprograms ...asm.Instruction) (float64, error) {
	all := asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1), asm.Mov.Imm(asm.R0, 0)}
	for off := int16(-scratch); off < 0; off += 8 {
		all = append(all, asm.StoreMem(asm.R10, off, asm.R0, asm.DWord))
	}
	all = append(append(append(all, code...), asm.Mov.Imm(asm.R0, 0), asm.Return()), subprograms...)
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.RawTracepoint, License: "GPL", Instructions: all})
	if err != nil {
		return 0, err
	}
	defer prog.Close()
	return timed(prog, func() error { _, err := prog.Run(&ebpf.RunOptions{}); return err })
}

// timed returns the duration of a program for each call of run.
func timed(prog *ebpf.Program, run func() error) (float64, error) {
	var all []float64
	for range batches {
		before, err := prog.Stats()
		if err != nil {
			return 0, err
		}
		for range runs {
			if err := run(); err != nil {
				return 0, err
			}
		}
		after, err := prog.Stats()
		if err != nil {
			return 0, err
		}
		all = append(all, float64(after.Runtime-before.Runtime)/float64(after.RunCount-before.RunCount))
	}
	return slices.Min(all), nil // without interruptions
}

// each returns the duration of one of n copies of some code, less the cost of the given number of
// instructions around it.
func (m *meter) each(t *cost.Table, n, around int, code func(i int) asm.Instructions) (float64, error) {
	var once asm.Instructions
	for i := range n {
		once = append(once, code(i)...)
	}
	none, err := m.time(nil)
	if err != nil {
		return 0, err
	}
	ns, err := m.time(once)
	if err != nil {
		return 0, err
	}
	return round(max((ns-none)/float64(n)-float64(around)*t.Insn, 0)), nil
}

func round(ns float64) float64 { return float64(int(ns*100+0.5)) / 100 }

// instructions measures each kind of instruction.
func (m *meter) instructions(t *cost.Table) (err error) {
	for _, x := range []struct {
		to   *float64
		code func(i int) asm.Instructions
	}{
		{&t.Insn, func(i int) asm.Instructions {
			return asm.Instructions{asm.Add.Imm(asm.Register(i%2)+asm.R7, 3)} // two dependency chains
		}},
		{&t.Memory, func(i int) asm.Instructions {
			return asm.Instructions{
				asm.StoreMem(asm.R10, int16(-8-8*(i%8)), asm.R1, asm.DWord),
				asm.LoadMem(asm.R1, asm.R10, int16(-8-8*(i%8)), asm.DWord),
			}
		}},
		{&t.Atomic, func(int) asm.Instructions {
			return asm.Instructions{asm.AddAtomic.Mem(asm.R10, asm.R1, asm.DWord, -8)}
		}},
	} {
		code := x.code
		head := func(i int) asm.Instructions {
			if i > 0 {
				return code(i)
			}
			return append(asm.Instructions{
				asm.Mov.Imm(asm.R1, 1), asm.Mov.Imm(asm.R7, 1), asm.Mov.Imm(asm.R8, 1), asm.Mov.Imm(asm.R9, 1),
			}, code(i)...)
		}
		if *x.to, err = m.each(t, 500, 0, head); err != nil {
			return err
		}
	}
	t.Memory = round(t.Memory / 2)
	return m.call(t)
}

// call measures a call of an empty subprogram.
func (m *meter) call(t *cost.Table) error {
	call := asm.Call.Label("nothing")
	calls := func(n int) (float64, error) {
		var all asm.Instructions
		for range n {
			all = append(all, call)
		}
		return m.time(all, asm.Mov.Imm(asm.R0, 0).WithSymbol("nothing"), asm.Return())
	}
	few, err := calls(1)
	if err != nil {
		return err
	}
	many, err := calls(101)
	t.Call = round((many - few) / 100)
	return err
}

// arguments sets up to five arguments of a helper. For an argument of kind frame, a pointer to the
// stack, the value is a negative offset.
type argument struct {
	frame int16
	imm   int32
	m     *ebpf.Map
	ctx   bool
	user  uint64
}

func call(h asm.BuiltinFunc, args ...argument) (code asm.Instructions) {
	for i, a := range args {
		r := asm.R1 + asm.Register(i)
		switch {
		case a.ctx:
			code = append(code, asm.Mov.Reg(r, asm.R6))
		case a.m != nil:
			code = append(code, asm.LoadMapPtr(r, a.m.FD()))
		case a.frame != 0:
			code = append(code, asm.Mov.Reg(r, asm.R10), asm.Add.Imm(r, int32(a.frame)))
		case a.user != 0:
			code = append(code, asm.LoadImm(r, int64(a.user), asm.DWord))
		default:
			code = append(code, asm.Mov.Imm(r, a.imm))
		}
	}
	return append(code, h.Call())
}

// helpers measures helpers with typical arguments; bytes are the sizes for those that copy.
func (m *meter) helpers(t *cost.Table) error {
	text := append([]byte(strings.Repeat("a", 300)), 0)
	text[15] = 0 // a typical length
	pin := &pinned{}
	user, long := pin.text(text), pin.text(append([]byte(strings.Repeat("b", 400)), 0))
	defer pin.done()
	kernel := argument{frame: -scratch}
	type row struct {
		name  string
		bytes int
		code  asm.Instructions
	}
	rows := []row{
		{"get_current_pid_tgid", 0, call(asm.FnGetCurrentPidTgid)},
		{"get_current_uid_gid", 0, call(asm.FnGetCurrentUidGid)},
		{"get_current_task", 0, call(asm.FnGetCurrentTask)},
		{"get_current_task_btf", 0, call(asm.FnGetCurrentTaskBtf)},
		{"get_current_comm", 0, call(asm.FnGetCurrentComm, kernel, argument{imm: 16})},
		{"get_current_cgroup_id", 0, call(asm.FnGetCurrentCgroupId)},
		{"get_current_ancestor_cgroup_id", 0, call(asm.FnGetCurrentAncestorCgroupId, argument{})},
		{"get_ns_current_pid_tgid", 0, call(asm.FnGetNsCurrentPidTgid, argument{imm: 1}, argument{imm: 1}, kernel, argument{imm: 8})},
		{"get_smp_processor_id", 0, call(asm.FnGetSmpProcessorId)},
		{"get_numa_node_id", 0, call(asm.FnGetNumaNodeId)},
		{"get_prandom_u32", 0, call(asm.FnGetPrandomU32)},
		{"ktime_get_ns", 0, call(asm.FnKtimeGetNs)},
		{"ktime_get_boot_ns", 0, call(asm.FnKtimeGetBootNs)},
		{"ktime_get_tai_ns", 0, call(asm.FnKtimeGetTaiNs)},
		{"jiffies64", 0, call(asm.FnJiffies64)},
		{"probe_read_user_str", 16, call(asm.FnProbeReadUserStr, kernel, argument{imm: 256}, argument{user: user})},
		{"probe_read_user_str", 256, call(asm.FnProbeReadUserStr, kernel, argument{imm: 256}, argument{user: long})},
	}
	for _, n := range []int32{8, 64, 256} {
		rows = append(rows,
			row{"probe_read_kernel", int(n), append(asm.Instructions{
				asm.Mov.Reg(asm.R3, asm.R10), asm.Add.Imm(asm.R3, -scratch)}, call(asm.FnProbeReadKernel, kernel, argument{imm: n})...)},
			row{"probe_read", int(n), append(asm.Instructions{
				asm.Mov.Reg(asm.R3, asm.R10), asm.Add.Imm(asm.R3, -scratch)}, call(asm.FnProbeRead, kernel, argument{imm: n})...)},
			row{"probe_read_user", int(n), call(asm.FnProbeReadUser, kernel, argument{imm: n}, argument{user: user})},
		)
	}
	rows = append(rows, row{"probe_read_kernel_str", 16, append(asm.Instructions{
		asm.StoreImm(asm.R10, -8, 0x41414141, asm.Word), asm.Mov.Reg(asm.R3, asm.R10), asm.Add.Imm(asm.R3, -8)},
		call(asm.FnProbeReadKernelStr, kernel, argument{imm: 64})...)})
	for _, r := range rows {
		ns, err := m.each(t, 32, len(r.code)-1, func(int) asm.Instructions { return r.code })
		if err != nil {
			fmt.Fprintf(os.Stderr, "costs: %s: %v\n", r.name, err)
			continue
		}
		t.Helpers[r.name] = append(t.Helpers[r.name], cost.Point{Bytes: r.bytes, NS: ns})
	}
	for name, points := range t.Helpers {
		if len(points) == 1 {
			points[0].Bytes = 0
		}
		t.Helpers[name] = points
	}
	if err := m.stacks(t); err != nil {
		return err
	}
	return m.ringBuffer(t)
}

// stacks measures collecting the stack of this program in a system call.
func (m *meter) stacks(t *cost.Table) error {
	values, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 1024, MaxEntries: 1})
	if err != nil {
		return err
	}
	defer values.Close()
	for name, flags := range map[string]int32{"get_stack": 0, "get_stack user": 1 << 8} {
		code := func(i int) asm.Instructions {
			var all asm.Instructions
			if i == 0 {
				all = append(all, call(asm.FnMapLookupElem, argument{m: values}, argument{frame: -8})...)
				all = append(all, asm.JEq.Imm(asm.R0, 0, "end"), asm.Mov.Reg(asm.R7, asm.R0))
			}
			return append(all, asm.Mov.Reg(asm.R1, asm.R6), asm.Mov.Reg(asm.R2, asm.R7), asm.Mov.Imm(asm.R3, 1016),
				asm.Mov.Imm(asm.R4, flags), asm.FnGetStack.Call())
		}
		last := func(i int) asm.Instructions {
			all := code(i)
			if i == 7 {
				all = append(all, asm.Mov.Imm(asm.R0, 0).WithSymbol("end"))
			}
			return all
		}
		ns, err := m.each(t, 8, 5, last)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		t.Helpers[name] = []cost.Point{{NS: ns}}
	}
	return nil
}

// ringBuffer measures sending records without waking a reader.
func (m *meter) ringBuffer(t *cost.Table) error {
	const noWakeup = 1
	for _, n := range []int32{16, 64, 256} {
		ring, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: 64 << 20})
		if err != nil {
			return err
		}
		label := 0
		reserve, err := m.each(t, 8, 6, func(i int) asm.Instructions {
			label++
			end := fmt.Sprintf("end%d", label)
			code := call(asm.FnRingbufReserve, argument{m: ring}, argument{imm: n}, argument{})
			return append(code, asm.JEq.Imm(asm.R0, 0, end), asm.Mov.Reg(asm.R1, asm.R0), asm.Mov.Imm(asm.R2, noWakeup),
				asm.FnRingbufSubmit.Call(), asm.Mov.Imm(asm.R0, 0).WithSymbol(end))
		})
		ring.Close()
		if err != nil {
			return fmt.Errorf("ringbuf_reserve: %w", err)
		}
		if ring, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: 64 << 20}); err != nil {
			return err
		}
		output, err := m.each(t, 8, 5, func(int) asm.Instructions {
			return call(asm.FnRingbufOutput, argument{m: ring}, argument{frame: -scratch}, argument{imm: n}, argument{imm: noWakeup})
		})
		ring.Close()
		if err != nil {
			return fmt.Errorf("ringbuf_output: %w", err)
		}
		t.Helpers["ringbuf_reserve"] = append(t.Helpers["ringbuf_reserve"], cost.Point{Bytes: int(n), NS: reserve})
		t.Helpers["ringbuf_output"] = append(t.Helpers["ringbuf_output"], cost.Point{Bytes: int(n), NS: output})
	}
	t.Helpers["ringbuf_submit"] = []cost.Point{{NS: 0}} // included in ringbuf_reserve
	t.Helpers["ringbuf_discard"] = []cost.Point{{NS: 0}}
	return nil
}

// mapOperations measures operations on maps with one element.
func (m *meter) mapOperations(t *cost.Table) error {
	for _, x := range []struct {
		name string
		typ  ebpf.MapType
		keys []int32
	}{
		{"array", ebpf.Array, []int32{4}}, {"percpu_array", ebpf.PerCPUArray, []int32{4}},
		{"hash", ebpf.Hash, []int32{4, 8, 24, 64, 256}}, {"percpu_hash", ebpf.PerCPUHash, []int32{4, 8, 24, 64, 256}},
		{"lru_hash", ebpf.LRUHash, []int32{8, 64}}, {"lru_percpu_hash", ebpf.LRUCPUHash, []int32{8, 64}},
	} {
		t.Maps[x.name] = map[string][]cost.Point{}
		for _, key := range x.keys {
			entries := uint32(4096)
			if key == 4 && x.name != "hash" && x.name != "percpu_hash" {
				entries = 1
			}
			values, err := ebpf.NewMap(&ebpf.MapSpec{Type: x.typ, KeySize: uint32(key), ValueSize: 8, MaxEntries: entries})
			if err != nil {
				return err
			}
			update := call(asm.FnMapUpdateElem, argument{m: values}, argument{frame: -scratch}, argument{frame: -16}, argument{})
			one := func(op string, copies, around int, code asm.Instructions) error {
				ns, err := m.each(t, copies, around, func(int) asm.Instructions { return code })
				if err != nil {
					return fmt.Errorf("%s of %s: %w", op, x.name, err)
				}
				p := cost.Point{Bytes: int(key), NS: ns}
				if len(x.keys) == 1 {
					p.Bytes = 0
				}
				t.Maps[x.name][op] = append(t.Maps[x.name][op], p)
				return nil
			}
			if err := one("update", 16, len(update)-1, update); err != nil {
				return err
			}
			lookup := call(asm.FnMapLookupElem, argument{m: values}, argument{frame: -scratch})
			if err := one("lookup", 32, len(lookup)-1, lookup); err != nil {
				return err
			}
			if x.typ != ebpf.Array && x.typ != ebpf.PerCPUArray {
				remove := call(asm.FnMapDeleteElem, argument{m: values}, argument{frame: -scratch})
				if err := one("delete", 16, len(remove)+len(update)-2, append(slices.Clone(update), remove...)); err != nil {
					return err
				}
				// The pair, less the update of an existing element.
				d, u := t.Maps[x.name]["delete"], t.Maps[x.name]["update"]
				d[len(d)-1].NS = round(max(d[len(d)-1].NS-u[len(u)-1].NS, 0))
			}
			values.Close()
		}
	}
	return nil
}

// kinds returns the kinds of probes in the order of the table.
func kinds() []string {
	var all []string
	for _, t := range probe.Types() {
		if t.Runner == probe.Kernel {
			all = append(all, t.Kind)
		}
	}
	return all
}
