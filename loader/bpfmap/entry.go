// SPDX-License-Identifier: Apache-2.0

// Package bpfmap reads and changes BPF maps as raw bytes: whole maps in batches
// where the kernel has them (hashes: 5.6), key by key where not.
//
// It is our own code, 9 KB of btrun: the batches of cilium/ebpf unmarshal into slices of
// Go values; here a map of any type is raw bytes in one buffer that is used again.
//
// It takes a map's file descriptor and sizes, and gives entries whose value is
// one slice for each possible CPU (one slice when the map is not per CPU).
package bpfmap

// Entry is one element: a value for each CPU, or a single one.
type Entry struct {
	Key    []byte
	Values [][]byte
}
