// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// fake returns a buffer in ordinary memory, on which the test acts as the kernel.
func fake(size int) *Ring {
	b := make([]byte, dataTail+8+size)
	return &Ring{FD: -1, page: b, data: b[dataTail+8:]}
}

// put writes a record whose header states a size, without regard for space.
func (r *Ring) put(kind uint32, size uint16, body []byte) {
	at := *r.position(dataHead)
	b := binary.NativeEndian.AppendUint32(nil, kind)
	b = binary.NativeEndian.AppendUint16(b, 7)
	b = binary.NativeEndian.AppendUint16(b, size)
	for i, c := range append(b, body...) {
		r.data[(at+uint64(i))%uint64(len(r.data))] = c
	}
	*r.position(dataHead) = at + uint64(headerSize+len(body))
}

func (r *Ring) putAll(kind uint32, body []byte) { r.put(kind, uint16(headerSize+len(body)), body) }

// TestTurns checks that records of all lengths are read as they were written, with headers and bodies that wrap
// around, and that their space is released one by one.
func TestTurns(t *testing.T) {
	r := fake(512)
	*r.position(dataHead), r.head, r.tail = 1<<64-1000, 1<<64-1000, 1<<64-1000 // positions wrap around, too
	rnd := rand.New(rand.NewPCG(1, 2))
	var buf []byte
	for turn := range 5000 {
		var sent [][]byte
		for space := 512; ; {
			b := bytes.Repeat([]byte{byte(turn + len(sent))}, rnd.IntN(100)) // any length: headers wrap around, too
			if space -= headerSize + len(b); space < 0 {
				break
			}
			r.putAll(uint32(turn), b)
			sent = append(sent, b)
		}
		if _, err := r.Next(buf); err != io.EOF {
			t.Fatalf("turn %d: read before Load: %v", turn, err)
		}
		r.Load()
		for i, want := range sent {
			rec, err := r.Next(buf)
			if err != nil || rec.Kind != uint32(turn) || rec.Misc != 7 || !bytes.Equal(rec.Body, want) {
				t.Fatalf("turn %d, record %d: %v, %v; want %v", turn, i, rec, err, want)
			}
			if got := *r.position(dataTail); got != r.tail {
				t.Fatalf("turn %d: tail = %d, want %d", turn, got, r.tail)
			}
			buf = rec.Body
		}
		if _, err := r.Next(buf); err != io.EOF || r.tail != *r.position(dataHead) {
			t.Fatalf("turn %d: %v at the end", turn, err)
		}
	}
}

// TestHostile checks that impossible sizes end the reading of what is in the buffer, and of no more.
func TestHostile(t *testing.T) {
	for _, x := range []struct {
		name string
		put  func(*Ring)
	}{
		{"no size", func(r *Ring) { r.put(9, 0, make([]byte, 8)) }},
		{"shorter than the header", func(r *Ring) { r.put(9, 7, make([]byte, 8)) }},
		{"beyond the head", func(r *Ring) { r.put(9, 24, make([]byte, 8)) }},
		{"larger than the buffer", func(r *Ring) { r.put(9, 65535, make([]byte, 8)) }},
		{"half a header", func(r *Ring) { *r.position(dataHead) += 4 }},
		{"head too far", func(r *Ring) { r.put(9, 520, nil); *r.position(dataHead) += 1 << 20 }},
		{"head goes back", func(r *Ring) { r.put(9, 16, nil); *r.position(dataHead) -= 16 }},
	} {
		r := fake(512)
		x.put(r)
		r.Load()
		if rec, err := r.Next(nil); err == nil || err == io.EOF {
			t.Errorf("%s: %v, %v", x.name, rec, err)
		}
		r.putAll(3, []byte("next"))
		r.Load()
		if rec, err := r.Next(nil); err != nil || string(rec.Body) != "next" {
			t.Errorf("%s: then %v, %v", x.name, rec, err)
		}
	}
}

func sample(size int, data string) []byte {
	return append(binary.NativeEndian.AppendUint32(nil, uint32(size)), data...)
}

func lost(n uint64) []byte { return binary.NativeEndian.AppendUint64(make([]byte, 8), n) }

