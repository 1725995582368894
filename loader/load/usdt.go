// SPDX-License-Identifier: Apache-2.0

package load

import (
	"fmt"

	"btc/internal/manifest"
	"btc/loader/object"
	"btc/loader/sites"
	"btc/loader/usdt"
)

// specsMap has the argument locations of usdt probes, by the number of the attach point.
const specsMap = "usdt_specs"

// sizeSpecs sizes the map for an entry for each attach point.
func sizeSpecs(o *object.Object, exp *sites.Expansion) error {
	s := o.Spec.Maps[o.Manifest.MapSymbol(specsMap)]
	if s == nil {
		return nil
	}
	if s.ValueSize != usdt.MaxArgs*usdt.ArgSize || s.KeySize != 4 {
		return fmt.Errorf("map %s has keys of %d and values of %d bytes, not 4 and %d", specsMap, s.KeySize,
			s.ValueSize, usdt.MaxArgs*usdt.ArgSize)
	}
	for i := range exp.Plans {
		s.MaxEntries += uint32(len(exp.Plans[i].Matches))
	}
	return nil
}

// fillSpecs writes the argument locations.
func (l *Loaded) fillSpecs(o *manifest.Manifest, exp *sites.Expansion) error {
	m := l.Maps[o.MapSymbol(specsMap)]
	if m == nil {
		return nil
	}
	for i := range exp.Plans {
		for j := range exp.Plans[i].Matches {
			match := &exp.Plans[i].Matches[j]
			if match.USDT == nil || match.SameAs > 0 {
				continue
			}
			if err := m.Put(uint32(match.ID), match.USDT); err != nil {
				return fmt.Errorf("arguments of %s: %w", match.Text, err)
			}
		}
	}
	return nil
}
