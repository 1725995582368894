// SPDX-License-Identifier: Apache-2.0

// Package conformance measures btc against bpftrace's own tests. It takes a
// checkout of bpftrace, named by the environment variable BTC_BPFTRACE and never
// copied into this repository, and gives how far the two agree:
//
//   - unit facts: the programs of tests/*.cpp that bpftrace accepts or refuses,
//     compiled in this process (TestUnitFacts);
//   - runtime tests: the definitions of tests/runtime that need only timers and
//     the program's own events, compiled, loaded and run (TestRuntime); those that
//     need more, by a program that stands in for bpftrace (TestProbes);
//   - all runtime tests under bpftrace's own engine, a Python program, with the same
//     stand-in, beside bpftrace itself (TestEngine).
//
// TestProbesGuest and TestEngineGuest do the same on kernels with kprobes.
// To run the engine alone, and write down what differs:
//
//	BTC_BPFTRACE=CHECKOUT go test -count=1 -v -timeout 60m -run 'TestEngine$' ./tests/conformance -detail FILE
//
// What does not agree is in testdata, each with a class of reason. The lists
// only shrink: a case that is new there fails the test, and so does one that has
// come to agree and is still listed (-update takes it out).
package conformance

import (
	"os"
	"path/filepath"
	"testing"
)

// Checkout is the environment variable with the path of the checkout.
const Checkout = "BTC_BPFTRACE"

// checkout is the directory tests/ of the checkout; the test is skipped when
// there is none.
func checkout(t *testing.T) string {
	t.Helper()
	root := os.Getenv(Checkout)
	if root == "" {
		t.Skip("skipped: " + Checkout + " does not name a checkout of bpftrace")
	}
	dir := filepath.Join(root, "tests")
	if _, err := os.Stat(filepath.Join(dir, "parser.cpp")); err != nil {
		t.Fatalf("%s: %v", Checkout, err)
	}
	return dir
}
