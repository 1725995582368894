// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"maps"
	"slices"
	"strconv"
	"sync"

	backendmanifest "btc/backend/manifest"
	"btc/frontend/ast"
	"btc/frontend/check"
	"btc/frontend/diag"
	"btc/frontend/expand"
	"btc/frontend/parse"
	"btc/internal/manifest"
	"btc/ir"
)

// splitWords divides in.Words into Params and Options. Only where a bare --name precedes a word does it need the script.
func (in *Input) splitWords(src *diag.Source) {
	if len(in.Words) == 0 {
		return
	}
	valued := sync.OnceValue(func() map[string]bool { return valuedOptions(src) })
	params, options := manifest.SplitParams(in.Words, func(name string) bool { return valued()[name] })
	for name, v := range in.Options {
		if _, given := options[name]; !given {
			options[name] = v
		}
	}
	in.Params, in.Options, in.Words = append(slices.Clip(in.Params), params...), options, nil
}

// valuedOptions returns the names of the script's own getopt calls whose default is not a bool.
func valuedOptions(src *diag.Source) map[string]bool {
	names := map[string]bool{}
	script := parse.Script(src, &diag.List{}, expand.Values(check.IsValue))
	if script == nil {
		return names
	}
	ast.Inspect(script, func(n ast.Node) bool {
		if x, ok := n.(*ast.Call); ok && x.Func.Text == "getopt" && len(x.Args) > 1 {
			name, isName := ast.Unparen(x.Args[0]).(*ast.StringLit)
			if _, isBool := ast.Unparen(x.Args[1]).(*ast.BoolLit); isName && !isBool {
				names[name.Value] = true
			}
		}
		return true
	})
	return names
}

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
