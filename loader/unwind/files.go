// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"btc/internal/safefile"
)

// files knows the mapped files and their tables.
type files struct {
	known    map[identity]*file
	made     map[opened]*built
	contents map[[32]byte]*content
	bytes    int      // of all contents
	numbers  []number // free numbers of tables, oldest first
	next     uint32   // the first number that was never used
	limit    uint32

	queue    []*file
	building *file
	builds   sync.WaitGroup
	failed   []*file // whose opening failed a short time ago
	unused   []*file // that are not mapped, and kept for the next process, oldest first
	held     int     // files with in
	spent    budget
	room     int       // bytes that the tables in the kernel may take
	rested   time.Time // when the builder was last used; zero: it has been closed
}

// file is a file that processes have mapped.
type file struct {
	identity
	path   string // the first name, as a process shows it
	refs   int    // mappings
	asked  uint32 // process that asked for its table
	queued bool   // its table is being made
	built  *built // nil: not known yet
	at     time.Time
	// in is the opened file. Where no process maps it, this keeps its inode from being used for another file.
	in *os.File
}

// opened identifies a file and its content, by its descriptor.
type opened struct {
	dev, ino       uint64
	size           int64
	mtime, changed unix.Timespec
}

// built is what is known of a file's content.
type built struct {
	opened
	shape   Table // without chunks
	frames  bool  // all of its code keeps frame pointers
	content *content
	refs    int // files
	used    uint64
}

// content is a table in the kernel. Equal tables of several files exist once.
type content struct {
	hash   [32]byte
	number uint32
	bytes  int
	refs   int // of built
	table  Inner
}

type number struct {
	n  uint32
	at time.Time
}

// Limits of tables.
const (
	maxBytes = 64 << 20 // of all tables in the kernel
	maxBuilt = 8192     // files whose content is known
	// rest is how long the builder's process is kept without work.
	rest = 5 * time.Second
	// maxHeld bounds the files that are kept open, and unusedTime how long if they are not mapped.
	maxHeld    = 256
	unusedTime = 30 * time.Second
	// failPause is how long a file that could not be opened is not tried again.
	failPause = time.Second
)

func (f *files) init(maxTables uint32) {
	f.known, f.made, f.contents = map[identity]*file{}, map[opened]*built{}, map[[32]byte]*content{}
	f.next, f.limit, f.room = 1, maxTables, maxBytes
}

func (f *file) hold() {
	if f != nil {
		f.refs++
	}
}

// done reports whether it is known what table a file has.
func (f *file) done() bool { return f != nil && f.built != nil }

// waiting reports whether a file is to get a table.
func (f *file) waiting() bool { return f != nil && f.built == nil }

// file returns the record of a file. It is kept while it is mapped, and for some time if it has a table.
func (f *files) file(id identity, path string) *file {
	x := f.known[id]
	if x != nil && x.in != nil && x.built != nil {
		if now, err := openedOf(x.in); err != nil || now != x.built.opened { // written since
			delete(f.known, id) // what is mapped already keeps it
			f.close(x)
			x = nil
		}
	}
	if x == nil {
		x = &file{identity: id, path: strings.Clone(path)}
		f.known[id] = x
	}
	return x
}

func (f *files) dropFile(x *file) {
	if x != nil {
		x.refs--
		f.sweepFile(x)
	}
}

// sweepFile drops a file that is not mapped.
func (f *files) sweepFile(x *file) {
	switch {
	case x == nil || x.refs > 0:
	case x.in == nil:
		f.forgetFile(x)
	default:
		x.at = time.Now()
		f.unused = append(slices.DeleteFunc(f.unused, func(o *file) bool { return o == x }), x)
	}
}

func (f *files) close(x *file) {
	if x.in != nil {
		x.in.Close()
		x.in = nil
		f.held--
	}
}

// forgetFile drops a file that is not mapped, or has been dropped already.
func (f *files) forgetFile(x *file) {
	if f.known[x.identity] == x {
		delete(f.known, x.identity)
	}
	if x.built != nil {
		x.built.refs--
		x.built = nil
	}
	f.close(x)
	same := func(o *file) bool { return o == x }
	f.queue, f.failed, f.unused = slices.DeleteFunc(f.queue, same), slices.DeleteFunc(f.failed, same), slices.DeleteFunc(f.unused, same)
}

// keep keeps the opened file of a mapped one, or closes it. A file in memory is not kept, such as the copy of a file that
// may not respond: it can be large, and the inode that a mapping shows is not that of a copy.
func (f *files) keep(x *file, in *os.File) {
	if f.known[x.identity] != x || x.in != nil || safefile.InMemory(in) {
		in.Close()
		return
	}
	if f.held >= maxHeld {
		f.trim(time.Time{}, maxHeld-1)
	}
	if f.held >= maxHeld {
		in.Close()
		return
	}
	x.in = in
	f.held++
}

