// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// fake returns a ring buffer in ordinary memory, on which the test acts as the kernel.
func fake(t *testing.T, size int) *Reader {
	t.Helper()
	r, err := Open(-1, 0)
	if err != nil {
		t.Fatal(err)
	}
	r.cons, r.prod, r.window, r.size = make([]byte, 8), make([]byte, 8), make([]byte, 2*size), uint64(size)
	t.Cleanup(func() { r.cons, r.prod, r.window = nil, nil, nil; r.Close() })
	return r
}

// put writes a record with flags. It returns false if there is no space.
func (r *Reader) put(flags uint32, b []byte) bool {
	at := atomic.LoadUint64(position(r.prod))
	n := uint64(headerSize + (len(b)+7)&^7)
	if at+n-atomic.LoadUint64(position(r.cons)) > r.size {
		return false
	}
	head := make([]byte, headerSize)
	binary.NativeEndian.PutUint32(head, uint32(len(b))|flags)
	for i, c := range append(head, b...) {
		off := (at + uint64(i)) & (r.size - 1)
		r.window[off], r.window[off+r.size] = c, c // mapped twice, as by the kernel
	}
	atomic.StoreUint64(position(r.prod), at+n)
	return true
}

// TestTurns checks that records of all lengths are read as they were written, while the ring wraps
// around many times.
func TestTurns(t *testing.T) {
	r := fake(t, 4096)
	rnd := rand.New(rand.NewPCG(1, 2))
	var sent [][]byte
	for turn := range 5000 {
		b := bytes.Repeat([]byte{byte(turn)}, rnd.IntN(300))
		if turn%5 == 0 {
			r.put(discardBit, b)
		}
		if r.put(0, b) {
			sent = append(sent, b)
		}
		if turn%3 != 0 {
			continue
		}
		for got := r.Next(); got != nil; got = r.Next() {
			if len(sent) == 0 || !bytes.Equal(got, sent[0]) {
				t.Fatalf("turn %d: read %d bytes, %d records outstanding", turn, len(got), len(sent))
			}
			sent = sent[1:]
		}
		if len(sent) != 0 || r.Waiting() {
			t.Fatalf("turn %d: %d records missing", turn, len(sent))
		}
		if told := atomic.LoadUint64(position(r.cons)); told != r.at {
			t.Fatalf("turn %d: consumer position %d, want %d", turn, told, r.at)
		}
	}
}

// TestBusy checks that a record that is still being written delays the records after it.
func TestBusy(t *testing.T) {
	r := fake(t, 4096)
	r.put(0, []byte("a"))
	r.put(busyBit, []byte("b"))
	r.put(0, []byte("c"))
	if got := r.Next(); string(got) != "a" || r.Busy() {
		t.Errorf("record %q", got)
	}
	if got := r.Next(); got != nil || !r.Busy() || !r.Waiting() {
		t.Errorf("record %q, busy = %v", got, r.Busy())
	}
	if begin := time.Now(); r.Wait(time.Minute) != nil || time.Since(begin) > 10*time.Second {
		t.Error("wait for a record being written took too long")
	}
	binary.NativeEndian.PutUint32(r.window[16:], 1)
	if b, c := string(r.Next()), string(r.Next()); b != "b" || c != "c" || r.Busy() {
		t.Errorf("records %q, %q", b, c)
	}
}

func TestWake(t *testing.T) {
	r := fake(t, 4096)
	begin := time.Now()
	r.Wake() // before the wait
	r.Wait(time.Minute)
	go func() {
		time.Sleep(20 * time.Millisecond)
		r.Wake()
	}()
	r.Wait(time.Minute)
	if d := time.Since(begin); d < 20*time.Millisecond || d > 30*time.Second {
		t.Errorf("two waits took %v", d)
	}
	r.Wait(time.Millisecond)
	r.cons, r.prod, r.window = nil, nil, nil
	r.Close()
	r.Wake() // has no effect after Close
}

