// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"
	"strings"

	"btc/internal/probe"
)

// FunctionInfo is the documentation of a row of the table of builtins and functions.
type FunctionInfo struct {
	Name string
	// Group is the part of the language: builtin, string, map, output, host, meta (compile time), or other.
	Group string
	// Value: it may be written without parentheses.
	Value bool
	// Call: it may be called, with Min to Max arguments.
	Call     bool
	Min, Max int
	// In lists the probes that permit it; nil for all.
	In        []string
	Unsafe    bool
	Supported bool
}

// Functions lists the builtins and functions by group and name, argN as "arg".
func Functions() []FunctionInfo {
	var all []FunctionInfo
	for _, g := range []struct {
		name string
		rows []Function
	}{
		{"builtin", builtinRows()}, {"string", append(stringRows(), searchRows()...)}, {"host", hostRows()},
		{"meta", metaRows()}, {"map", mapRows()}, {"output", outputRows()}, {"other", unsupportedRows()},
	} {
		for _, f := range g.rows {
			info := FunctionInfo{
				Name: f.Name, Group: g.name, Value: f.value, Call: !f.value || f.max > 0, Min: f.min, Max: f.max,
				Unsafe: f.unsafe, Supported: !f.unsupported,
			}
			for _, t := range probe.Types() {
				if f.in != nil && f.in(&t) {
					info.In = append(info.In, t.Kind)
				}
			}
			all = append(all, info)
		}
	}
	slices.SortStableFunc(all, func(a, b FunctionInfo) int {
		if a.Group != b.Group {
			return 0
		}
		return strings.Compare(a.Name, b.Name)
	})
	return all
}

// SettingInfo is the documentation of a key of the config block.
type SettingInfo struct {
	Name    string
	Default string
	Values  []string // the accepted words; nil for a number or a string
	NoOp    bool     // accepted, without effect in any version
}

// Settings lists the keys of the config block.
func Settings() []SettingInfo {
	var all []SettingInfo
	for _, s := range settings {
		info := SettingInfo{Name: s.name, Default: s.initial, Values: slices.Clone(s.values), NoOp: s.noop}
		if s.bool {
			info.Values = []string{"true", "false"}
		}
		all = append(all, info)
	}
	return all
}

// Renamed lists the old names of settings with the new ones.
func Renamed() map[string]string {
	all := map[string]string{}
	for old, now := range renamed {
		all[old] = now
	}
	return all
}