// trim drops files that have not been mapped since a time, or until at most n are held.
func (f *files) trim(since time.Time, n int) {
	for len(f.unused) > 0 && (f.held > n || f.unused[0].refs > 0 || f.unused[0].at.Before(since)) {
		x := f.unused[0]
		f.unused = f.unused[1:]
		if x.refs == 0 {
			f.forgetFile(x)
		}
	}
}

// release closes all files.
func (f *files) release() {
	for _, x := range f.known {
		if x.in != nil {
			x.in.Close()
		}
	}
	for _, c := range f.contents {
		c.table.Close()
	}
}

// want asks for the table of a file on behalf of a process.
func (k *keeper) want(x *file, tgid uint32) {
	if x == nil || x.built != nil || x.queued {
		return
	}
	x.queued, x.asked = true, tgid
	k.queue = append(k.queue, x)
}

// settled reports whether no table is being made.
func (f *files) settled() bool { return len(f.queue) == 0 && f.building == nil && len(f.failed) == 0 }

// budget limits the CPU time of the builder: a share of one CPU, after a burst at the beginning.
type budget struct {
	left time.Duration
	at   time.Time // when left was computed
}

// Limits of the builder's CPU time.
const (
	budgetBurst = 2 * time.Second
	budgetShare = 4 // a second is regained in so many
)

// wait returns when there is time left.
func (b *budget) wait(now time.Time) time.Time {
	if b.at.IsZero() {
		b.left, b.at = budgetBurst, now
	}
	b.left = min(b.left+now.Sub(b.at)/budgetShare, budgetBurst)
	b.at = now
	if b.left >= 0 {
		return now
	}
	return now.Add(-b.left * budgetShare)
}

// result is what the builder made of a file.
type result struct {
	*file
	in *os.File
	opened
	table *Table
	err   error
	cost  time.Duration
}

// build starts to make the next table, if none is being made and there is time. done gets the result, on another
// goroutine.
func (k *keeper) build(now time.Time, done func(*result)) {
	for k.building == nil && len(k.queue) > 0 && !k.spent.wait(now).After(now) {
		x := k.queue[0]
		k.queue = k.queue[1:]
		in, err := k.open(x)
		if err != nil {
			k.unopened(x, err, now)
			continue
		}
		id, err := openedOf(in)
		if b := k.made[id]; err == nil && b != nil {
			k.settle(x, b)
			k.keep(x, in)
			continue
		}
		k.building, k.rested = x, now
		k.builds.Go(func() {
			before := k.builder.Used()
			table, err := k.builder.Build(in)
			done(&result{x, in, id, table, err, k.builder.Used() - before})
		})
	}
}

func openedOf(f *os.File) (o opened, err error) {
	var st unix.Stat_t
	if err = unix.Fstat(int(f.Fd()), &st); err == nil {
		o = opened{uint64(st.Dev), st.Ino, st.Size, st.Mtim, st.Ctim}
	}
	return o, err
}

// unopened handles a file that could not be opened: for good, or because no process shows it now.
func (k *keeper) unopened(x *file, err error, now time.Time) {
	var system *safefile.FileSystemError
	if errors.Is(err, safefile.ErrNotRegular) || errors.As(err, &system) || errors.Is(err, safefile.ErrNoAnswer) {
		k.settle(x, &built{})
		return
	}
	x.at = now
	k.failed = append(k.failed, x)
}

// finishBuild handles the result of the builder.
func (k *keeper) finishBuild(r *result, now time.Time) {
	x := r.file
	k.building, k.rested, k.tabled = nil, now, now
	k.spent.left -= r.cost
	b := &built{opened: r.opened}
	switch {
	case errors.Is(r.err, ErrNotELF):
		b.frames = true
	case r.err != nil:
	case len(r.table.Chunks) == 0:
		b.frames = r.table.Frames
	default:
		b.content = k.load(r.table.Chunks, now)
		b.shape.Table = r.table.Table
	}
	k.forgetBuilt(maxBuilt - 1)
	if r.opened.ino != 0 {
		k.made[r.opened] = b
	}
	k.settle(x, b)
	k.keep(x, r.in)
}

// settle makes known what a file has, and publishes the processes that have mapped it.
func (k *keeper) settle(x *file, b *built) {
	x.queued = false
	k.clock++
	b.used = k.clock
	if k.known[x.identity] != x { // not mapped any more
		return
	}
	b.refs++
	x.built = b
	for _, p := range k.procs {
		if !k.dirty[p.space] && slices.ContainsFunc(p.maps, func(m mapping) bool { return m.file == x }) {
			k.dirty[p.space] = true
		}
	}
}

