// SPDX-License-Identifier: Apache-2.0

package load

import (
	"fmt"
	"math/bits"
	"os"
	"strings"

	"btc/internal/manifest"
	"btc/loader/object"
	"btc/loader/permit"
)

// setConstants writes the user's parameters into the constant sections, and turns the caches on. An object that may be
// replaced has none: its successor cannot use what is in them.
func setConstants(o *object.Object, opts Options) error {
	values := map[string]uint64{}
	for i := range o.Manifest.Maps {
		if f := o.Manifest.Maps[i].Cache; f != nil && f.Enable != "" && opts.Gates == nil {
			values[f.Enable] = 1
		}
	}
	for i := range o.Manifest.Globals {
		g := &o.Manifest.Globals[i]
		v, known := values[g.Name]
		if !known || !strings.HasPrefix(g.Section, ".rodata") {
			continue
		}
		if err := set(o, g.Name, manifest.Number(v, g.Size)); err != nil {
			return err
		}
	}
	for i := range o.Manifest.Params {
		name := o.Manifest.Params[i].Global
		if v, ok := opts.Values[name]; ok {
			if err := set(o, name, v); err != nil {
				return err
			}
		}
	}
	return nil
}

func set(o *object.Object, name string, v []byte) error {
	s := o.Spec.Variables[name]
	if s == nil || int(s.Size()) != len(v) {
		return fmt.Errorf("the object's variable %s does not have %d bytes", name, len(v))
	}
	s.Value = v
	return nil
}

// Bounds of the events ring buffer, in bytes. Programs wake the reader when 64 KiB are unread, so the minimum size
// leaves it time to react.
const (
	minRing     = 256 << 10
	maxRing     = 1 << 30
	defaultRing = 16 << 20 // default unless the script or the user sets another size
	memoryShare = 32       // at most this fraction of the memory by default
)

// minStacks is the size below which no stack table is lowered.
const minStacks = 4096

// sizeStacks sets the number of different stacks that are kept: what the script or the user requests,
// or what the maps of the script may hold, limited to a share of the memory for each table.
func sizeStacks(o *object.Object, memory uint64) {
	for i := range o.Manifest.Maps {
		x := &o.Manifest.Maps[i]
		s := o.Spec.Maps[x.Symbol]
		switch {
		case s == nil || x.Shape != "stack":
		case o.Manifest.Config.MaxStacks > 0:
			s.MaxEntries = uint32(o.Manifest.Config.MaxStacks)
		case memory > 0:
			for s.MaxEntries > minStacks && permit.MapMemory(s, 1) > memory/memoryShare {
				s.MaxEntries = max(s.MaxEntries/2, minStacks)
			}
		}
	}
}

// sizeRing sets the size of the events ring buffer: the pages that the script requests, or a size based on the
// memory; a power of two, as the kernel requires.
func sizeRing(o *object.Object, memory uint64) {
	s := o.Spec.Maps[o.Manifest.MapSymbol("events")]
	if s == nil {
		return
	}
	size := uint64(defaultRing)
	if memory > 0 {
		size = min(size, memory/memoryShare)
	}
	if n := o.Manifest.Config.RingbufPages; n > 0 {
		size = uint64(n) * uint64(os.Getpagesize())
	}
	size = min(max(size, minRing), maxRing)
	s.MaxEntries = uint32(1) << (bits.Len64(size-1) & 31)
}
