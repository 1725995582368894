// SPDX-License-Identifier: Apache-2.0

// Package tier decides which of the expensive tests run. The first tier, make test and make check, runs every test, but of
// what takes long or needs programs of others only the cheapest cases. The other tiers run the rest. The environment variable
// BTC_TIER names them, separated by commas; without it, only the first tier runs.
package tier

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Variable is the environment variable.
const Variable = "BTC_TIER"

// Tier is a tier after the first. Its name is that of its make target without "test-".
type Tier string

const (
	Real    Tier = "real"    // programs of others: tracers, loaders, monitoring, package managers
	Kernels Tier = "kernels" // all cases on all kernels, in emulated guests
)

// Runs reports whether the tests of a tier run.
func (t Tier) Runs() bool {
	return slices.Contains(strings.Split(os.Getenv(Variable), ","), string(t))
}

// Need skips a test of the tier unless the tier runs. what says what the test needs or does.
func (t Tier) Need(tb testing.TB, what string) {
	tb.Helper()
	if !t.Runs() {
		tb.Skipf("skipped: %s: make test-%s runs it", what, t)
	}
}
