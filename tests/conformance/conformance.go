// Package conformance measures btc against bpftrace's own tests. It takes a
// checkout of bpftrace, named by the environment variable BTC_BPFTRACE and never
// copied into this repository, and gives how far the two agree:
//
//   - unit facts: the programs of tests/*.cpp that bpftrace accepts or refuses,
//     compiled in this process (TestUnitFacts);
//   - runtime tests: the definitions of tests/runtime that need only timers and
//     the program's own events, compiled, loaded and run (TestRuntime).
//
// What does not agree stands in testdata, each with a class of reason. The lists
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
