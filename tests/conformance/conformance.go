// SPDX-License-Identifier: Apache-2.0

// Package conformance measures btc against bpftrace's own tests. It reads a checkout of bpftrace, named
// by the environment variable BTC_BPFTRACE and never copied into this repository, and reports how far
// the two agree on
//
//   - unit facts: the programs in tests/*.cpp that bpftrace accepts or rejects,
//     compiled in this process (TestUnitFacts);
//   - runtime tests: the definitions of tests/runtime that need only timers and
//     the program's own events, compiled, loaded and run (TestRuntime); tests that
//     need more are run with a program that replaces bpftrace (TestProbes);
//   - all runtime tests under bpftrace's own engine, a Python program, with the same
//     replacement and with bpftrace itself (TestEngine).
//
// TestProbesGuest and TestEngineGuest do the same on kernels with kprobes.
// To run the engine alone and write the differences to a file:
//
//	BTC_BPFTRACE=CHECKOUT go test -count=1 -v -timeout 60m -run 'TestEngine$' ./tests/conformance -detail FILE
//
// The unit facts are read from C++ by a tokenizer and an evaluator of their loops and strings (cppeval.go, cpptoken.go,
// definition.go, follow.go, mock.go: 1,070 lines). They give 3,235 programs with a verdict, of which btc agrees on 98 %,
// from any release of bpftrace: 34 are not read. Cases of our own would be a copy of bpftrace's, which this repository
// does not contain, and would not follow its releases.
//
// Known differences are listed in testdata, each with the class of its reason. The lists only shrink: a
// difference that is not listed fails the test, and so does a listed one that has disappeared (-update
// removes it).
package conformance

import (
	"os"
	"path/filepath"
	"testing"
)

// Checkout is the environment variable with the path of the checkout.
const Checkout = "BTC_BPFTRACE"

// checkout returns the directory tests/ of the checkout; without one, it skips the test.
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
