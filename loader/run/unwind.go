// SPDX-License-Identifier: Apache-2.0

package run

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"

	"btc/internal/kernelfs"
	tables "btc/internal/unwind"
	"btc/loader/load"
	"btc/loader/options"
	"btc/loader/rewrite"
	"btc/loader/symbols"
	"btc/loader/unwind"
)

// walks is what a session needs to unwind user stacks by tables. It is empty if no program does.
type walks struct {
	needs    rewrite.Unwind  // what the object needs in the mode that the options want
	records  *unwind.Records // until unwinder has them
	unwinder *unwind.Unwinder
	counts   *ebpf.Map // of walks, by how they ended
	online   []int
	next     time.Time // when check looks at the CPUs
}

// unwindWanted returns which stacks the options want to be unwound by tables.
func (s *session) unwindWanted() rewrite.Unwind {
	switch s.opts.Unwind {
	case options.UnwindFP:
		return rewrite.UnwindOff
	case options.UnwindDwarf:
		return rewrite.UnwindAll
	}
	return rewrite.UnwindMarked
}

// unwindMode returns which stacks of the object are unwound by tables.
func (s *session) unwindMode() (rewrite.Unwind, error) {
	mode := s.unwindWanted()
	if s.walks.needs == rewrite.UnwindOff {
		if mode == rewrite.UnwindAll && prints(s.manifest, "ustack") {
			s.msg.warn("WARNING: --unwind=dwarf has no effect: the object was compiled with --no-unwind, or by an older btc")
		}
		return rewrite.UnwindOff, nil
	}
	why := "without the process that parses files"
	if !s.opts.NoHelper {
		var err error
		if s.walks.records, err = unwind.OpenRecords(s.host.Online); err == nil {
			return mode, nil
		}
		why = err.Error()
	}
	if mode == rewrite.UnwindAll {
		return rewrite.UnwindOff, fmt.Errorf("--unwind=dwarf: stacks cannot be unwound by tables: %s", why)
	}
	s.msg.warn("WARNING: dw_ustack() follows frame pointers, because stacks cannot be unwound by tables: " + why)
	return rewrite.UnwindOff, nil
}

// openUnwinder starts to answer what programs need to unwind stacks.
func (s *session) openUnwinder() error {
	w := &s.walks
	if w.records == nil {
		return nil
	}
	of := func(name string) (*ebpf.Map, error) {
		m := s.loaded.Maps[s.manifest.MapSymbol(name)]
		if m == nil {
			return nil, fmt.Errorf("the object has no map %s", name)
		}
		return m, nil
	}
	var all [5]*ebpf.Map
	for i, name := range []string{load.UnwindTables, load.UnwindProcs, load.UnwindAsked, load.UnwindRanges, load.UnwindStats} {
		var err error
		if all[i], err = of(name); err != nil {
			return err
		}
	}
	opts := unwind.Options{PIDs: s.opts.PIDs, Only: len(s.opts.PIDs) > 0, Follow: s.opts.FollowForks, MaxBytes: max(s.loaded.MemoryLeft, 1), Warn: s.msg.warn}
	if s.child != nil {
		opts.Child = s.child.PID
	}
	w.counts, w.online = all[4], s.host.Online
	raw, err := s.openRaw()
	if err != nil {
		return err
	}
	builder, err := unwind.NewBuilder(symbols.Process, s.opts.UnwindCache, s.msg.warn)
	if err != nil {
		return fmt.Errorf("--unwind-cache: %w", err)
	}
	w.unwinder, err = unwind.Open(unwind.Maps{
		Tables: all[0], Procs: all[1], Asked: all[2], Ranges: all[3],
		MaxTables: all[0].MaxEntries(), MaxProcs: all[1].MaxEntries(), MaxRanges: all[3].MaxEntries(), NewTable: newUnwindTable,
		Raw: raw,
	}, builder, w.records, opts)
	if err != nil {
		return fmt.Errorf("unwinding stacks: %w", err)
	}
	w.records = nil
	s.maps.await = w.unwinder.Await
	return nil
}

// rawStacks reports whether programs send stacks that they cannot unwind yet.
func (s *session) rawStacks() bool { return s.opts.RawProcess > 0 && s.opts.RawSecond > 0 }

// openRaw prepares for these stacks; nil: there are none.
func (s *session) openRaw() (*unwind.Raw, error) {
	ring, budget := s.loaded.Maps[s.manifest.MapSymbol(load.UnwindRaw)], s.loaded.Maps[s.manifest.MapSymbol(load.UnwindBudget)]
	if !s.rawStacks() || ring == nil || budget == nil { // an older object
		return nil, nil
	}
	b := make([]byte, tables.BudgetSize)
	binary.NativeEndian.PutUint64(b[tables.BudgetSecond:], uint64(s.opts.RawSecond))
	binary.NativeEndian.PutUint64(b[tables.BudgetProcess:], uint64(s.opts.RawProcess))
	if err := budget.Put(uint32(0), b); err != nil {
		return nil, fmt.Errorf("the object's map %s: %w", load.UnwindBudget, err)
	}
	return &unwind.Raw{FD: ring.FD(), Size: int(ring.MaxEntries()), Store: s.maps.storeStack}, nil
}

// newUnwindTable makes an array with the table of a file.
func newUnwindTable(chunks [][]byte) (unwind.Inner, error) {
	m, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: "unwind_table", Type: ebpf.Array, KeySize: 4, ValueSize: tables.ChunkSize, MaxEntries: uint32(len(chunks)), Flags: load.InnerMap,
	})
	if err != nil {
		return nil, err
	}
	for i, c := range chunks {
		if err := m.Put(uint32(i), c); err != nil {
			m.Close()
			return nil, err
		}
	}
	return m, nil
}

// check tells the unwinder of CPUs that came online or went offline.
func (w *walks) check(now time.Time) {
	if w.unwinder == nil || now.Before(w.next) {
		return
	}
	w.next = now.Add(hotplugInterval)
	if online, err := kernelfs.OnlineCPUs(); err == nil && !slices.Equal(online, w.online) {
		w.online = online
		w.unwinder.Online(online)
	}
}

// settle waits until the stacks are unwound that programs have sent.
func (w *walks) settle() { w.unwinder.Settle() }

// close ends the work for programs; their counts stay readable.
func (w *walks) close() {
	w.unwinder.Close()
	w.records.Close()
	w.records = nil
}

// read returns how many walks ended for each reason; nil: none is counted.
func (w *walks) read() []uint64 {
	if w.counts == nil {
		return nil
	}
	out := make([]uint64, tables.Reasons)
	for i := range out {
		var each []uint64
		if w.counts.Lookup(uint32(i), &each) == nil {
			for _, n := range each {
				out[i] += n
			}
		}
	}
	for i, n := range w.unwinder.Ended() {
		out[i] += n
	}
	return out
}

// cutStacks describes the stacks that are not whole; "": there are none.
func cutStacks(counts []uint64) string {
	total, cut := uint64(0), uint64(0)
	var why []string
	for i, n := range counts {
		if total += n; tables.Reason(i) != tables.Whole && n > 0 {
			cut += n
			why = append(why, fmt.Sprintf("%s: %d", tables.Reason(i), n))
		}
	}
	if cut == 0 {
		return ""
	}
	return fmt.Sprintf("WARNING: %d of %d user stacks are cut short (%s)", cut, total, strings.Join(why, ", "))
}

// cutCause is the cause of stacks that were cut for a reason, where losses are counted.
func cutCause(r tables.Reason) string { return "stack " + r.String() }
