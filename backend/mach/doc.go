// SPDX-License-Identifier: Apache-2.0

// Package mach is the machine code of BPF before encoding.
//
// It takes nothing (isel fills it) and holds functions of basic blocks in two forms. After
// isel they are in SSA form over virtual registers (v0, v1, ...), with block parameters and
// three-operand instructions. After regalloc only r0 to r10 are left, block parameters are
// gone, and arithmetic has the machine's form: the destination is the first operand.
//
// Both forms print; the second one in the syntax of the kernel verifier's log.
// Raw is one encoded 8-byte slot, with its own encoder, decoder and printer.
//
// The instructions are those that Linux 5.10 decodes: -mcpu=v3 with the one
// atomic that does not fetch.
package mach
