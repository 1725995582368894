// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"btc/internal/unwind"
)

// world is a fake /proc with fake maps and a fake builder.
type world struct {
	t     *testing.T
	k     keeper
	dir   string
	now   time.Time
	procs map[uint32]uint64
	spans []span
	inner map[uint32][][]byte
	asked map[[2]uint32]bool
	notes []string // warnings

	built  []string // contents of the files that the builder has read
	cost   time.Duration
	closed int
	size   int       // of tables, in chunks
	gone   time.Time // when a process was last made unknown to programs
}

func newWorld(t *testing.T, opts Options) *world {
	w := &world{t: t, dir: t.TempDir(), now: time.Now(), procs: map[uint32]uint64{}, spans: make([]span, 1<<16), inner: map[uint32][][]byte{}, asked: map[[2]uint32]bool{}, size: 2}
	opts.Warn = func(text string) { w.notes = append(w.notes, text) }
	w.k.init(Maps{
		Tables: tables{w}, Procs: procs{w}, Asked: asked{w}, Ranges: spans{w},
		MaxTables: 4096, MaxProcs: 8192, MaxRanges: 1 << 16,
		NewTable: func(chunks [][]byte) (Inner, error) { return &inner{chunks}, nil },
	}, w, opts)
	w.k.proc = w.dir
	return w
}

type (
	tables struct{ *world }
	procs  struct{ *world }
	asked  struct{ *world }
	spans  struct{ *world }
	inner  struct{ chunks [][]byte }
)

func (*inner) Close() error { return nil }
func (x *inner) Lookup(key, value any) error {
	*value.(*[]byte) = x.chunks[key.(uint32)]
	return nil
}

func (w tables) Put(key, value any) error {
	w.inner[key.(uint32)] = value.(*inner).chunks
	return nil
}
func (w tables) Delete(key any) error    { delete(w.inner, key.(uint32)); return nil }
func (w procs) Put(key, value any) error { w.procs[key.(uint32)] = value.(uint64); return nil }
func (w procs) Delete(key any) error {
	delete(w.procs, key.(uint32))
	w.gone = time.Now()
	return nil
}
func (w asked) Put(key, value any) error { panic("not used") }
func (w asked) Delete(key any) error     { delete(w.asked, key.([2]uint32)); return nil }
func (w spans) BatchUpdate(keys, values any, _ *ebpf.BatchOptions) (int, error) {
	for i, n := range keys.([]uint32) {
		w.spans[n] = values.([]span)[i]
	}
	return 0, nil
}

// Build makes a table with the file's content: "elf NAME", "rows NAME", "go", "none"; others are not ELF files.
func (w *world) Build(f *os.File) (*Table, error) {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 100))
	w.built = append(w.built, string(b))
	w.cost += 10 * time.Millisecond
	table := &Table{Table: unwind.Table{Base: 0x400000, Segments: []unwind.Segment{{Offset: 0x1000, Addr: 0x402000, Size: 0x2000}}}}
	switch {
	case err != nil:
		return nil, err
	case bytes.HasPrefix(b, []byte("elf")):
		for range w.size {
			table.Chunks = append(table.Chunks, append(b, make([]byte, unwind.ChunkSize-len(b))...))
		}
		return table, nil
	case bytes.HasPrefix(b, []byte("rows")): // functions of 16 bytes of stack, and one at the end of the segment that ends stacks
		table.Chunks = (&unwind.Table{Rows: []unwind.Row{{PC: 0x2000, Kind: unwind.KindSP, CFA: 2, RA: -1}, {PC: 0x2f00, Kind: unwind.KindEnd}}}).Chunks()
		return table, nil
	case bytes.HasPrefix(b, []byte("go")):
		table.Frames = true
		return table, nil
	case bytes.HasPrefix(b, []byte("none")):
		return nil, errors.New("no table")
	}
	return nil, ErrNotELF
}
func (w *world) Used() time.Duration { return w.cost }
func (w *world) Close()              { w.closed++ }

// write writes a file and returns the rest of its line in maps: device, inode and path.
func (w *world) write(name, content string) string {
	path := filepath.Join(w.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		w.t.Fatal(err)
	}
	return w.line(path)
}

func (w *world) line(path string) string {
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		w.t.Fatal(err)
	}
	// Not the device of stat, as for overlay file systems and btrfs.
	return fmt.Sprintf("fd:07 %d %s", st.Ino, strings.ReplaceAll(path, "\n", `\012`))
}

