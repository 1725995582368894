// SPDX-License-Identifier: Apache-2.0

package run

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"btc/internal/manifest"
	"btc/internal/unwind"
)

// Stacks that programs could not unwind have IDs of their own (unwind.Raw), without a length. The loader stores their
// frames with these IDs in the stack maps. Where maps are read, such an ID in a key becomes that of the frames, which a
// program that unwinds the same stack stores: equal stacks are one key of every output.

// isRaw reports whether a stack was sent by a program that could not unwind it.
func isRaw(id uint64) bool { return id != 0 && id&(1<<unwind.StackLenBits-1) == 0 }

// storeStack stores the frames of a stack of a map with a depth.
func (t *mapTable) storeStack(depth int, id uint64, frames []uint64) {
	m := t.open[fmt.Sprintf("ustack_%d", depth)]
	if m == nil || m.ValueSize < 8*len(frames) {
		return
	}
	b := make([]byte, m.ValueSize)
	for i, f := range frames {
		binary.NativeEndian.PutUint64(b[8*i:], f)
	}
	m.Set(binary.NativeEndian.AppendUint64(nil, id), b) // the program has counted it as lost if the map is full
}

// resolvable returns the stacks in the keys of a map that may be those of storeStack.
func (t *mapTable) resolvable(m *manifest.Map) []stackRef {
	if t.await == nil {
		return nil
	}
	keys, _ := refsOf(m)
	return slices.DeleteFunc(keys, func(r stackRef) bool {
		x := t.manifest.Map(r.stack)
		return x == nil || !x.User
	})
}

// canonicalKey replaces the IDs of stacks that programs have not unwound in a key, which it returns.
func (t *mapTable) canonicalKey(refs []stackRef, key []byte) []byte {
	for _, r := range refs {
		if r.off+8 > len(key) {
			continue
		}
		at := key[r.off:]
		if id := binary.NativeEndian.Uint64(at); isRaw(id) {
			binary.NativeEndian.PutUint64(at, t.canonical(r.stack, id))
		}
	}
	return key
}

// canonical returns the ID that a program computes for the frames of a stack.
func (t *mapTable) canonical(stack string, id uint64) uint64 {
	b := t.rawFrames(stack, id)
	var frames []uint64
	for ; len(b) >= 8 && binary.NativeEndian.Uint64(b) != 0; b = b[8:] {
		frames = append(frames, binary.NativeEndian.Uint64(b))
	}
	if len(frames) == 0 {
		return id
	}
	of := unwind.StackID(frames, t.open[stack].ValueSize/8)
	t.known.add(stack, of, id, t.open[stack].MaxEntries)
	return of
}

// rawFrames returns the value of a stack, nil if there is none.
func (t *mapTable) rawFrames(stack string, id uint64) []byte {
	if e, ok, err := t.open[stack].Lookup(binary.NativeEndian.AppendUint64(nil, id)); err == nil && ok {
		return e.Values[0]
	}
	return t.swept.find(stack, id)
}

// aliases are the IDs by which stack maps have stacks whose own IDs they may not have.
type aliases struct {
	mu  sync.Mutex
	all map[string]map[uint64]uint64 // by stack map and ID
}

func (a *aliases) add(stack string, id, other uint64, most int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = map[string]map[uint64]uint64{}
	}
	if of := a.all[stack]; of == nil || len(of) >= 2*most { // older ones are added again when they are read
		a.all[stack] = map[uint64]uint64{}
	}
	a.all[stack][id] = other
}

func (a *aliases) find(stack string, id uint64) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all[stack][id]
}
