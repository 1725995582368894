// SPDX-License-Identifier: Apache-2.0

package check

import (
	"strings"

	"btc/frontend/types"
)

// renamedMembers are members of kernel structs that other kernels have under another name or in another struct, where
// CO-RE alternatives cannot express the change: "struct.member" and where to look instead, the newest first. A path
// starts at the same struct. Renames that an object can follow are in the target (kernel.Spellings).
var renamedMembers = map[string][]struct{ path, when string }{
	"bio.bi_partno":          {{"bi_bdev.__bd_flags", "its low 8 bits, since 6.10"}, {"bi_bdev.bd_partno", "since 5.12"}},
	"block_device.bd_partno": {{"__bd_flags", "its low 8 bits, since 6.10"}},
	"file.f_dentry":          {{"f_path.dentry", "since 3.19"}},
	"file.f_count":           {{"f_ref", "since 6.13"}},
	"mm_struct.mmap":         {{"mm_mt", "since 6.1"}},
	"module.core_layout":     {{"mem", "since 6.4"}},
	"module.init_layout":     {{"mem", "since 6.4"}},
	"iov_iter.type":          {{"iter_type", "since 5.14"}},
	"dentry.d_subdirs":       {{"d_children", "since 6.8"}},
	"dentry.d_child":         {{"d_sib", "since 6.8"}},
	"sock.sk_family":         {{"__sk_common.skc_family", "its name in BTF"}},
	"sock.sk_state":          {{"__sk_common.skc_state", "its name in BTF"}},
	"sock.sk_num":            {{"__sk_common.skc_num", "its name in BTF"}},
	"sock.sk_dport":          {{"__sk_common.skc_dport", "its name in BTF"}},
	"sock.sk_daddr":          {{"__sk_common.skc_daddr", "its name in BTF"}},
	"sock.sk_rcv_saddr":      {{"__sk_common.skc_rcv_saddr", "its name in BTF"}},
}

// successor says where this kernel has a member that a struct lacks; "" if unknown.
func (b *body) successor(comp *types.Composite, member string) string {
	tag := strings.TrimPrefix(comp.CORE, "struct ")
	for _, m := range renamedMembers[tag+"."+member] {
		first, _, _ := strings.Cut(m.path, ".")
		for _, name := range comp.Names() {
			if name == first {
				return "this kernel has it as " + m.path + " (" + m.when + ")"
			}
		}
	}
	if t, ok := b.t.Struct(tag); ok && comp.CORE != "" {
		if now := t.Successors(member); len(now) > 0 {
			return "this kernel has it as " + strings.Join(now, ", ")
		}
	}
	return ""
}