// load brings a table to the kernel; nil: its memory is used up.
func (k *keeper) load(chunks [][]byte, now time.Time) *content {
	h := sha256.New()
	size := 0
	for _, c := range chunks {
		h.Write(c)
		size += len(c)
	}
	c := &content{bytes: size, refs: 1}
	h.Sum(c.hash[:0])
	if old := k.contents[c.hash]; old != nil {
		old.refs++
		return old
	}
	if k.bytes+size > k.room {
		k.trim(now, 0)
	}
	for k.bytes+size > k.room || !k.takeNumber(c, now) {
		if !k.forgetBuilt(len(k.made) - 1) {
			k.warn(fmt.Sprintf("WARNING: the tables of all files take more than %s, or are more than %d: stacks in other files are cut, and counted", k.roomText(), k.files.limit-1))
			return nil
		}
	}
	inner, err := k.maps.NewTable(chunks)
	if err == nil {
		if err = k.maps.Tables.Put(c.number, inner); err != nil {
			inner.Close()
		}
	}
	if err != nil {
		k.warn("WARNING: cannot load the table of a file: " + err.Error() + "; stacks in it are cut")
		k.numbers = append(k.numbers, number{c.number, now})
		return nil
	}
	c.table = inner
	k.contents[c.hash] = c
	k.bytes += size
	return c
}

// roomText says how much memory tables may take.
func (f *files) roomText() string {
	if f.room == maxBytes {
		return fmt.Sprintf("%d MiB", maxBytes>>20)
	}
	return fmt.Sprintf("the %d KiB that --max-memory leaves", f.room>>10)
}

// takeNumber gives a table a number that no program can still use for another one.
func (f *files) takeNumber(c *content, now time.Time) bool {
	switch {
	case len(f.numbers) > 0 && now.Sub(f.numbers[0].at) >= reuseAfter:
		c.number = f.numbers[0].n
		f.numbers = f.numbers[1:]
	case f.next < f.limit:
		c.number = f.next
		f.next++
	default:
		return false
	}
	return true
}

// forgetBuilt drops what is known of files that are not mapped, those that were used the longest time ago, until at most
// n are left. It reports whether that many are left.
func (k *keeper) forgetBuilt(n int) bool {
	for len(k.made) > max(n, 0) {
		var oldest *built
		for _, b := range k.made {
			if b.refs == 0 && (oldest == nil || b.used < oldest.used) {
				oldest = b
			}
		}
		if oldest == nil {
			return false
		}
		delete(k.made, oldest.opened)
		c := oldest.content
		if c == nil {
			continue
		}
		if c.refs--; c.refs == 0 {
			k.maps.Tables.Delete(c.number)
			c.table.Close()
			k.forgetChunks(c)
			k.numbers = append(k.numbers, number{c.number, time.Now()})
			delete(k.contents, c.hash)
			k.bytes -= c.bytes
		}
	}
	return len(k.made) <= n
}

// tick lets files be tried again that could not be opened, and ends a builder without work.
func (f *files) tick(k *keeper, now time.Time) {
	n := 0
	for n < len(f.failed) && now.Sub(f.failed[n].at) >= failPause {
		x := f.failed[n]
		x.queued = false
		for _, p := range k.procs {
			if slices.ContainsFunc(p.maps, func(m mapping) bool { return m.file == x }) {
				k.maps.Asked.Delete(askKey(p.tgid))
			}
		}
		n++
	}
	f.failed = slices.Delete(f.failed, 0, n)
	f.trim(now.Add(-unusedTime), maxHeld)
	if f.building == nil && !f.rested.IsZero() && len(f.queue) == 0 && now.Sub(f.rested) >= rest {
		f.rested = time.Time{}
		k.builder.Close()
	}
}

// due returns when tick or build has something to do.
func (f *files) due(now time.Time) (at time.Time, ok bool) {
	switch {
	case f.building != nil:
	case len(f.queue) > 0:
		at = f.spent.wait(now)
	case !f.rested.IsZero():
		at = f.rested.Add(rest)
	}
	if len(f.unused) > 0 {
		if t := f.unused[0].at.Add(unusedTime); at.IsZero() || t.Before(at) {
			at = t
		}
	}
	if len(f.failed) > 0 {
		if t := f.failed[0].at.Add(failPause); at.IsZero() || t.Before(at) {
			at = t
		}
	}
	return at, !at.IsZero()
}

