// SPDX-License-Identifier: Apache-2.0

package load

import (
	"fmt"

	"btc/internal/manifest"
	"btc/loader/object"
	"btc/loader/sites"
)

// namesMap is the map with the names of probes, by the number of the attach point.
const namesMap = "probe_names"

// maxNameBytes bounds the size of its values in bytes.
const maxNameBytes = 4096

// sizeNames sizes the map for an entry for each attach point.
func sizeNames(o *object.Object, exp *sites.Expansion) error {
	s := o.Spec.Maps[o.Manifest.MapSymbol(namesMap)]
	if s == nil {
		return nil
	}
	if s.KeySize != 4 || s.ValueSize == 0 || s.ValueSize > maxNameBytes {
		return fmt.Errorf("map %s has keys of %d and values of %d bytes, not 4 and 1 to %d", namesMap, s.KeySize,
			s.ValueSize, maxNameBytes)
	}
	s.MaxEntries = uint32(max(1, len(exp.Probes)))
	return nil
}

// fillNames writes the names, each with a NUL.
func (l *Loaded) fillNames(o *manifest.Manifest, exp *sites.Expansion) error {
	m := l.Maps[o.MapSymbol(namesMap)]
	if m == nil {
		return nil
	}
	for id, name := range exp.Probes {
		text := make([]byte, m.ValueSize())
		copy(text[:len(text)-1], name)
		if err := m.Put(uint32(id), text); err != nil {
			return fmt.Errorf("the name of %s: %w", name, err)
		}
	}
	return nil
}
