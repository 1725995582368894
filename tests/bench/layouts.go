package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// layouts measures what docs/layouts.md weighs: the layouts that btc chose
// against others that it could have, each as a small program of its own on one
// tracepoint. No compiler has a part in it.
func (b *bench) layouts() error {
	stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		return fmt.Errorf("BPF statistics: %v", err)
	}
	defer stats.Close()
	a := axis{Name: "layouts", Title: "Layouts that were weighed", Sides: [2]string{"chosen", "the other"}}
	turn()
	var clock []float64
	for range b.rounds {
		ns, err := trial{code: func(trialMaps) asm.Instructions { return nil }}.cost()
		if err != nil {
			return fmt.Errorf("an empty program: %v", err)
		}
		clock = append(clock, ns)
	}
	base := summarize(clock).Median
	a.note("cost of an event above an empty program's, which reads %s ns", summarize(clock))
	for _, c := range contests() {
		if !b.matches(c.name) {
			continue
		}
		var costs [2][]float64
		missing := false
		for round := range b.rounds {
			for i := range c.sides {
				k := (i + round) % len(c.sides)
				ns, err := c.sides[k].cost()
				if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.EINVAL) {
					missing = true
					break
				}
				if err != nil {
					return fmt.Errorf("%s: %w", c.name, err)
				}
				costs[k] = append(costs[k], ns-base)
			}
		}
		if missing {
			a.note("%s: this kernel does not take it", c.name)
			continue
		}
		a.add(above(c.name, costs, []float64{4}))
	}
	a.note("a record's cost hangs on its reader, which is woken on the other CPU or on the same")
	b.result.put(a)
	return nil
}

// A contest is between two programs that do the same.
type contest struct {
	name  string
	sides [2]trial // the chosen one first
}

// trial is a program and its maps.
type trial struct {
	maps  []ebpf.MapSpec
	code  func(m trialMaps) asm.Instructions // ends by falling to the exit, or by a jump to "out"
	reads bool                               // someone empties the ring buffer m[0]
}

type trialMaps []*ebpf.Map

// cost is what an event costs in the program of t, in ns, with the clock.
func (t trial) cost() (float64, error) {
	var maps trialMaps
	defer func() {
		for _, m := range maps {
			m.Close()
		}
	}()
	for i := range t.maps {
		m, err := ebpf.NewMap(&t.maps[i])
		if err != nil {
			return 0, err
		}
		maps = append(maps, m)
	}
	code := append(asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)}, t.code(maps)...)
	code = append(code, asm.Mov.Imm(asm.R0, 0).WithSymbol("out"), asm.Return())
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "layout", Type: ebpf.TracePoint, License: "GPL", Instructions: code})
	if err != nil {
		return 0, err
	}
	defer p.Close()
	at, err := link.Tracepoint("syscalls", "sys_enter_getpgid", p, nil)
	if err != nil {
		return 0, err
	}
	defer at.Close()
	if t.reads {
		stop, err := emptied(maps[0])
		if err != nil {
			return 0, err
		}
		defer stop()
	}
	calls(500)
	list := []program{{Program: p}}
	var all []float64
	for tries := 0; len(all) < batches; tries++ {
		before, err := runs(list)
		if err != nil {
			return 0, err
		}
		calls(batchCalls)
		after, err := runs(list)
		if err != nil {
			return 0, err
		}
		if after.count-before.count != batchCalls {
			if tries > 10*batches {
				return 0, fmt.Errorf("%d runs instead of %d", after.count-before.count, batchCalls)
			}
			continue // another process made the same system call
		}
		all = append(all, float64(after.ns-before.ns)/batchCalls)
	}
	return summarize(all).Median, nil
}

// calls makes n system calls whose argument changes.
func calls(n int) {
	for i := range n {
		unix.RawSyscall(unix.SYS_GETPGID, uintptr(1<<22+i&0xfff), 0, 0)
	}
}

// emptied starts a reader that takes everything out of a ring buffer as it comes;
// stop ends it. It does what a reader must, wait and move the consumer's place, and nothing else.
func emptied(ring *ebpf.Map) (stop func(), err error) {
	page := os.Getpagesize()
	consumer, err := unix.Mmap(ring.FD(), 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	producer, err := unix.Mmap(ring.FD(), int64(page), page, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		unix.Munmap(consumer)
		return nil, err
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			default:
			}
			unix.Poll([]unix.PollFd{{Fd: int32(ring.FD()), Events: unix.POLLIN}}, 20)
			to := atomic.LoadUint64((*uint64)(unsafe.Pointer(&producer[0])))
			atomic.StoreUint64((*uint64)(unsafe.Pointer(&consumer[0])), to)
		}
	}()
	return func() {
		close(quit)
		<-done
		unix.Munmap(consumer)
		unix.Munmap(producer)
	}, nil
}

// Pieces of the programs. R6 is the context; slots of the frame: -8 the index of
// an array, -16 and -24 the key (its first word lowest), -32 a value.

type code = asm.Instructions

func join(parts ...code) code { return slices.Concat(parts...) }

