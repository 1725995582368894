// SPDX-License-Identifier: Apache-2.0

package load

import (
	"fmt"
	"strconv"
	"strings"

	"btc/internal/manifest"
)

// Environment applies settings from environment variables that take effect at run time: BPFTRACE_ and the key in
// capitals, read with getenv. They override the script's settings.
func Environment(m *manifest.Manifest, getenv func(string) string) error {
	for _, s := range []struct {
		key   string
		apply func(m *manifest.Manifest, v string) bool
	}{
		{"print_maps_on_exit", func(m *manifest.Manifest, v string) bool { return setBool(&m.Config.PrintMapsOnExit, v) }},
		{"cpp_demangle", func(m *manifest.Manifest, v string) bool { return setBool(&m.Config.CppDemangle, v) }},
		{"str_trunc_trailer", func(m *manifest.Manifest, v string) bool { m.Config.StrTruncTrailer = v; return true }},
		{"perf_rb_pages", func(m *manifest.Manifest, v string) bool {
			n, err := strconv.ParseUint(v, 10, 31)
			m.Config.RingbufPages = int(n)
			return err == nil
		}},
		{"max_stacks", func(m *manifest.Manifest, v string) bool {
			n, err := strconv.ParseUint(v, 10, 31)
			m.Config.MaxStacks = int(n)
			return err == nil
		}},
		{"max_cat_bytes", countSetting("max_cat_bytes")},
		{"max_probes", countSetting("max_probes")},
		{"max_bpf_progs", countSetting("max_bpf_progs")},
		{"missing_probes", missing},
	} {
		name := "BPFTRACE_" + strings.ToUpper(s.key)
		if v := getenv(name); v != "" && !s.apply(m, v) {
			return fmt.Errorf("%s: Invalid value for %s. Found: %s", name, s.key, v)
		}
	}
	return m.Validate()
}

// countSetting sets one of the settings that are stored as strings.
func countSetting(key string) func(*manifest.Manifest, string) bool {
	return func(m *manifest.Manifest, v string) bool {
		_, err := strconv.ParseUint(v, 10, 31)
		if m.Config.Other == nil {
			m.Config.Other = map[string]string{}
		}
		m.Config.Other[key] = v
		return err == nil
	}
}

func setBool(to *bool, v string) bool {
	switch v {
	case "1", "true":
		*to = true
	case "0", "false":
		*to = false
	default:
		return false
	}
	return true
}

// missing sets the policy for attach points that do not exist; matches of a pattern are always optional.
func missing(m *manifest.Manifest, v string) bool {
	config := m.Config.Other["missing_probes"]
	if m.Config.Other == nil {
		m.Config.Other = map[string]string{}
	}
	m.Config.Other["missing_probes"] = v
	for i := range m.Programs {
		if a := &m.Programs[i].Attach; a.Missing != "ignore" || config == "ignore" {
			a.Missing = v
		}
	}
	return v == "error" || v == "warn" || v == "ignore"
}
