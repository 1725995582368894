// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"btc/frontend/ast"
	"btc/frontend/diag"
)

// setting is one key of the config block.
type setting struct {
	name    string
	initial string   // default value
	values  []string // allowed words; nil for a number, or for any string if text is set
	text    bool
	bool    bool
	noop    bool // accepted, without effect in any version
}

// settings is the table of config keys.
var settings = [...]setting{
	{name: "cache_user_symbols", initial: "PER_PID", values: []string{"NONE", "PER_PROGRAM", "PER_PID", "0", "1"}},
	{name: "cpp_demangle", initial: "true", bool: true},
	{name: "lazy_symbolication", initial: "true", bool: true},
	{name: "license", initial: "GPL", values: []string{"Dual MIT/GPL", "Dual BSD/GPL", "Dual MPL/GPL", "GPL and additional rights", "GPL v2", "GPL"}},
	{name: "log_size", initial: "1000000"},
	{name: "max_bpf_progs", initial: "1024"},
	{name: "max_cat_bytes", initial: "10240"},
	{name: "max_map_keys", initial: "4096"},
	{name: "max_probes", initial: "1024"},
	{name: "max_stacks", initial: "0"},
	{name: "max_strlen", initial: "1024"},
	{name: "missing_probes", initial: "error", values: []string{"error", "warn", "ignore"}},
	{name: "on_stack_limit", initial: "32"},
	{name: "perf_rb_pages", initial: "0"},
	{name: "print_maps_on_exit", initial: "true", bool: true},
	{name: "show_debug_info", initial: "false", bool: true},
	{name: "stack_mode", initial: "bpftrace", values: []string{"bpftrace", "perf", "raw", "build_id"}},
	{name: "str_trunc_trailer", initial: "..", text: true},
	{name: "use_blazesym", initial: "false", bool: true},
	{name: "unstable_import_statement", initial: "error", values: []string{"error", "warn", "enable"}},
	{name: "unstable_tseries", initial: "warn", values: []string{"error", "warn", "enable"}},
	{name: "unstable_typeinfo", initial: "error", values: []string{"error", "warn", "enable"}},
	{name: "unstable_dw_ustack", initial: "warn", values: []string{"error", "warn", "enable"}},
	{name: "symbol_source", noop: true},
	{name: "max_type_res_iterations", noop: true},
	{name: "unstable_addr", noop: true},
	{name: "unstable_import", noop: true},
	{name: "unstable_macro", noop: true},
	{name: "unstable_map_decl", noop: true},
}

// idle are settings that change nothing in objects compiled ahead of time.
var idle = map[string]bool{
	"lazy_symbolication": true,
	"log_size":           true,
	"on_stack_limit":     true,
	"show_debug_info":    true,
	"use_blazesym":       true,
}

// ConfigKeys returns the keys of the config block, old names and those without effect
// included.
func ConfigKeys() []string {
	keys := slices.Collect(maps.Keys(renamed))
	for _, s := range settings {
		keys = append(keys, s.name)
	}
	slices.Sort(keys)
	return keys
}

// renamed are the old names of settings.
var renamed = map[string]string{
	"strlen": "max_strlen", "no_cpp_demangle": "cpp_demangle", "cat_bytes_max": "max_cat_bytes", "map_keys_max": "max_map_keys",
}

// maxString is the maximum of max_strlen in bytes: two such strings and an event's header must fit in a record of 64
// KiB.
const maxString = 32000

func defaultConfig() Config {
	cfg := Config{Values: map[string]string{}}
	for _, s := range settings {
		if !s.noop {
			cfg.Values[s.name] = s.initial
		}
	}
	cfg.derive()
	return cfg
}

// derive sets the fields that the checker reads.
func (cfg *Config) derive() {
	cfg.MaxStrlen, _ = strconv.Atoi(cfg.Values["max_strlen"])
	cfg.MaxMapKeys, _ = strconv.Atoi(cfg.Values["max_map_keys"])
	cfg.Missing = cfg.Values["missing_probes"]
	cfg.StackMode = cfg.Values["stack_mode"]
}

// config reads the config block.
func (c *checker) config(block *ast.Config) {
	for _, e := range block.Entries {
		c.configEntry(e)
	}
	c.info.Config.derive()
}

func (c *checker) configEntry(e *ast.ConfigEntry) {
	key := strings.TrimPrefix(strings.ToLower(e.Key.Text), "bpftrace_")
	if now := renamed[key]; now != "" {
		c.fail(diag.Deprecated, e.Key, "%s is deprecated and has been renamed to %s", key, now)
		key = now
	}
	switch key {
	case "btf", "kernel_build", "kernel_source", "vmlinux":
		c.fail(diag.BadConfigKey, e.Key, "%s can only be set as an environment variable", key)
		return
	}
	i := slices.IndexFunc(settings[:], func(s setting) bool { return s.name == key })
	if i < 0 {
		var names []string
		for _, s := range settings[:] {
			names = append(names, s.name)
		}
		suggest(c.fail(diag.BadConfigKey, e, "%s: not a known configuration option", e.Key.Text), key, "", names)
		return
	}
	if settings[i].noop {
		c.fail(diag.Ignored, e.Key, "%s is deprecated and has no effect", key)
		return
	}
	if idle[key] {
		c.fail(diag.Ignored, e.Key, "%s has no effect here", key)
	}
	value, ok := settings[i].parse(e.Value)
	if !ok {
		d := c.fail(diag.BadConfigKey, e.Value, "Invalid value for %s. Found: %s.", key, value)
		switch s := settings[i]; {
		case s.values != nil:
			d.Message += " Valid values: " + strings.Join(s.values, ", ")
		case s.bool:
			d.Message += " Valid values: true, false, 1, 0"
		default:
			d.Message += " Expected a number " + s.bounds()
		}
		return
	}
	c.info.Config.Values[key] = value
}

// parse returns the value as a string and whether the setting accepts it.
func (s *setting) parse(x ast.Expr) (string, bool) {
	value, number := "", false
	switch x := x.(type) {
	case *ast.StringLit:
		value = x.Value
	case *ast.Ident:
		value = x.Name
	case *ast.BoolLit:
		value = strconv.FormatBool(x.Value)
	case *ast.IntLit:
		value, number = strconv.FormatUint(x.Value, 10), true
	}
	switch {
	case s.text:
		return value, true
	case s.bool:
		if number && (value == "0" || value == "1") {
			return strconv.FormatBool(value == "1"), true
		}
		return value, value == "true" || value == "false"
	case s.values != nil:
		return value, slices.Contains(s.values, value)
	}
	low, high := s.limits()
	n, err := strconv.ParseInt(value, 10, 64)
	return value, err == nil && low <= n && n <= high
}

// limits returns the smallest and the largest number that the setting accepts.
func (s *setting) limits() (low, high int64) {
	switch s.name {
	case "max_strlen":
		return 1, maxString
	case "max_map_keys":
		return 1, math.MaxInt32
	}
	return 0, math.MaxInt32
}

func (s *setting) bounds() string {
	low, high := s.limits()
	return fmt.Sprintf("from %d to %d", low, high)
}
