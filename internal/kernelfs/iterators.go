// SPDX-License-Identifier: Apache-2.0

package kernelfs

// IterOverMap maps kinds of BPF iterators that visit the content of one map, whose descriptor the kernel requires
// when the link is created (union bpf_iter_link_info, linux/bpf.h), to what they visit. Scripts cannot name another
// program's map.
var IterOverMap = map[string]string{"bpf_map_elem": "elements", "bpf_sk_storage_map": "sockets", "sockmap": "sockets"}