// pidKey leaves the process in R7 and in the key's first word.
func pidKey(size asm.Size, at int16) code {
	return code{asm.FnGetCurrentPidTgid.Call(), asm.RSh.Imm(asm.R0, 32), asm.Mov.Reg(asm.R7, asm.R0),
		asm.StoreMem(asm.RFP, at, asm.R7, size)}
}

// argKey does so with the argument of the system call, which changes each time.
func argKey(at int16) code {
	return code{asm.LoadMem(asm.R7, asm.R6, 16, asm.DWord), asm.StoreMem(asm.RFP, at, asm.R7, asm.DWord)}
}

// commKey writes the thread's name to the key.
func commKey(at int16) code {
	return code{asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, int32(at)), asm.Mov.Imm(asm.R2, 16), asm.FnGetCurrentComm.Call()}
}

// find leaves the element of the key at the frame's offset at in R0.
func find(m *ebpf.Map, at int16) code {
	return code{asm.LoadMapPtr(asm.R1, m.FD()), asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, int32(at)), asm.FnMapLookupElem.Call()}
}

// countIn counts in the element of a hash, and makes it when it is missing.
func countIn(m *ebpf.Map, at int16, add code) code {
	return join(find(m, at), code{asm.JEq.Imm(asm.R0, 0, "new")}, add, code{asm.Ja.Label("out"),
		asm.Mov.Imm(asm.R1, 1).WithSymbol("new"), asm.StoreMem(asm.RFP, -32, asm.R1, asm.DWord),
		asm.LoadMapPtr(asm.R1, m.FD()), asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, int32(at)),
		asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, -32), asm.Mov.Imm(asm.R4, 0), asm.FnMapUpdateElem.Call()})
}

var (
	plainAdd  = code{asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord), asm.Add.Imm(asm.R1, 1), asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord)}
	atomicAdd = code{asm.Mov.Imm(asm.R1, 1), asm.StoreXAdd(asm.R0, asm.R1, asm.DWord)}
)

// scalar counts in the one element of an array.
func scalar(kind ebpf.MapType, add code) trial {
	return trial{
		maps: []ebpf.MapSpec{{Type: kind, KeySize: 4, ValueSize: 8, MaxEntries: 1}},
		code: func(m trialMaps) code {
			return join(code{asm.StoreImm(asm.RFP, -8, 0, asm.Word)}, find(m[0], -8), code{asm.JEq.Imm(asm.R0, 0, "out")}, add)
		},
	}
}

func hash(kind ebpf.MapType, key uint32, flags uint32) ebpf.MapSpec {
	return ebpf.MapSpec{Type: kind, KeySize: key, ValueSize: 8, MaxEntries: 4096, Flags: flags}
}

// counted counts by a key in a hash.
func counted(spec ebpf.MapSpec, key code, add code) trial {
	return trial{maps: []ebpf.MapSpec{spec}, code: func(m trialMaps) code { return join(key, countIn(m[0], -24, add)) }}
}

// fronted counts by a key in a table of the CPU, and in the hash behind it where
// another key has the place; direct: the tables lie in one array, whose address
// is known, else in an array of each CPU.
func fronted(spec ebpf.MapSpec, key code, direct bool) trial {
	words := int16(spec.KeySize / 8)
	slot := 8 + 8*int32(words)
	tables := ebpf.MapSpec{Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: uint32(64 * slot), MaxEntries: 1}
	if direct {
		tables = ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: uint32(64 * 64 * slot), MaxEntries: 1}
	}
	return trial{
		maps: []ebpf.MapSpec{spec, tables},
		code: func(m trialMaps) code {
			c := join(key, code{asm.StoreImm(asm.RFP, -8, 0, asm.Word)}, find(m[1], -8), code{asm.JEq.Imm(asm.R0, 0, "out")})
			if direct {
				c = join(key, code{asm.FnGetSmpProcessorId.Call(), asm.JGE.Imm(asm.R0, 64, "behind"), asm.Mul.Imm(asm.R0, 64*slot),
					asm.LoadMapValue(asm.R1, m[1].FD(), 0), asm.Add.Reg(asm.R0, asm.R1)})
			}
			c = append(c, asm.LoadMem(asm.R1, asm.RFP, -24, asm.DWord), asm.Mov.Reg(asm.R3, asm.R1))
			if words == 2 {
				c = append(c, asm.LoadMem(asm.R2, asm.RFP, -16, asm.DWord), asm.Xor.Reg(asm.R3, asm.R2))
			}
			c = append(c, asm.Mul.Imm(asm.R3, 0x61c88647), asm.RSh.Imm(asm.R3, 26), asm.And.Imm(asm.R3, 63), asm.Mul.Imm(asm.R3, slot), asm.Add.Reg(asm.R0, asm.R3),
				asm.LoadMem(asm.R5, asm.R0, 8, asm.DWord), asm.JNE.Reg(asm.R5, asm.R1, "miss"))
			if words == 2 {
				c = append(c, asm.LoadMem(asm.R5, asm.R0, 16, asm.DWord), asm.JNE.Reg(asm.R5, asm.R2, "miss"))
			}
			c = append(c, asm.LoadMem(asm.R4, asm.R0, 0, asm.DWord).WithSymbol("taken"), asm.Add.Imm(asm.R4, 1), asm.StoreMem(asm.R0, 0, asm.R4, asm.DWord), asm.Ja.Label("out"),
				asm.LoadMem(asm.R4, asm.R0, 0, asm.DWord).WithSymbol("miss"), asm.JNE.Imm(asm.R4, 0, "behind"), asm.StoreMem(asm.R0, 8, asm.R1, asm.DWord))
			if words == 2 {
				c = append(c, asm.StoreMem(asm.R0, 16, asm.R2, asm.DWord))
			}
			c = append(c, asm.Ja.Label("taken"))
			behind := countIn(m[0], -24, plainAdd)
			behind[0] = behind[0].WithSymbol("behind")
			return join(c, behind)
		},
	}
}

