// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"maps"
	"slices"
	"strconv"

	backendmanifest "btc/backend/manifest"
	"btc/frontend/check"
	"btc/internal/manifest"
	"btc/ir"
)

// fixed are the parameters whose values are compiled into the code.
type fixed struct {
	values map[int]string
	named  map[string]string
	count  string // "" if the loader knows the number of parameters
}

func (in Input) newFixed() *fixed {
	f := &fixed{values: map[int]string{}, named: map[string]string{}}
	if in.FixAll {
		for i, v := range in.Params {
			f.values[i+1] = v
		}
		f.count = strconv.Itoa(len(in.Params))
	}
	return f
}

// fix adds the parameters whose values the checker needs and that were given. It reports whether it added any.
func (in Input) fix(info *check.Info) bool {
	more := false
	for n := range info.NeedsValue {
		if _, done := in.fixed.values[n]; !done && n <= len(in.Params) {
			in.fixed.values[n] = in.Params[n-1]
			more = true
		}
	}
	for name := range info.NeedsOption {
		v, given := in.Options[name]
		if _, done := in.fixed.named[name]; !done && given {
			in.fixed.named[name] = v
			more = true
		}
	}
	return more
}

// setParams sets the parameters in the object as a loader without parameters would: to the given
// ones, or the script's defaults. It skips values that do not fit; the loader refuses them.
func (in Input) setParams(m *ir.Module) {
	values, err := manifest.ParseParams(&manifest.Manifest{Params: backendmanifest.Params(m)}, in.Params, in.Options)
	if err != nil {
		return
	}
	for _, g := range m.Globals {
		if v, ok := values[m.Symbol(g.Name)]; ok {
			g.Init = v
		}
	}
}

// given writes the parameters given at compile time into the manifest.
func (in Input) given(m *manifest.Manifest) *manifest.Manifest {
	if len(in.Params) == 0 && len(in.Options) == 0 {
		return m
	}
	m.Given = &manifest.Given{Values: in.Params, Options: in.Options, Fixed: slices.Sorted(maps.Keys(in.fixed.values)),
		FixedOptions: slices.Sorted(maps.Keys(in.fixed.named))}
	m.Requires = append(m.Requires, "given-params")
	return m
}
