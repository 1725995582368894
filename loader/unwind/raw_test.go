// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"debug/elf"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"btc/internal/unwind"
)

// rawWorld prepares for raw stacks. The frames that are stored are in the result, by ID.
func rawWorld(w *world) map[uint64][]uint64 {
	stored := map[uint64][]uint64{}
	w.k.raws = raws{
		Raw:    Raw{Store: func(_ int, id uint64, frames []uint64) { stored[id] = frames }},
		copies: make([]byte, maxRaws*rawBytes), machine: elf.EM_X86_64, chunks: map[chunk][]unwind.Row{},
	}
	for i := range maxRaws {
		w.k.free = append(w.k.free, i)
	}
	return stored
}

const rawSP = 0x7ffc12345680

// raw returns a stack of a process: the functions whose return addresses are given have 16 bytes each.
func (w *world) raw(id uint64, tgid uint32, pc uint64, callers ...uint64) *raw {
	stack := make([]byte, unwind.RawBelow+16*len(callers)+16)
	for i, c := range callers {
		binary.NativeEndian.PutUint64(stack[unwind.RawBelow+16*i+8:], c)
	}
	copy(stack, "secret")
	return w.k.keepCopy(&unwind.Raw{
		Registers: unwind.Registers{PC: pc, SP: rawSP}, ID: id, Tgid: uint64(tgid), Depth: 127, Reason: unwind.NotYetKnown, From: rawSP - unwind.RawBelow, Stack: stack,
	})
}

// expectRaw checks what became of all stacks that were sent: nothing is left of them.
func (w *world) expectRaw(want map[unwind.Reason]uint64) {
	w.t.Helper()
	for r := range unwind.Reasons {
		if n := w.k.ended[r].Load(); n != want[r] {
			w.t.Errorf("%s: %d stacks, want %d", r, n, want[r])
		}
	}
	if len(w.k.waiting) > 0 || w.k.shots > 0 || len(w.k.free) != maxRaws {
		w.t.Errorf("%d stacks wait, %d mappings are kept, %d of %d copies are free", len(w.k.waiting), w.k.shots, len(w.k.free), maxRaws)
	}
	if slices.ContainsFunc(w.k.copies, func(b byte) bool { return b != 0 }) {
		w.t.Error("a copy was not overwritten")
	}
}

// A process that has exited, or executed another program, before the tables are there.
func TestRawGone(t *testing.T) {
	w := newWorld(t, Options{})
	stored := rawWorld(w)
	prog, lib := w.write("prog", "rows prog"), w.write("lib", "rows lib")
	w.process(7, "00401000-00403000 r-xp 00001000 "+w.write("shell", "rows shell"))
	w.ask(7, 0x401010)
	region := func(line string) *region {
		r, ok := parseRegion([]byte(line))
		if !ok {
			t.Fatal(line)
		}
		return &r
	}
	w.k.forked(8, 7, 1)
	w.k.came(w.raw(1<<11, 8, 0x401010, 0x401f05), w.now) // the table is there
	w.k.executed(8, 2)
	w.k.mapped(8, region("00401000-00402000 r-xp 00001000 "+prog))
	w.k.mapped(8, region("00501000-00502000 r-xp 00001000 "+lib))
	w.k.came(w.raw(2<<11, 8, 0x401010, 0x501020, 0x401030, 0x501f05), w.now)
	early := w.raw(3<<11, 8, 0x501010, 0x401f05)
	early.Frames = []uint64{0x401040}
	w.k.came(early, w.now)
	w.k.executed(8, 3)
	w.k.mapped(8, region("00401000-00402000 r-xp 00001000 "+w.write("other", "elf other")))
	w.k.exited(8)
	if len(stored) != 1 || len(w.k.waiting) != 2 {
		t.Errorf("%d stacks are unwound, %d wait; want 1 and 2", len(stored), len(w.k.waiting))
	}
	w.sleep(time.Second)
	for id, want := range map[uint64][]uint64{1 << 11: {0x401010, 0x401f05}, 2 << 11: {0x401010, 0x501020, 0x401030, 0x501f05}, 3 << 11: {0x401040, 0x501010, 0x401f05}} {
		if !slices.Equal(stored[id], want) {
			t.Errorf("stack %d: %#x, want %#x", id>>11, stored[id], want)
		}
	}
	w.expectRaw(map[unwind.Reason]uint64{unwind.Whole: 3})
	for _, f := range w.k.known {
		if f.refs != 0 && f.path == filepath.Join(w.dir, "lib") {
			t.Error("the mapping of a process that has exited is kept")
		}
	}
}