// open opens a mapped file, as a process with the same owner shows it.
func (k *keeper) open(x *file) (*os.File, error) {
	if x.ino != 0 && x.dev == 0 && x.owner == (owner{}) && x.path == "" {
		return openVDSO(x.ino)
	}
	err := error(os.ErrNotExist)
	tries := 0
	for _, p := range k.showing(x) {
		if o, ok := ownerOf(k.proc, p.tgid); !ok || o != x.owner {
			continue
		}
		var in *os.File
		if in, err = k.openFrom(x, p); err == nil {
			return in, nil
		}
		if tries++; tries == maxOpens {
			break
		}
	}
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		if in, err := k.openGone(x); err == nil {
			return in, nil
		}
	}
	return nil, err
}

// openGone opens a file whose processes have exited by its name, as others in the same mount namespace show it: btrun
// itself, or processes of the same user.
func (k *keeper) openGone(x *file) (in *os.File, err error) {
	if !strings.HasPrefix(x.path, "/") || strings.HasPrefix(x.path, "//") {
		return nil, os.ErrNotExist
	}
	var all []string
	if o, ok := ownerOf("/proc", uint32(os.Getpid())); ok && o.space == x.space {
		all = append(all, "/proc/self/root")
	}
	for _, p := range k.procs {
		if len(all) < maxOpens && p.owner == x.owner {
			if o, ok := ownerOf(k.proc, p.tgid); ok && o == x.owner {
				all = append(all, fmt.Sprintf("%s/%d/root", k.proc, p.tgid))
			}
		}
	}
	err = os.ErrNotExist
	for _, root := range all {
		if in, err = safefile.OpenSame(root, x.path, x.ino); err == nil {
			return in, nil
		}
	}
	return nil, err
}

// maxOpens bounds the processes by which a file is tried to be opened at once.
const maxOpens = 4

// showing returns processes that have mapped a file, first the one that asked.
func (k *keeper) showing(x *file) (all []*process) {
	maps := func(p *process) bool {
		return slices.ContainsFunc(p.maps, func(m mapping) bool { return m.file == x })
	}
	if p := k.procs[x.asked]; p != nil && maps(p) {
		all = append(all, p)
	}
	for _, p := range k.procs {
		if p.tgid != x.asked && maps(p) {
			all = append(all, p)
		}
	}
	return all
}

// openFrom opens a file as a process shows it.
func (k *keeper) openFrom(x *file, p *process) (*os.File, error) {
	dir := fmt.Sprintf("%s/%d", k.proc, p.tgid)
	if strings.HasPrefix(x.path, "/") && !strings.HasPrefix(x.path, "//") {
		// Inodes are compared: device numbers of some file systems differ between stat and /proc/PID/maps.
		if in, err := safefile.OpenSame(dir+"/root", x.path, x.ino); err == nil {
			return in, nil
		}
	}
	at, err := k.locate(x, p)
	if err != nil {
		return nil, err
	}
	in, err := safefile.Open(dir + "/map_files/" + at) // deleted files, too
	if err != nil {
		return nil, err
	}
	// In an overlay file system the inode differs, too. If the mapping is still there, what was opened is its file.
	if again, err := k.locate(x, p); err != nil || again != at {
		in.Close()
		return nil, os.ErrNotExist
	}
	return in, nil
}

// locate returns the name in map_files of a mapping of a file.
func (k *keeper) locate(x *file, p *process) (name string, err error) {
	threadTime(func() {
		err = eachRegion(k.proc, p.tgid, func(r *region) bool {
			if r.dev == x.dev && r.ino == x.ino {
				name = fmt.Sprintf("%x-%x", r.start, r.end)
			}
			return name == ""
		})
	})
	if err == nil && name == "" {
		err = os.ErrNotExist
	}
	return name, err
}

// maxVDSO bounds the size of the vDSO, in bytes; it is one or two pages.
const maxVDSO = 1 << 20

// openVDSO returns a copy of the code of size bytes that the kernel maps into each process, as a file.
func openVDSO(size uint64) (*os.File, error) {
	var at uint64
	err := eachRegion("/proc", uint32(os.Getpid()), func(r *region) bool {
		if r.kind == vdso && r.end-r.start == size {
			at = r.start
		}
		return at == 0
	})
	if err != nil || at == 0 || size > maxVDSO {
		return nil, safefile.ErrNotRegular
	}
	mem, err := os.Open("/proc/self/mem")
	if err != nil {
		return nil, err
	}
	defer mem.Close()
	b := make([]byte, size)
	if _, err := io.ReadFull(io.NewSectionReader(mem, int64(at), int64(size)), b); err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("vdso", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "[vdso]")
	if _, err := f.WriteAt(b, 0); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