// TestKernel checks records and wake-ups of the kernel's own ring buffer.
func TestKernel(t *testing.T) {
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: 4096})
	if err != nil {
		t.Skipf("skipped: cannot create BPF maps: %v", err)
	}
	defer m.Close()
	sender := func(flags int32) *ebpf.Program {
		p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SocketFilter, License: "GPL", Instructions: asm.Instructions{
			asm.LoadMapPtr(asm.R1, m.FD()),
			asm.Mov.Imm(asm.R2, 0x6c6c6568), // "hell"
			asm.StoreMem(asm.RFP, -8, asm.R2, asm.DWord),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, -8),
			asm.Mov.Imm(asm.R3, 4),
			asm.Mov.Imm(asm.R4, flags),
			asm.FnRingbufOutput.Call(),
			asm.Mov.Imm(asm.R0, 0),
			asm.Return(),
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		return p
	}
	const noWakeup, forceWakeup = 1, 2
	quiet, loud := sender(noWakeup), sender(forceWakeup)
	r, err := Open(m.FD(), 4096)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	run := func(p *ebpf.Program, n uint32) {
		if _, err := p.Run(&ebpf.RunOptions{Data: make([]byte, 64), Repeat: n}); err != nil {
			t.Fatal(err)
		}
	}
	total := 0
	for range 50 {
		run(quiet, 20)
		for b := r.Next(); b != nil; b = r.Next() {
			if string(b) != "hell" {
				t.Fatalf("record %q", b)
			}
			total++
		}
	}
	if total != 1000 {
		t.Errorf("read %d records, want 1000", total)
	}
	// Without a wake-up a wait times out; a wake-up ends it.
	run(quiet, 1)
	if begin := time.Now(); r.Wait(30*time.Millisecond) != nil || time.Since(begin) < 25*time.Millisecond {
		t.Error("record without a wake-up ended the wait")
	}
	run(loud, 1)
	if begin := time.Now(); r.Wait(time.Minute) != nil || time.Since(begin) > 30*time.Second {
		t.Error("wake-up did not end the wait")
	}
	if a, b := r.Next(), r.Next(); a == nil || b == nil || r.Next() != nil {
		t.Error("records missing after the waits")
	}
	// Sleep returns immediately if a record is available, and otherwise when one arrives.
	run(quiet, 1)
	begin := time.Now()
	r.Sleep(time.Minute)
	for r.Next() != nil {
	}
	ordinary := sender(0)
	var sent sync.WaitGroup
	defer sent.Wait()
	sent.Go(func() {
		time.Sleep(20 * time.Millisecond)
		if _, err := ordinary.Run(&ebpf.RunOptions{Data: make([]byte, 64)}); err != nil {
			t.Error(err)
		}
	})
	if r.Sleep(time.Minute) != nil || time.Since(begin) > 30*time.Second || r.Next() == nil {
		t.Error("record did not end the sleep")
	}
}

// TestWindow checks that records are the same wherever the mapped window begins and ends.
func TestWindow(t *testing.T) {
	const size = 64 << 10
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: size})
	if err != nil {
		t.Skipf("skipped: cannot create BPF maps: %v", err)
	}
	defer m.Close()
	const length = 1000
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SocketFilter, License: "GPL", Instructions: asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMapPtr(asm.R1, m.FD()),
		asm.Mov.Imm(asm.R2, length),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnRingbufReserve.Call(),
		asm.JEq.Imm(asm.R0, 0, "full"),
		asm.LoadMem(asm.R1, asm.R6, 0, asm.Word), // skb->len
		asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord),
		asm.StoreMem(asm.R0, length-8, asm.R1, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.R0),
		asm.Mov.Imm(asm.R2, 1),
		asm.FnRingbufSubmit.Call(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("full"),
		asm.Return(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, span := range []uint64{4096, 12288, size, 2 * size} {
		r, err := Open(m.FD(), size)
		if err != nil {
			t.Fatal(err)
		}
		r.span = span
		r.move(r.at&(size-1), headerSize)
		for turn := range 20 {
			for i := range 11 {
				if _, err := p.Run(&ebpf.RunOptions{Data: make([]byte, 64+turn+i)}); err != nil {
					t.Fatal(err)
				}
			}
			seen := 0
			end := r.Peek(0, func(b []byte) bool {
				seen++
				return seen < 11
			})
			if seen != 11 || end != r.at+10*(length+headerSize) {
				t.Fatalf("span %d, turn %d: Peek shows %d records up to %d, Next is at %d", span, turn, seen, end, r.at)
			}
			for i := range 11 {
				b := r.Next()
				if want := uint64(64 - 14 + turn + i); len(b) != length || binary.NativeEndian.Uint64(b) != want || binary.NativeEndian.Uint64(b[length-8:]) != want {
					t.Fatalf("span %d, turn %d, record %d: wrong length %d", span, turn, i, len(b))
				}
			}
			if r.Next() != nil {
				t.Fatalf("span %d, turn %d: too many records", span, turn)
			}
		}
		if len(r.window) > int(span)+4096 {
			t.Errorf("window of %d bytes, want %d", len(r.window), span)
		}
		r.Close()
	}
}