// process makes a process in /proc.
func (w *world) process(tgid int, maps ...string) {
	dir := filepath.Join(w.dir, fmt.Sprint(tgid))
	os.RemoveAll(dir)
	os.MkdirAll(dir+"/map_files", 0o755)
	os.Symlink("/", dir+"/root")
	os.WriteFile(dir+"/stat", []byte("7 (a ) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 1 0\n"), 0o644)
	if err := os.WriteFile(dir+"/maps", []byte(strings.Join(maps, "\n")+"\n"), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// settle does what is due now.
func (w *world) settle() {
	results := make(chan *result, 1)
	for range 1000 {
		w.k.tick(w.now)
		w.k.build(w.now, func(r *result) { results <- r })
		if w.k.building == nil {
			if len(w.k.reads) == 0 && len(w.k.dirty) == 0 || w.k.timeout(w.now, nil) > 0 {
				return
			}
			continue
		}
		w.k.finishBuild(<-results, w.now)
		w.k.settleRaws(w.now)
	}
	w.t.Fatal("does not settle")
}

func (w *world) ask(tgid uint32, addr uint64) {
	w.asked[askKey(tgid)] = true
	w.k.asked(tgid, addr, w.now)
	w.settle()
	w.sleep(100 * time.Millisecond)
}

func (w *world) sleep(d time.Duration) {
	w.now = w.now.Add(d)
	w.k.settleRaws(w.now)
	w.settle()
}

// lookup describes what a program finds at an address.
func (w *world) lookup(tgid uint32, addr uint64) string {
	v, ok := w.procs[tgid]
	if !ok {
		return "unknown process"
	}
	last := uint64(0)
	found := "unknown code"
	for _, s := range w.spans[uint32(v):][:v>>32] {
		if s.Start < last || s.End <= s.Start {
			w.t.Errorf("ranges of %d are not ascending: %x after %x", tgid, s.Start, last)
		}
		last = s.End
		if addr < s.Start || s.End <= addr {
			continue
		}
		switch {
		case s.Flags == rangeFrames:
			found = "frames"
		case s.Flags == rangeNoTable:
			found = "no table"
		case s.Table == 0:
			found = "not yet"
		default:
			content, _, _ := bytes.Cut(w.inner[s.Table][0], []byte{0})
			found = fmt.Sprintf("%s+%x", content, addr-s.Bias)
		}
	}
	return found
}

func (w *world) expect(tgid uint32, addr uint64, want string) {
	w.t.Helper()
	if got := w.lookup(tgid, addr); got != want {
		w.t.Errorf("process %d, address %x: %s, want %s", tgid, addr, got, want)
	}
}

func TestAsk(t *testing.T) {
	w := newWorld(t, Options{})
	prog, lib := w.write("prog", "elf prog"), w.write("a lib\nwith a newline", "elf lib")
	w.process(7,
		"00400000-00401000 r--p 00000000 "+prog,
		"00401000-00403000 r-xp 00001000 "+prog,
		"10000000-10001000 r-xp 00001000 "+lib,
		"20000000-20002000 rwxp 00000000 00:00 0 ",
		"20002000-20003000 r-xp 00000000 00:00 0 [anon:jit]",
		"30000000-30001000 --xp 00000000 00:00 0 [uprobes]",
		"7f0000000000-7f0000001000 r-xp 00000000 00:00 0 ", // not a 32-bit process
		"40000000-40001000 r-xp 00000000 "+w.write("perf.data", "#!/bin/sh"),
		"50000000-50001000 r-xp 00000000 "+w.write("gopher", "go"),
		"60000000-60001000 r-xp 00000000 "+w.write("asm", "none"),
		"70000000-70001000 r-xp 00005000 "+lib, // in no segment
	)
	os.Symlink(filepath.Join(w.dir, "a lib\nwith a newline"), filepath.Join(w.dir, "7/map_files/10000000-10001000"))
	w.expect(7, 0x401010, "unknown process")
	w.ask(7, 0x10000010)
	w.expect(7, 0x10000010, "elf lib+2010")
	w.expect(7, 0x401010, "elf prog+2010") // the outermost frames are in it
	w.expect(7, 0x402010, "elf prog+3010")
	w.expect(7, 0x400010, "unknown code")
	w.expect(7, 0x20002010, "frames")
	w.expect(7, 0x30000010, "no table")
	w.expect(7, 0x40000010, "not yet")
	w.expect(7, 0x70000010, "no table")
	if len(w.built) != 2 {
		t.Errorf("built %q: nobody asked for the others", w.built)
	}
	if w.asked[askKey(7)] {
		t.Error("the process may not ask again")
	}
	w.process(11, "00401000-00403000 r-xp 00001000 "+w.line(filepath.Join(w.dir, "gopher")), "7ff0f7f00000-7ff0f7f02000 r-xp 00000000 00:00 0 [vdso]")
	w.ask(11, 0x401010)
	if v, ok := w.procs[11]; !ok || v>>32 != 0 {
		t.Errorf("ranges %x of a process that keeps frame pointers, known %t", v, ok)
	}
	for addr, want := range map[uint64]string{0x40000010: "frames", 0x50000010: "frames", 0x60000010: "no table"} {
		w.ask(7, addr)
		w.sleep(time.Second)
		w.expect(7, addr, want)
	}
	w.ask(8, 1) // no such process
	if w.k.procs[8] != nil {
		t.Error("a process that does not exist is kept")
	}
	if w.closed != 0 {
		t.Error("the builder was closed while it was used")
	}
	if w.sleep(rest + time.Second); w.closed != 1 {
		t.Error("a builder without work is kept")
	}
}

// The kernel's records: a child shares the mappings, another program has its own, and an ID is used again.
func TestRecords(t *testing.T) {
	w := newWorld(t, Options{})
	prog, lib := w.write("prog", "elf prog"), w.write("lib", "elf lib")
	w.process(7, "00401000-00403000 r-xp 00001000 "+prog)
	w.ask(7, 0x401010)
	w.k.forked(8, 7, 0)
	w.expect(8, 0x401010, "elf prog+2010") // at once
	if w.procs[8] != w.procs[7] {
		t.Error("a child has ranges of its own")
	}
	region := func(start, end uint64, line string) *region {
		r, ok := parseRegion([]byte(fmt.Sprintf("%x-%x r-xp 00001000 %s", start, end, line)))
		if !ok {
			t.Fatal(line)
		}
		return &r
	}
	w.k.mapped(8, region(0x500000, 0x501000, lib))
	w.sleep(time.Second)
	w.expect(8, 0x500010, "not yet")
	w.expect(7, 0x500010, "unknown code")
	w.ask(8, 0x500010)
	w.sleep(time.Second)
	w.expect(8, 0x500010, "elf lib+2010") // it has exited, and process 7 of the same user shows the file

	w.k.executed(8, 0)
	w.expect(8, 0x401010, "unknown process")
	w.k.mapped(8, region(0x401000, 0x402000, lib)) // a file whose table is there
	w.settle()
	w.sleep(time.Second)
	w.expect(8, 0x401010, "elf lib+2010")
	w.expect(7, 0x401010, "elf prog+2010")

	// A mapping over a part of another one, as after dlclose and dlopen.
	w.k.mapped(7, region(0x402000, 0x403000, lib))
	w.sleep(time.Second)
	w.expect(7, 0x401010, "elf prog+2010")
	w.expect(7, 0x402010, "elf lib+2010")

	w.k.exited(7)
	w.sleep(reuseAfter / 2)
	w.expect(7, 0x401010, "elf prog+2010")
	w.sleep(reuseAfter)
	w.expect(7, 0x401010, "elf prog+2010") // other threads go on: /proc has it
	os.RemoveAll(filepath.Join(w.dir, "7"))
	w.sleep(lingering)
	w.expect(7, 0x401010, "unknown process")

	w.k.exited(8)
	w.k.forked(8, 1, 0) // another process with its ID, of an unknown parent
	w.expect(8, 0x401010, "unknown process")
	w.k.executed(9, 0) // new, seen from its beginning
	w.k.mapped(9, region(0x401000, 0x402000, lib))
	w.sleep(time.Second)
	w.expect(9, 0x401010, "elf lib+2010")
	w.k.mapped(10, region(0x401000, 0x402000, lib)) // its other mappings are not known
	w.settle()
	w.expect(10, 0x401010, "unknown process")
}

// With processes by name, all files of these get tables at the start, and no others.
func TestNamed(t *testing.T) {
	for _, follow := range []bool{false, true} {
		w := newWorld(t, Options{PIDs: []int{7}, Only: true, Follow: follow})
		prog, lib := w.write("prog", "elf prog"), w.write("lib", "elf lib")
		w.process(7, "00401000-00403000 r-xp 00001000 "+prog, "00501000-00503000 r-xp 00001000 "+lib)
		w.process(9, "00401000-00403000 r-xp 00001000 "+prog)
		w.k.name(7)
		if w.k.idle() {
			t.Error("idle before the tables are made")
		}
		w.settle()
		w.sleep(time.Second)
		if !w.k.idle() {
			t.Error("not idle when all tables are made")
		}
		w.expect(7, 0x401010, "elf prog+2010")
		w.expect(7, 0x501010, "elf lib+2010")
		w.k.executed(9, 0)
		w.k.forked(8, 7, 0)
		w.settle()
		w.expect(9, 0x401010, "unknown process")
		w.expect(8, 0x401010, map[bool]string{false: "unknown process", true: "elf prog+2010"}[follow])
		w.ask(9, 0x401010) // but who asks is answered
		w.expect(9, 0x401010, "elf prog+2010")
	}
}

// A file is opened by what a process shows: another file must not get its place, nor one of another user.
func TestOpened(t *testing.T) {
	w := newWorld(t, Options{})
	prog := w.write("prog", "elf prog")
	w.process(7, "00401000-00403000 r-xp 00001000 "+prog)
	path := filepath.Join(w.dir, "prog")
	os.Rename(path, path+".old")
	evil := w.write("prog", "elf evil")
	w.ask(7, 0x401010)
	w.expect(7, 0x401010, "not yet")

	// The mapping itself, of a deleted file or in an overlay file system.
	os.Symlink(path+".old", filepath.Join(w.dir, "7/map_files/401000-403000"))
	w.sleep(2 * failPause)
	w.ask(7, 0x401010)
	w.sleep(time.Second)
	w.expect(7, 0x401010, "elf prog+2010")

	// What changes between two looks is not used.
	w.process(8, "00401000-00403000 r-xp 00001000 "+evil)
	os.Symlink(path+".old", filepath.Join(w.dir, "8/map_files/401000-403000"))
	os.Remove(path)
	w.process(9, "00401000-00403000 r-xp 00001000 "+evil)
	x := w.k.file(identity{dev: 1, ino: 2}, "/nowhere")
	if _, err := w.k.openFrom(x, &process{tgid: 8, space: &space{}}); err == nil {
		t.Error("opened a file that is not mapped")
	}

	if os.Getuid() != 0 {
		t.Skip("skipped: files of other users: not root")
	}
	w.process(10, "00401000-00403000 r-xp 00001000 "+prog)
	os.Chown(filepath.Join(w.dir, "10"), 1000, 1000)
	w.ask(10, 0x401010)
	w.expect(10, 0x401010, "not yet") // its own view of the file is needed
}

// A process with very many mappings costs a bounded time and memory, and others keep theirs.
func TestManyMappings(t *testing.T) {
	w := newWorld(t, Options{})
	prog := w.write("prog", "elf prog")
	w.process(7, "00401000-00403000 r-xp 00001000 "+prog)
	w.ask(7, 0x401010)
	var lines []string
	for i := range 100_000 {
		lines = append(lines, fmt.Sprintf("%x-%x r-xp 00000000 00:00 0 ", 0x10000000+i*0x2000, 0x10001000+i*0x2000))
	}
	lines = append(lines, "7f0000401000-7f0000403000 r-xp 00001000 "+prog)
	for tgid := uint32(100); tgid < 120; tgid++ {
		w.process(int(tgid), lines...)
		w.ask(tgid, 0x10000010)
		if n := len(w.k.procs[tgid].maps); n > maxMappings {
			t.Fatalf("%d mappings are kept", n)
		}
	}
	if w.k.mappings > maxTotal {
		t.Errorf("%d mappings of all processes are kept", w.k.mappings)
	}
	w.expect(7, 0x401010, "elf prog+2010")

	// Mappings that change all the time: what they free is not used for a second, and no range is.
	p := w.k.add(200)
	for i := range uint64(30_000) {
		w.k.mapped(200, &region{start: 0x1000 + i%3000*0x2000, end: 0x2000 + i%3000*0x2000, kind: anonymous})
		if i%100 == 0 {
			w.now = w.now.Add(time.Millisecond)
			w.k.tick(w.now)
		}
	}
	if !p.published {
		t.Error("no room for the process")
	}
	used := map[uint32]bool{}
	for tgid, v := range w.procs {
		for n := uint32(v); n < uint32(v)+uint32(v>>32); n++ {
			if used[n] {
				t.Fatalf("range %d of process %d is also one of another", n, tgid)
			}
			used[n] = true
		}
	}
}

func TestManyProcesses(t *testing.T) {
	w := newWorld(t, Options{})
	prog := w.write("prog", "elf prog")
	for tgid := uint32(1); tgid <= 20_000; tgid++ {
		w.k.executed(tgid, 0)
		r, _ := parseRegion([]byte("00401000-00403000 r-xp 00001000 " + prog))
		w.k.mapped(tgid, &r)
		if tgid%50 == 0 {
			w.now = w.now.Add(50 * time.Millisecond)
			w.k.tick(w.now)
		}
	}
	if len(w.procs) > 8192 || len(w.k.procs) > 8192 {
		t.Errorf("%d processes are kept, %d in the kernel", len(w.k.procs), len(w.procs))
	}
	w.settle()
	w.expect(20_000, 0x401010, "not yet")
	if len(w.notes) == 0 {
		t.Error("no warning")
	}
}

// The ranges of many processes with many mappings: those that are kept have theirs.
func TestManyRanges(t *testing.T) {
	w := newWorld(t, Options{})
	var lines []string
	for i := range maxMappings - 1 {
		lines = append(lines, fmt.Sprintf("%x-%x r-xp 00000000 00:00 0 ", 0x7f0010000000+i*0x2000, 0x7f0010001000+i*0x2000))
	}
	for tgid := uint32(1); tgid <= 30; tgid++ {
		w.process(int(tgid), lines...)
		w.ask(tgid, 0x7f0010000010)
	}
	w.sleep(10 * time.Second)
	for tgid, p := range w.k.procs {
		if !p.published {
			t.Errorf("no ranges for process %d", tgid)
		}
	}
	w.expect(30, 0x7f0010000010, "frames")
}

// The time for which ranges are not used again begins when programs do not find them any more, whatever was done since
// the keeper's last look at the clock.
func TestReleasedLate(t *testing.T) {
	w := newWorld(t, Options{})
	prog := w.write("prog", "elf prog")
	w.process(7, "00401000-00403000 r-xp 00001000 "+prog)
	w.ask(7, 0x401010)
	last := func() time.Time { return w.k.ranges.freed[len(w.k.ranges.freed)-1].at }
	begin := time.Now()
	w.k.publish(w.k.procs[7].space, begin.Add(-reuseAfter))
	if last().Before(begin) {
		t.Error("replaced ranges may be used again too early")
	}
	w.k.executed(7, 0)
	if len(w.k.ranges.freed) == 0 || last().Before(w.gone) {
		t.Error("ranges are released before the process is unknown to programs")
	}
}

// Another mapping at the address of an old one: programs must not use what was there, although not all ranges are written
// at once.
func TestReplaced(t *testing.T) {
	w := newWorld(t, Options{})
	prog, lib, jit := w.write("prog", "elf prog"), w.write("lib", "elf lib"), "00:00 0 "
	line := func(at, file string) string { return at + " r-xp 00001000 " + file }
	before := []string{line("00401000-00403000", prog), line("00501000-00503000", lib), line("7f0000001000-7f0000003000", jit)}
	for _, c := range []struct {
		name, at, file string
		hidden         bool
	}{
		{"another file", "00401000-00403000", lib, true},
		{"another file in a part", "00402000-00403000", lib, true},
		{"code without a file", "00401000-00403000", jit, true},
		{"a file over code without one", "7f0000002000-7f0000004000", lib, true},
		{"the same", "00401000-00403000", prog, false},
		{"code without a file again", "7f0000002000-7f0000004000", jit, false},
		{"a new address", "00601000-00603000", lib, false},
	} {
		for _, how := range []string{"record", "read"} {
			w.process(7, before...)
			w.ask(7, 0x401010)
			w.ask(7, 0x501010)
			w.sleep(time.Second)
			p := w.k.procs[7]
			w.expect(7, 0x401010, "elf prog+2010")
			p.next = w.now.Add(time.Second)
			r, _ := parseRegion([]byte(line(c.at, c.file)))
			if how == "record" {
				w.k.mapped(7, &r)
			} else {
				after := []string{line(c.at, c.file)}
				for _, l := range before {
					if o, _ := parseRegion([]byte(l)); o.end <= r.start || r.end <= o.start {
						after = append(after, l)
					} else if o.start < r.start {
						after = append(after, line(fmt.Sprintf("%x-%x", o.start, r.start), l[strings.LastIndex(l, "00001000 ")+9:]))
					}
				}
				w.process(7, after...)
				w.k.read(p)
			}
			w.k.tick(w.now)
			if _, known := w.procs[7]; known == c.hidden {
				t.Errorf("%s, by a %s: known to programs: %t", c.name, how, known)
			}
			w.k.forked(8, 7, 0)
			if _, known := w.procs[8]; known == c.hidden {
				t.Errorf("%s, by a %s: a child is known to programs: %t", c.name, how, known)
			}
			w.sleep(2 * time.Second)
			if _, known := w.procs[7]; !known {
				t.Errorf("%s, by a %s: not published", c.name, how)
			}
			w.k.forget(w.k.procs[8])
			w.k.forget(p)
		}
	}

	// Without room for a new mapping, the old one is gone all the same.
	var lines []string
	for i := range maxMappings {
		lines = append(lines, fmt.Sprintf("%x-%x r-xp 00001000 %s", 0x401000+i*0x4000, 0x404000+i*0x4000, prog))
	}
	w.process(9, lines...)
	w.ask(9, 0x401010)
	w.sleep(2 * time.Second)
	w.expect(9, 0x401010, "elf prog+2010")
	r, _ := parseRegion([]byte(line("402000-403000", lib)))
	w.k.mapped(9, &r)
	w.sleep(2 * time.Second)
	w.expect(9, 0x402010, "unknown code")
	w.expect(9, 0x405010, "elf prog+2010")
}

// Records of two CPUs come late: the start of a process after that of its program.
func TestLateFork(t *testing.T) {
	for _, opts := range []Options{{}, {PIDs: []int{7}}, {PIDs: []int{7}, Only: true, Follow: true}} {
		w := newWorld(t, opts)
		prog, lib := w.write("prog", "elf prog"), w.write("lib", "elf lib")
		w.process(7, "00401000-00403000 r-xp 00001000 "+prog)
		w.process(8, "00401000-00403000 r-xp 00001000 "+lib)
		for _, pid := range opts.PIDs {
			w.k.name(uint32(pid))
		}
		w.ask(7, 0x401010)
		w.k.executed(8, 20)
		r, _ := parseRegion([]byte("00401000-00403000 r-xp 00001000 " + lib))
		w.k.mapped(8, &r)
		w.k.forked(8, 7, 10)
		w.sleep(time.Second)
		if got := w.lookup(8, 0x401010); got != "not yet" && got != "elf lib+2010" {
			t.Errorf("%+v: the child has %s", opts, got)
		}
		if p := w.k.procs[8]; p == nil || p.named != (len(opts.PIDs) > 0) {
			t.Errorf("%+v: the child is %+v", opts, p)
		}
		w.ask(8, 0x401010)
		w.sleep(time.Second)
		w.expect(8, 0x401010, "elf lib+2010")
		w.k.forked(8, 7, 30) // another process with its ID
		w.expect(8, 0x401010, "elf prog+2010")
	}
}

// A library that is written in place while processes have mapped it: who maps it then gets what it is then.
func TestWritten(t *testing.T) {
	w := newWorld(t, Options{})
	w.process(7, "00401000-00403000 r-xp 00001000 "+w.write("lib", "elf old"))
	w.ask(7, 0x401010)
	old := w.k.procs[7].maps[0].file
	table := old.built
	lib := w.write("lib", "elf newer") // the same inode
	w.process(8, "00401000-00403000 r-xp 00001000 "+lib)
	w.ask(8, 0x401010)
	w.expect(7, 0x401010, "elf old+2010")
	w.expect(8, 0x401010, "elf newer+2010")
	if old.in != nil || w.k.held != 1 || table.refs != 1 {
		t.Errorf("%d files are held, the old one: %t; its table has %d users", w.k.held, old.in != nil, table.refs)
	}
	w.k.forget(w.k.procs[7])
	w.k.forget(w.k.procs[8])
	if table.refs != 0 || len(w.k.known) != 1 {
		t.Errorf("%d users of the old table, %d files known", table.refs, len(w.k.known))
	}
	w.write("lib", "elf newest") // while nobody has mapped it
	w.process(9, "00401000-00403000 r-xp 00001000 "+lib, "00501000-00503000 r-xp 00001000 "+lib)
	w.ask(9, 0x501010)
	w.expect(9, 0x401010, "elf newest+2010")
	w.k.forget(w.k.procs[9])
	w.sleep(time.Since(w.now) + 2*unusedTime)
	w.sleep(2 * unusedTime)
	for _, b := range w.k.made {
		if b.refs != 0 {
			t.Errorf("%d users of a table that is not mapped", b.refs)
		}
	}
	if w.k.held != 0 || len(w.k.known) != 0 {
		t.Errorf("%d files are held, %d known", w.k.held, len(w.k.known))
	}
}

// Nothing says that the code of a JIT compiler in a 32-bit process keeps frame pointers of 8 bytes.
func TestNarrow(t *testing.T) {
	w := newWorld(t, Options{})
	for i, file := range []string{"elf prog", "go"} {
		tgid := uint32(7 + i)
		lines := []string{"00401000-00403000 r-xp 00001000 " + w.write(fmt.Sprint("prog", i), file), "20000000-20002000 r-xp 00000000 00:00 0 "}
		w.process(int(tgid), lines...)
		w.ask(tgid, 0x401010)
		w.expect(tgid, 0x20000010, "no table")
		w.process(int(tgid), append(lines, "7f0000000000-7f0000002000 r-xp 00000000 00:00 0 ")...)
		w.k.forget(w.k.procs[tgid])
		w.ask(tgid, 0x401010)
		if v := w.procs[tgid]; file == "go" && v>>32 == 0 {
			continue // frames everywhere
		}
		w.expect(tgid, 0x20000010, "frames")
	}
}

// A file that cannot be read is not one that keeps frame pointers.
func TestUnreadable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, content := range []string{"", "\x7fE", "\x7fOTHER"} {
		os.WriteFile(path, []byte(content), 0o600)
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := new(parser).Build(f); err == nil || errors.Is(err, ErrNotELF) {
			t.Errorf("%q, unreadable: error %v", content, err)
		}
		f.Close()
		f, err = os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := new(parser).Build(f); !errors.Is(err, ErrNotELF) {
			t.Errorf("%q: error %v", content, err)
		}
		f.Close()
	}
}

// Lost records make all mappings be read again.
func TestLost(t *testing.T) {
	w := newWorld(t, Options{})
	prog, lib := w.write("prog", "elf prog"), w.write("lib", "elf lib")
	w.process(7, "00401000-00403000 r-xp 00001000 "+prog)
	w.process(8, "00401000-00403000 r-xp 00001000 "+prog)
	w.ask(7, 0x401010)
	w.ask(8, 0x401010)
	w.process(7, "00401000-00403000 r-xp 00001000 "+lib)
	os.RemoveAll(filepath.Join(w.dir, "8"))
	w.process(9, "00401000-00403000 r-xp 00001000 "+prog)
	w.k.lost()
	w.sleep(time.Second)
	w.ask(7, 0x401010)
	w.sleep(time.Second)
	w.expect(7, 0x401010, "elf lib+2010")
	w.expect(8, 0x401010, "unknown process")
	w.expect(9, 0x401010, "elf prog+2010")
}

// An address in no mapping makes the mappings be read again, at most once a second.
func TestUnknownAddress(t *testing.T) {
	w := newWorld(t, Options{})
	prog := w.write("prog", "elf prog")
	w.process(7, "00401000-00403000 r-xp 00001000 "+prog)
	w.ask(7, 0x401010)
	w.process(7, "00401000-00403000 r-xp 00001000 "+prog, "00501000-00503000 r-xp 00001000 "+prog)
	w.ask(7, 0x501010)
	w.expect(7, 0x501010, "unknown code")
	w.sleep(2 * mapsPause)
	w.expect(7, 0x501010, "elf prog+2010")
}

// Tables take no more than what a limit of memory leaves.
func TestMemoryLeft(t *testing.T) {
	w := newWorld(t, Options{MaxBytes: 3 * unwind.ChunkSize})
	w.size = 2
	for i := range uint32(2) {
		w.process(int(i), "00401000-00403000 r-xp 00001000 "+w.write(fmt.Sprint("prog", i), fmt.Sprint("elf ", i)))
		w.ask(i, 0x401010)
	}
	w.expect(0, 0x401010, "elf 0+2010")
	w.expect(1, 0x401010, "no table")
	if len(w.notes) != 1 || !strings.Contains(w.notes[0], "that --max-memory leaves") {
		t.Errorf("warnings %q", w.notes)
	}
}

// Tables are bounded: those of files that nobody has mapped make room, others do not.
func TestMemory(t *testing.T) {
	w := newWorld(t, Options{})
	w.size = maxBytes / unwind.ChunkSize / 4 // four tables fit
	for i := range uint32(6) {
		w.process(int(i), "00401000-00403000 r-xp 00001000 "+w.write(fmt.Sprint("prog", i), fmt.Sprint("elf ", i)))
		w.ask(i, 0x401010)
	}
	w.expect(3, 0x401010, "elf 3+2010")
	w.expect(4, 0x401010, "no table")
	if len(w.inner) != 4 || w.k.bytes > maxBytes || len(w.notes) != 1 {
		t.Errorf("%d tables, %d bytes, warnings %q", len(w.inner), w.k.bytes, w.notes)
	}
	number := uint32(0)
	for n, chunks := range w.inner {
		if bytes.HasPrefix(chunks[0], []byte("elf 2")) {
			number = n
		}
	}
	w.k.forget(w.k.procs[2])
	w.process(50, "00401000-00403000 r-xp 00001000 "+w.write("prog50", "elf 50"))
	w.ask(50, 0x401010)
	w.expect(50, 0x401010, "elf 50+2010")
	if _, ok := w.inner[number]; ok {
		t.Error("the number of a table is used again at once")
	}
	// Equal tables are one.
	w.process(51, "00401000-00403000 r-xp 00001000 "+w.write("prog51", "elf 50"))
	w.ask(51, 0x401010)
	w.expect(51, 0x401010, "elf 50+2010")
	if len(w.inner) != 4 {
		t.Errorf("%d tables", len(w.inner))
	}
}

// The builder's CPU time is a share of one CPU.
func TestBudget(t *testing.T) {
	w := newWorld(t, Options{})
	var lines []string
	for i := range 1000 {
		lines = append(lines, fmt.Sprintf("%x-%x r-xp 00001000 %s", 0x401000+i*0x10000, 0x402000+i*0x10000, w.write(fmt.Sprint("lib", i), fmt.Sprint("elf ", i))))
	}
	w.process(7, lines...)
	for range 10 {
		for i := range uint64(1000) {
			w.k.asked(7, 0x401010+i*0x10000, w.now)
		}
		w.sleep(time.Second)
	}
	limit := budgetBurst + 10*time.Second/budgetShare
	if w.cost > limit+20*time.Millisecond || w.cost < limit/2 {
		t.Errorf("the builder took %v in 10 s, the limit is %v", w.cost, limit)
	}
}

func TestVDSO(t *testing.T) {
	if _, err := openVDSO(3); err == nil {
		t.Error("opened a vDSO of 3 bytes")
	}
	var size uint64
	eachRegion("/proc", uint32(os.Getpid()), func(r *region) bool {
		if r.kind == vdso {
			size = r.end - r.start
		}
		return true
	})
	if size == 0 {
		t.Skip("skipped: no vDSO")
	}
	f, err := openVDSO(size)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 4)
	if f.ReadAt(b, 0); string(b) != "\x7fELF" {
		t.Errorf("the vDSO begins with %q", b)
	}
	w := newWorld(t, Options{})
	w.process(7, "f7f00000-f7f02000 r-xp 00000000 00:00 0 [vdso]")
	w.ask(7, 0xf7f00010)
	w.expect(7, 0xf7f00010, "no table") // of a 32-bit process
}

func TestPieces(t *testing.T) {
	now := time.Now()
	p := newPieces(10)
	a, _ := p.take(4, now)
	b, _ := p.take(6, now)
	if _, ok := p.take(1, now); ok {
		t.Error("took more than there is")
	}
	p.release(b, now)
	p.release(a, now.Add(time.Second/2))
	if _, ok := p.take(1, now.Add(reuseAfter-1)); ok {
		t.Error("a piece is used again at once")
	}
	if _, ok := p.take(10, now.Add(2*reuseAfter)); !ok {
		t.Error("the pieces are not joined")
	}
	if _, ok := p.take(0, now); !ok {
		t.Error("no piece of no elements")
	}
}

func FuzzParseRegion(f *testing.F) {
	f.Add([]byte("00400000-00401000 r-xp 00001000 fd:07 12 /a b"))
	f.Add([]byte("7ffc-7ffd r-xp 00000000 00:00 0                          [vdso]"))
	f.Add([]byte("- x x:"))
	f.Fuzz(func(t *testing.T, line []byte) {
		if r, ok := parseRegion(line); ok && r.start >= r.end {
			t.Error(r)
		}
	})
}
