// SPDX-License-Identifier: Apache-2.0

// Package adapt adapts the programs of an object to a kernel: to its helpers, the layout of its tracepoint records,
// the signs of its integers.
//
// The kernel is described by the arguments (types, format files, a list of helpers): the loader passes those of the
// running kernel, btc check those of a target file. The package itself queries, loads and attaches nothing.
package adapt

import (
	"fmt"

	"github.com/cilium/ebpf/asm"

	"btc/internal/manifest"
	"btc/loader/diag"
)

// helpers are the features that a manifest may need: helpers of kernels after 5.10, with the first version that has
// them, for messages. Distributions backport helpers, so the kernel is probed for them.
var helpers = map[string]struct {
	call  asm.BuiltinFunc
	since string
}{
	"for_each_map_elem":      {asm.FnForEachMapElem, "5.13"},
	"get_func_ip":            {asm.FnGetFuncIp, "5.15"},
	"ktime_get_tai_ns":       {asm.FnKtimeGetTaiNs, "6.1"},
	"loop":                   {asm.FnLoop, "5.17"},
	"map_lookup_percpu_elem": {asm.FnMapLookupPercpuElem, "5.19"},
	"task_pt_regs":           {asm.FnTaskPtRegs, "5.15"},
}

// Needs returns an error for an object that cannot run on a kernel with the helpers for which has is true. Its error
// is a *diag.Error.
func Needs(m *manifest.Manifest, has func(asm.BuiltinFunc) bool) error {
	for _, n := range m.Needs {
		f := &diag.Error{Script: &m.Script, Pos: n.Pos}
		h, known := helpers[n.Feature]
		switch {
		case !known:
			f.Text = fmt.Sprintf("%s needs unknown kernel feature %q", n.Construct, n.Feature)
			f.Hint = "use a loader of the same version as the compiler"
		case !has(h.call):
			f.Text = fmt.Sprintf("%s needs the helper bpf_%s (Linux %s), which this kernel lacks", n.Construct,
				n.Feature, h.since)
		default:
			continue
		}
		return f
	}
	return nil
}

// Forms returns the result of a test on a host of an architecture, by its name in manifests, with the helpers for
// which has is true, if it is known without the kernel's types.
func Forms(arch string, has func(asm.BuiltinFunc) bool) func(*manifest.Form) (yes, known bool) {
	return func(f *manifest.Form) (yes, known bool) {
		if f.Arch != "" {
			return f.Arch == arch, true
		}
		h, known := helpers[f.Helper]
		return known && has(h.call), known
	}
}