// record sends 24 bytes to a ring buffer, reserved and built in place or copied.
func record(inPlace bool, flags int32) trial {
	return trial{
		maps:  []ebpf.MapSpec{{Type: ebpf.RingBuf, MaxEntries: 4 << 20}},
		reads: true,
		code: func(m trialMaps) code {
			if inPlace {
				return code{asm.LoadMapPtr(asm.R1, m[0].FD()), asm.Mov.Imm(asm.R2, 24), asm.Mov.Imm(asm.R3, 0), asm.FnRingbufReserve.Call(),
					asm.JEq.Imm(asm.R0, 0, "out"),
					asm.LoadMem(asm.R1, asm.R6, 16, asm.DWord), asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord),
					asm.StoreMem(asm.R0, 8, asm.R1, asm.DWord), asm.StoreMem(asm.R0, 16, asm.R1, asm.DWord),
					asm.Mov.Reg(asm.R1, asm.R0), asm.Mov.Imm(asm.R2, flags), asm.FnRingbufSubmit.Call()}
			}
			return code{asm.LoadMem(asm.R1, asm.R6, 16, asm.DWord), asm.StoreMem(asm.RFP, -24, asm.R1, asm.DWord),
				asm.StoreMem(asm.RFP, -16, asm.R1, asm.DWord), asm.StoreMem(asm.RFP, -8, asm.R1, asm.DWord),
				asm.LoadMapPtr(asm.R1, m[0].FD()), asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -24), asm.Mov.Imm(asm.R3, 24),
				asm.Mov.Imm(asm.R4, flags), asm.FnRingbufOutput.Call()}
		},
	}
}

// contests lists what is weighed, the chosen layout first.
func contests() []contest {
	const (
		noPrealloc = 1 // BPF_F_NO_PREALLOC
		noWakeup   = 1 // BPF_RB_NO_WAKEUP
	)
	pid, arg, comm := pidKey(asm.DWord, -24), argKey(-24), commKey(-24)
	perCPU := func(key uint32) ebpf.MapSpec { return hash(ebpf.PerCPUHash, key, 0) }
	return []contest{
		{"a counter of each CPU, or one for all with an atomic add", [2]trial{scalar(ebpf.PerCPUArray, plainAdd), scalar(ebpf.Array, atomicAdd)}},
		{"counts by pid: a key of 8 bytes or of 4", [2]trial{counted(perCPU(8), pid, plainAdd), counted(perCPU(4), pidKey(asm.Word, -24), plainAdd)}},
		{"counts by pid: values of each CPU, or one with an atomic add", [2]trial{counted(perCPU(8), pid, plainAdd), counted(hash(ebpf.Hash, 8, 0), pid, atomicAdd)}},
		{"counts by pid: plain or atomic add to the CPU's value", [2]trial{counted(perCPU(8), pid, plainAdd), counted(perCPU(8), pid, atomicAdd)}},
		{"counts by pid: elements made beforehand or when needed", [2]trial{counted(perCPU(8), pid, plainAdd), counted(hash(ebpf.PerCPUHash, 8, noPrealloc), pid, plainAdd)}},
		{"counts by pid: hash or LRU hash", [2]trial{counted(perCPU(8), pid, plainAdd), counted(hash(ebpf.LRUCPUHash, 8, 0), pid, plainAdd)}},
		{"counts by pid: a table in front of the hash, or none", [2]trial{fronted(perCPU(8), pid, true), counted(perCPU(8), pid, plainAdd)}},
		{"counts by comm: a table in front of the hash, or none", [2]trial{fronted(perCPU(16), comm, true), counted(perCPU(16), comm, plainAdd)}},
		{"counts by 4096 keys in turn: a table in front of the hash, or none", [2]trial{fronted(perCPU(8), arg, true), counted(perCPU(8), arg, plainAdd)}},
		{"counts by pid: the tables at a known address, or in an array of each CPU", [2]trial{fronted(perCPU(8), pid, true), fronted(perCPU(8), pid, false)}},
		{"a record of 24 bytes: reserved and built in place, or copied", [2]trial{record(true, noWakeup), record(false, noWakeup)}},
		{"a record of 24 bytes: no wake-up, or one when the reader waits", [2]trial{record(true, noWakeup), record(true, 0)}},
	}
}
