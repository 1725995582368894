// SPDX-License-Identifier: Apache-2.0

// Package ir is btc's intermediate representation: typed SSA, with block parameters in place of
// phi nodes. It is one IR with two checked stages.
//
// It takes nothing (frontend/irgen fills it) and returns modules that passes rewrite,
// interp runs, and backend turns into a BPF object. High ops come directly from the
// language (mapget, hist, emit, comm, str); core ops map to BPF instructions (load, store,
// call, arithmetic). Lowering replaces high ops by core ops; VerifyStage checks that none
// is left.
//
// Scalars are i64 values; a width is a property of memory accesses (MemKind) and of the
// zext and sext ops. Objects larger than 8 bytes (strings, tuples, host addresses) are in
// memory: high ops take and return the *address* of such objects, usually of a Slot. Values
// in a block are in execution order and the order is significant. Constants, slot
// addresses, map references and global references are operands, not instructions
// (Op.Inline).
//
// Files: module.go, func.go, types.go, op.go are the data structures; print.go, parse.go,
// lex.go, attrs.go the text form (docs/ir.md); builder.go and edit.go change functions;
// cfg.go, live.go, ranges.go analyze them; verify*.go check them.
package ir