// A file that cannot be opened, a process that is not known, code in no mapping, and more stacks than are kept.
func TestRawGivenUp(t *testing.T) {
	w := newWorld(t, Options{})
	stored := rawWorld(w)
	w.k.came(w.raw(1<<11, 99, 0x401010), w.now)
	w.expectRaw(map[unwind.Reason]uint64{unwind.NotYetKnown: 1})

	prog, late := w.write("prog", "rows prog"), w.write("late", "rows late")
	w.process(7, "00401000-00403000 r-xp 00001000 "+prog)
	os.Remove(filepath.Join(w.dir, "prog"))
	w.k.came(w.raw(2<<11, 7, 0x401010, 0x401f05), w.now)
	w.sleep(rawTime + time.Second)
	w.expectRaw(map[unwind.Reason]uint64{unwind.NotYetKnown: 2})

	w.process(8, "00401000-00403000 r-xp 00001000 "+late)
	w.k.came(w.raw(3<<11, 8, 0x401010, 0x909090), w.now)
	w.sleep(time.Second)
	w.expectRaw(map[unwind.Reason]uint64{unwind.NotYetKnown: 2, unwind.UnknownCode: 1})
	if !slices.Equal(stored[3<<11], []uint64{0x401010}) {
		t.Errorf("frames %#x", stored[3<<11])
	}

	w.process(9, "00401000-00403000 r-xp 00001000 "+w.write("many", "rows many"))
	for i := range uint64(3 * maxRaws) {
		w.k.came(w.raw((100+i)<<11, 9, 0x401010, 0x401f05), w.now)
	}
	w.sleep(time.Second)
	w.expectRaw(map[unwind.Reason]uint64{unwind.NotYetKnown: 2 + 2*maxRaws, unwind.UnknownCode: 1, unwind.Whole: maxRaws})
}

// A stack does not wait for ever while the tables of other files are made.
func TestRawWaits(t *testing.T) {
	w := newWorld(t, Options{})
	rawWorld(w)
	x := &raw{came: w.now, file: &file{}}
	for _, c := range []struct{ tabled, want time.Duration }{{-time.Second, rawTime}, {time.Second, time.Second + rawTime}, {rawMost - time.Second, rawMost}, {time.Hour, rawMost}} {
		w.k.tabled = x.came.Add(c.tabled)
		if got := w.k.until(x).Sub(x.came); got != c.want {
			t.Errorf("a table was made after %s: it waits %s, want %s", c.tabled, got, c.want)
		}
	}
	w.k.building = x.file
	if got := w.k.until(x).Sub(x.came); got != rawMost {
		t.Errorf("its table is being made: it waits %s", got)
	}
	w.k.building = nil
}

// A process may send anything: each stack is counted once, and nothing is kept.
func TestRawHostile(t *testing.T) {
	w := newWorld(t, Options{})
	rawWorld(w)
	random := rand.New(rand.NewPCG(1, 2))
	w.process(7, "00401000-00403000 r-xp 00001000 "+w.write("prog", "rows prog"), "10000000-10002000 rwxp 00000000 00:00 0 ", "7f0000000000-7f0000001000 r-xp 00000000 00:00 0 ")
	const n = 2000
	for i := range uint64(n) {
		b := make([]byte, unwind.RawSize)
		for j := 0; j < len(b); j += 8 {
			v := random.Uint64()
			switch random.IntN(6) {
			case 0:
				v = 0x401000 + v%0x2000
			case 1:
				v = 0x10000000 + v%0x2000
			case 2:
				v = rawSP + 8*(v%2048)
			case 3:
				v = 0
			}
			binary.NativeEndian.PutUint64(b[j:], v)
		}
		for off, v := range map[int]uint64{unwind.RawID: i << 11, unwind.RawTgid: 7, unwind.RawDepth: 127, unwind.RawSP: rawSP, unwind.RawFrom: rawSP - 128} {
			binary.NativeEndian.PutUint64(b[off:], v)
		}
		r, ok := unwind.ParseRaw(b)
		if !ok {
			t.Fatal("a record is not parsed")
		}
		w.k.came(w.k.keepCopy(r), w.now)
		if i%50 == 0 {
			w.sleep(10 * time.Millisecond)
		}
	}
	w.sleep(rawTime)
	total := uint64(0)
	for r := range unwind.Reasons {
		total += w.k.ended[r].Load()
	}
	if total != n {
		t.Errorf("%d of %d stacks are counted", total, n)
	}
	if len(w.k.waiting) > 0 || len(w.k.free) != maxRaws {
		t.Errorf("%d stacks wait, %d copies are free", len(w.k.waiting), len(w.k.free))
	}
	if _, ok := unwind.ParseRaw(make([]byte, unwind.RawSize-1)); ok {
		t.Error("a short record is parsed")
	}
}
