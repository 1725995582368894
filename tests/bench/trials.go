// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// emptied starts a reader that consumes all records of a ring buffer; stop ends it. It does only the
// minimum: wait, and move the consumer position.
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

// Building blocks of the programs. R6 is the context. Stack slots: -8 the index of an array, -16 and
// -24 the key (lowest word first), -32 a value.

type code = asm.Instructions

func join(parts ...code) code { return slices.Concat(parts...) }

// pidKey stores the process ID in R7 and in the first word of the key.
func pidKey(size asm.Size, at int16) code {
	return code{asm.FnGetCurrentPidTgid.Call(), asm.RSh.Imm(asm.R0, 32), asm.Mov.Reg(asm.R7, asm.R0),
		asm.StoreMem(asm.RFP, at, asm.R7, size)}
}

// argKey stores the argument of the system call, which changes each time.
func argKey(at int16) code {
	return code{asm.LoadMem(asm.R7, asm.R6, 16, asm.DWord), asm.StoreMem(asm.RFP, at, asm.R7, asm.DWord)}
}

// commKey stores the name of the thread in the key.
func commKey(at int16) code {
	return code{asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, int32(at)), asm.Mov.Imm(asm.R2, 16), asm.FnGetCurrentComm.Call()}
}

// find looks up the key at stack offset at; the element is in R0.
func find(m *ebpf.Map, at int16) code {
	return code{asm.LoadMapPtr(asm.R1, m.FD()), asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, int32(at)), asm.FnMapLookupElem.Call()}
}

// countIn counts in an element of a hash, and inserts the element if it is missing.
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

// scalar counts in the only element of an array.
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

// counted counts by key in a hash.
func counted(spec ebpf.MapSpec, key code, add code) trial {
	return trial{maps: []ebpf.MapSpec{spec}, code: func(m trialMaps) code { return join(key, countIn(m[0], -24, add)) }}
}

// cached counts by key in a per-CPU cache, and in a hash if another key occupies the slot of the cache.
// If direct, the caches are in one array at a known address, otherwise in a per-CPU array.
func cached(spec ebpf.MapSpec, key code, direct bool) trial {
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

// record sends 24 bytes to a ring buffer: either reserved and filled in place, or copied.
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

// callbackLoop adds up in n iterations of a callback.
func callbackLoop(n int32) trial {
	number := &btf.Int{Name: "long", Size: 8, Encoding: btf.Signed}
	function := func(name string) *btf.Func {
		return &btf.Func{Name: name, Type: &btf.FuncProto{Return: number, Params: []btf.FuncParam{{Name: "a", Type: number}, {Name: "b", Type: number}}}, Linkage: btf.StaticFunc}
	}
	turn := btf.WithFuncMetadata(asm.LoadMem(asm.R3, asm.R2, 0, asm.DWord).WithSymbol("turn"), function("turn"))
	return trial{
		function: function("layout"),
		code: func(trialMaps) code {
			return code{asm.Mov.Imm(asm.R7, 0), asm.StoreMem(asm.RFP, -16, asm.R7, asm.DWord), asm.LoadMem(asm.R7, asm.R6, 16, asm.DWord), asm.StoreMem(asm.RFP, -8, asm.R7, asm.DWord),
				asm.Mov.Imm(asm.R1, n), asm.Instruction{OpCode: asm.LoadImmOp(asm.DWord), Dst: asm.R2, Src: asm.PseudoFunc, Constant: -1}.WithReference("turn"),
				asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, -16), asm.Mov.Imm(asm.R4, 0), asm.FnLoop.Call()}
		},
		after: code{turn, asm.LoadMem(asm.R4, asm.R2, 8, asm.DWord), asm.Mul.Reg(asm.R1, asm.R4), asm.Add.Reg(asm.R3, asm.R1),
			asm.StoreMem(asm.R2, 0, asm.R3, asm.DWord), asm.Mov.Imm(asm.R0, 0), asm.Return()},
	}
}

// inlineLoop adds up in a loop of n iterations within the program.
func inlineLoop(n int32) trial {
	return trial{code: func(trialMaps) code {
		return code{asm.LoadMem(asm.R7, asm.R6, 16, asm.DWord), asm.Mov.Imm(asm.R8, 0), asm.Mov.Imm(asm.R9, 0),
			asm.Mov.Reg(asm.R1, asm.R8).WithSymbol("again"), asm.Mul.Reg(asm.R1, asm.R7), asm.Add.Reg(asm.R9, asm.R1), asm.Add.Imm(asm.R8, 1),
			asm.JLT.Imm(asm.R8, n, "again")}
	}}
}

