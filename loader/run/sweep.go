// SPDX-License-Identifier: Apache-2.0

package run

import (
	"encoding/binary"
	"sync"

	"btc/internal/manifest"
	"btc/loader/bpfmap"
)

// stackRef is the offset of a stack ID in a key or value.
type stackRef struct {
	stack string // the stack map's name
	off   int
}

// stackRefs lists the stack IDs in an object with a layout at an offset.
func stackRefs(l *manifest.Layout, off int) []stackRef {
	if l == nil {
		return nil
	}
	switch l.Kind {
	case "kstack", "ustack":
		return []stackRef{{l.Stack, off}}
	case "tuple", "record":
		var out []stackRef
		for i := range l.Fields {
			out = append(out, stackRefs(&l.Fields[i].Layout, off+l.Fields[i].Off)...)
		}
		return out
	case "array":
		var out []stackRef
		if len(stackRefs(l.Elem, 0)) > 0 {
			for i := range l.Count {
				out = append(out, stackRefs(l.Elem, off+i*l.Elem.Size)...)
			}
		}
		return out
	}
	return nil
}

// refsOf lists the stack IDs in a map's keys and values.
func refsOf(m *manifest.Map) (keys, values []stackRef) {
	if m.Shape == "plain" {
		values = stackRefs(m.Value, m.ValueOff)
	}
	return stackRefs(m.Key, 0), values
}

// sweep frees the stacks that no map refers to any more, after m was cleared. Without it, a script
// that prints and clears would fill its stack table. It acts only on tables that are more than half
// full. queued and done are the printer's item counts.
func (t *mapTable) sweep(m *manifest.Map, queued, done uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next != nil { // programs of its successor use the stacks as well
		return nil
	}
	keys, values := refsOf(m)
	seen := map[string]bool{}
	for _, r := range append(keys, values...) {
		if seen[r.stack] {
			continue
		}
		seen[r.stack] = true
		if !t.swept.trim(r.stack, done) {
			continue // until the printer has caught up
		}
		if err := t.sweepStacks(r.stack, queued); err != nil {
			return err
		}
	}
	return nil
}

// sweepFull frees the stacks of a full table that no map refers to any more: those of keys that were
// deleted, of values that were overwritten, and of output.
func (t *mapTable) sweepFull(stack string, p *printer) error {
	queued, done := p.progress()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next != nil || !t.swept.trim(stack, done) {
		return nil // until the printer has caught up
	}
	return t.sweepStacks(stack, queued)
}

func (t *mapTable) sweepStacks(name string, queued uint64) error {
	raw := t.open[name]
	ids, err := raw.Keys()
	if err != nil || len(ids) <= raw.MaxEntries/2 {
		return err
	}
	// A program stores a stack first and then its ID in a map: programs that are doing so now have
	// done both when this returns.
	waitForPrograms()
	used := map[uint64]bool{}
	for _, m := range t.scripts() {
		if err := t.markStacks(m, name, used); err != nil {
			return err
		}
	}
	// If a stack occurs again in the meantime, the kernel finds it in the table and does not store it
	// again. The frames of removed stacks stay known here until the next sweep.
	out := map[uint64][]byte{}
	for _, key := range ids {
		id := binary.NativeEndian.Uint64(key)
		if used[id] {
			delete(used, id)
			continue
		}
		e, ok, err := raw.Lookup(key)
		if err != nil {
			return err
		}
		if ok {
			out[id] = e.Values[0]
		}
		if err := raw.Delete(key); err != nil {
			return err
		}
	}
	// A program may have found a stack in the table before it was removed, and stored its ID since.
	for id := range used {
		if b := t.swept.find(name, id); b != nil {
			out[id] = b
		}
	}
	t.swept.add(name, sweep{out, queued})
	return nil
}

// sweeps holds the frames of stacks that were removed from the tables. Those of the last sweep are
// kept for earlier events, and older ones until the printer has done what was queued then.
type sweeps struct {
	mu  sync.Mutex
	all map[string][]sweep // keyed by stack map, newest first
}

type sweep struct {
	frames map[uint64][]byte // keyed by stack ID
	at     uint64            // items queued to the printer at the time
}

// maxSweeps bounds the sweeps of a table that are kept while the printer lags.
const maxSweeps = 4

// trim drops the sweeps that are no longer needed once the printer has done that many items. It
// reports whether there is room for another one.
func (s *sweeps) trim(stack string, done uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.all[stack]
	for i := range list {
		if list[i].at <= done {
			list = append([]sweep(nil), list[:i+1]...)
			s.all[stack] = list
			break
		}
	}
	return len(list) < maxSweeps
}

func (s *sweeps) add(stack string, x sweep) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string][]sweep{}
	}
	s.all[stack] = append([]sweep{x}, s.all[stack]...)
}

func (s *sweeps) find(stack string, id uint64) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.all[stack] {
		if b := x.frames[id]; b != nil {
			return b
		}
	}
	return nil
}

// markStacks marks the IDs of a stack map that occur in a map of the script.
func (t *mapTable) markStacks(m *manifest.Map, stack string, used map[uint64]bool) error {
	keys, values := refsOf(m)
	if len(keys)+len(values) == 0 {
		return nil
	}
	entries, err := t.entries(m)
	if err != nil {
		return err
	}
	mark := func(refs []stackRef, b []byte) {
		for _, r := range refs {
			if r.stack == stack && r.off+8 <= len(b) {
				used[binary.NativeEndian.Uint64(b[r.off:])] = true
			}
		}
	}
	for _, e := range entries {
		mark(keys, e.Key)
		for _, v := range e.Values {
			mark(values, v)
		}
	}
	return nil
}

// entries returns a map's raw entries; a scalar has one per slot.
func (t *mapTable) entries(m *manifest.Map) ([]bpfmap.Entry, error) {
	if m.Key != nil || m.Stored != nil {
		return t.open[m.Name].All()
	}
	var out []bpfmap.Entry
	for slot := range uint32(max(m.Gens, 1)) {
		e, ok, err := t.open[m.Name].Lookup(slotKey(slot))
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, e)
		}
	}
	return out, nil
}