// TestOutput checks samples and losses of several buffers, and that records that are not whole count as lost.
func TestOutput(t *testing.T) {
	a, b := fake(512), fake(512)
	a.putAll(unix.PERF_RECORD_SAMPLE, sample(4, "a000"))
	a.putAll(unix.PERF_RECORD_LOST, lost(5))
	a.putAll(unix.PERF_RECORD_SAMPLE, sample(3, "a111"))
	b.putAll(unix.PERF_RECORD_SAMPLE, sample(5, "none"))     // longer than the record
	b.putAll(unix.PERF_RECORD_SAMPLE, sample(1<<32-1, "no")) // longer than any
	b.putAll(unix.PERF_RECORD_SAMPLE, []byte("abc"))         // without a size
	b.putAll(unix.PERF_RECORD_LOST, lost(9)[:15])            // without a number
	b.putAll(unix.PERF_RECORD_THROTTLE, sample(4, "none"))
	b.putAll(unix.PERF_RECORD_SAMPLE, sample(0, ""))
	b.putAll(unix.PERF_RECORD_SAMPLE, sample(4, "b000"))
	a.Load()
	b.Load()
	o := &Output{rings: []*Ring{b, a}, left: 2, last: true}
	var got []string
	s, err := o.Next()
	for ; err == nil; s, err = o.Next() {
		got = append(got, string(s))
	}
	if want := []string{"a000", "a11", "", "b000"}; !slices.Equal(got, want) || err != io.EOF {
		t.Errorf("read %q, %v; want %q", got, err, want)
	}
	if o.Lost != 5+3 {
		t.Errorf("%d lost, want 8", o.Lost)
	}
	a.put(unix.PERF_RECORD_SAMPLE, 0, nil)
	a.Load()
	o.left = 2
	if _, err := o.Next(); err == nil || err == io.EOF {
		t.Errorf("impossible record: %v", err)
	}
}

// TestKernel checks samples, waits, losses and the end with the kernel's own buffers.
func TestKernel(t *testing.T) {
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.PerfEventArray, MaxEntries: uint32(ebpf.MustPossibleCPU())})
	if err != nil {
		t.Skipf("skipped: cannot create BPF maps: %v", err)
	}
	defer m.Close()
	const length = 100 // bytes of packet in a sample
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SocketFilter, License: "GPL", Instructions: asm.Instructions{
		asm.LoadMapPtr(asm.R2, m.FD()),
		asm.LoadImm(asm.R3, length<<32|1<<32-1, asm.DWord), // this CPU
		asm.Mov.Imm(asm.R4, 0x6c6c6568),                    // "hell"
		asm.StoreMem(asm.RFP, -8, asm.R4, asm.DWord),
		asm.Mov.Reg(asm.R4, asm.RFP),
		asm.Add.Imm(asm.R4, -8),
		asm.Mov.Imm(asm.R5, 8),
		asm.FnPerfEventOutput.Call(),
		asm.Return(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	packet := bytes.Repeat([]byte("packet"), 50)
	run := func(n uint32) {
		if _, err := p.Run(&ebpf.RunOptions{Data: packet, Repeat: n}); err != nil {
			t.Error(err)
		}
	}
	open := func() *Output {
		t.Helper()
		o, err := OpenOutput(m, 16<<10)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	isSample := func(b []byte) bool {
		return len(b) >= 8+length && string(b[:4]) == "hell" && bytes.Contains(packet, b[8:8+length])
	}

	o := open()
	for range 3000 { // the buffers wrap around many times
		run(1)
		if b, err := o.Next(); err != nil || !isSample(b) {
			t.Fatalf("%q, %v", b, err)
		}
	}
	sent := make(chan bool)
	go func() { // while Next waits
		time.Sleep(20 * time.Millisecond)
		run(1)
		close(sent)
	}()
	if b, err := o.Next(); err != nil || !isSample(b) {
		t.Fatalf("%q, %v", b, err)
	}
	<-sent
	run(10000)
	o.Flush()
	n := 0
	b, err := o.Next()
	for ; err == nil; b, err = o.Next() {
		if !isSample(b) {
			t.Fatalf("sample %d: %q", n, b)
		}
		n++
	}
	if err != io.EOF || n == 0 || n == 10000 {
		t.Errorf("read %d samples up to %v", n, err)
	}
	o.Close()
	o.Flush() // has no effect after Close
	o.Stop()

	// The kernel reports losses with the next record that has space.
	o = open()
	defer o.Close()
	run(10000)
	for o.Lost == 0 && n < 20000 {
		if _, err := o.Next(); err != nil {
			t.Fatal(err)
		}
		run(1)
		n++
	}
	if o.Lost < 5000 || o.Lost > 10000 {
		t.Errorf("%d lost", o.Lost)
	}
	o.Stop() // before Flush: the rest is not read
	o.Flush()
	if _, err := o.Next(); err != io.EOF {
		t.Errorf("after Stop: %v", err)
	}
}

// TestStop checks that Stop ends a wait.
func TestStop(t *testing.T) {
	o := &Output{epoll: -1, event: -1}
	var err error
	if o.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	if o.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	if err := o.poll(o.event); err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	time.AfterFunc(20*time.Millisecond, o.Stop)
	if _, err := o.Next(); err != io.EOF {
		t.Error(err)
	}
}