// log2 finds the highest set bit of the system call's argument, for values of all sizes. Each step
// turns a comparison into a shift amount, or branches.
func log2(bits bool) trial {
	return trial{code: func(trialMaps) code {
		c := code{asm.LoadMem(asm.R7, asm.R6, 16, asm.DWord), asm.LoadImm(asm.R1, 0x1e3779b97f4a7c15, asm.DWord), asm.Mul.Reg(asm.R7, asm.R1),
			asm.Mov.Reg(asm.R1, asm.R7), asm.And.Imm(asm.R1, 63), asm.RSh.Reg(asm.R7, asm.R1), asm.Mov.Imm(asm.R8, 0)}
		for step := int32(5); step >= 0; step-- {
			least := int64(1)<<(1<<step) - 1
			c = append(c, asm.LoadImm(asm.R1, least, asm.DWord))
			if bits {
				c = append(c, asm.Sub.Reg(asm.R1, asm.R7), asm.RSh.Imm(asm.R1, 63), asm.LSh.Imm(asm.R1, step), asm.RSh.Reg(asm.R7, asm.R1), asm.Or.Reg(asm.R8, asm.R1))
				continue
			}
			less := fmt.Sprintf("less%d", step)
			c[len(c)-1] = c[len(c)-1].WithSymbol(fmt.Sprintf("less%d", step+1))
			c = append(c, asm.JLE.Reg(asm.R7, asm.R1, less), asm.RSh.Imm(asm.R7, 1<<step), asm.Or.Imm(asm.R8, 1<<step))
		}
		if !bits {
			c = append(c, asm.Mov.Reg(asm.R0, asm.R8).WithSymbol("less0"))
		}
		return c
	}}
}

// alone marks a program that must not run next to copies of itself, which would warm up the caches.
func alone(t trial) trial {
	t.alone = true
	return t
}

// contests returns all contests, each with the chosen layout first.
func contests() []contest {
	const (
		noPrealloc = 1 // BPF_F_NO_PREALLOC
		noWakeup   = 1 // BPF_RB_NO_WAKEUP
	)
	pid, arg, comm := pidKey(asm.DWord, -24), argKey(-24), commKey(-24)
	perCPU := func(key uint32) ebpf.MapSpec { return hash(ebpf.PerCPUHash, key, 0) }
	return []contest{
		{"a counter per CPU, or one for all with an atomic add", [2]trial{scalar(ebpf.PerCPUArray, plainAdd), scalar(ebpf.Array, atomicAdd)}, true},
		{"counts by pid: a key of 8 bytes or of 4", [2]trial{counted(perCPU(8), pid, plainAdd), counted(perCPU(4), pidKey(asm.Word, -24), plainAdd)}, false},
		{"counts by pid: per-CPU values, or one with an atomic add", [2]trial{counted(perCPU(8), pid, plainAdd), counted(hash(ebpf.Hash, 8, 0), pid, atomicAdd)}, true},
		{"counts by pid: plain or atomic add to the CPU's value", [2]trial{counted(perCPU(8), pid, plainAdd), counted(perCPU(8), pid, atomicAdd)}, false},
		{"counts by pid: elements allocated in advance or when needed", [2]trial{counted(perCPU(8), pid, plainAdd), counted(hash(ebpf.PerCPUHash, 8, noPrealloc), pid, plainAdd)}, false},
		{"counts by pid: hash or LRU hash", [2]trial{counted(perCPU(8), pid, plainAdd), counted(hash(ebpf.LRUCPUHash, 8, 0), pid, plainAdd)}, false},
		{"counts by pid: a per-CPU cache for the hash, or none", [2]trial{cached(perCPU(8), pid, true), counted(perCPU(8), pid, plainAdd)}, true},
		{"counts by comm: a per-CPU cache for the hash, or none", [2]trial{cached(perCPU(16), comm, true), counted(perCPU(16), comm, plainAdd)}, false},
		{"counts by 4096 keys in turn: a per-CPU cache for the hash, or none", [2]trial{alone(cached(perCPU(8), arg, true)), alone(counted(perCPU(8), arg, plainAdd))}, false},
		{"counts by pid: the caches at a known address, or in a per-CPU array", [2]trial{cached(perCPU(8), pid, true), cached(perCPU(8), pid, false)}, true},
		{"a record of 24 bytes: reserved and built in place, or copied", [2]trial{record(true, noWakeup), record(false, noWakeup)}, true},
		{"a record of 24 bytes: no wake-up, or one when the reader waits", [2]trial{record(true, noWakeup), record(true, 0)}, true},
		{"64 iterations of a loop: bpf_loop, or in place", [2]trial{callbackLoop(64), inlineLoop(64)}, true},
		{"bucket of a histogram: by bits, or by compares", [2]trial{log2(true), log2(false)}, true},
	}
}
