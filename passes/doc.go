// SPDX-License-Identifier: Apache-2.0

// Package passes optimizes the IR and lowers it from the high stage, which
// frontend/irgen generates, to the core stage, from which backend selects BPF
// instructions.
//
// Run takes a Module and rewrites it in place. pipeline.go is the table of
// passes and of the constraints on their order. Lowerings add null checks, loss
// counters and handling of failed probe reads, because only they know what a
// missing value means in the language. docs/layouts.md describes the layouts
// that they choose.
//
// Errors in the script are returned as ir.Diags, with positions; a broken invariant of the
// IR is a panic that starts with "BUG:".
package passes
