// Package passes turns the high IR that frontend/irgen writes into core IR
// that backend selects to BPF instructions.
//
// It takes a Module and rewrites it in place: pipeline.go is the table of
// passes and of the constraints on their order. Lowerings write their own null
// tests, loss counters and probe-read failures, because only they know what
// absence means in the language. docs/layouts.md describes what they lay out.
//
// What the user can cause is reported as a *Fault with its place in the
// script; a broken invariant of the IR is a panic that starts with "BUG:".
package passes
