package run

import (
	"encoding/binary"

	"btc/loader/bpfmap"
	"btc/loader/manifest"
)

// stackRef is a place in a key or value that holds the id of a stack.
type stackRef struct {
	stack string // the stack map's name
	off   int
}

// stackRefs lists the stacks in an object of a layout at an offset.
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

// refsOf lists the stacks in a map's keys and in its values.
func refsOf(m *manifest.Map) (keys, values []stackRef) {
	if m.Shape == "plain" {
		values = stackRefs(m.Value, m.ValueOff)
	}
	return stackRefs(m.Key, 0), values
}

// sweep frees the stacks that no map holds any more, after m was cleared: without
// it a script that prints and clears would fill its table of stacks. It acts only
// on tables that are more than half full.
func (t *mapTable) sweep(m *manifest.Map) error {
	keys, values := refsOf(m)
	done := map[string]bool{}
	for _, r := range append(keys, values...) {
		if done[r.stack] {
			continue
		}
		done[r.stack] = true
		if err := t.sweepStacks(r.stack); err != nil {
			return err
		}
	}
	return nil
}

func (t *mapTable) sweepStacks(name string) error {
	raw := t.open[name]
	ids, err := raw.Keys()
	if err != nil || len(ids) <= raw.MaxEntries/2 {
		return err
	}
	// A program keeps a stack first and its id in a map afterwards: those that do
	// so now have done both when this returns.
	waitForPrograms()
	used := map[uint64]bool{}
	for _, m := range t.scripts() {
		if err := t.markStacks(m, name, used); err != nil {
			return err
		}
	}
	// A stack that is met again meanwhile is found in the table and not kept anew;
	// the frames of those taken out now stay known here until the next sweep.
	out := map[uint64][]byte{}
	for _, key := range ids {
		id := binary.NativeEndian.Uint64(key)
		if used[id] {
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
	t.swept[name] = out
	return nil
}

// markStacks notes the ids of a stack map that a map of the script holds.
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

// entries reads a map's raw entries; a scalar has one for each slot.
func (t *mapTable) entries(m *manifest.Map) ([]bpfmap.Entry, error) {
	if m.Key != nil {
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
