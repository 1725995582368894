// SPDX-License-Identifier: Apache-2.0

// Package bpfmap reads and changes BPF maps as raw bytes: whole maps in batches if the kernel supports them (hashes:
// 5.6), else key by key.
//
// It is our own code and adds 9 KB to btrun: the batches of cilium/ebpf unmarshal into slices of Go values; here a
// map of any type is raw bytes in one reused buffer.
//
// It takes a map's file descriptor and sizes, and returns entries whose value is one slice for each possible CPU (one
// slice if the map is not per CPU).
package bpfmap

// Entry is one element: a value for each CPU, or a single one.
type Entry struct {
	Key    []byte
	Values [][]byte
}
