package load

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"

	"btc/loader/manifest"
	"btc/loader/report"
)

// helpers are the features that a manifest may need: helpers of kernels after
// 5.10, with the first version that has them, for messages. Distributions move
// helpers to older kernels, so the kernel itself is asked.
var helpers = map[string]struct {
	call  asm.BuiltinFunc
	since string
}{
	"for_each_map_elem":      {asm.FnForEachMapElem, "5.13"},
	"get_func_ip":            {asm.FnGetFuncIp, "5.15"},
	"ktime_get_tai_ns":       {asm.FnKtimeGetTaiNs, "6.1"},
	"loop":                   {asm.FnLoop, "5.17"},
	"map_lookup_percpu_elem": {asm.FnMapLookupPercpuElem, "5.19"},
}

// checkNeeds refuses an object that this kernel cannot run, before anything is
// loaded. Its error is a *report.Fault.
func checkNeeds(m *manifest.Manifest) error { return needs(m, hostHas) }

func needs(m *manifest.Manifest, has func(asm.BuiltinFunc) bool) error {
	for _, n := range m.Needs {
		f := &report.Fault{Script: &m.Script, Pos: n.Pos}
		h, known := helpers[n.Feature]
		switch {
		case !known:
			f.Text = fmt.Sprintf("%s needs the kernel feature %q, which this loader does not know", n.Construct, n.Feature)
			f.Hint = "use the loader of the compiler's version"
		case !has(h.call):
			f.Text = fmt.Sprintf("%s needs the helper bpf_%s (Linux %s), which this kernel lacks", n.Construct, n.Feature, h.since)
		default:
			continue
		}
		return f
	}
	return nil
}

// hostHas asks the kernel. An answer that is neither yes nor no counts as yes:
// the load will tell.
func hostHas(call asm.BuiltinFunc) bool {
	return !errors.Is(features.HaveProgramHelper(ebpf.Kprobe, call), ebpf.ErrNotSupported)
}
