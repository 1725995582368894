// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"strings"
	"testing"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/host"
	"btc/loader/resolve"
)

// TestWatchpointFollowsNothing checks that watchpoints on user-space addresses are rejected for
// processes that do not exist yet.
func TestWatchpointFollowsNothing(t *testing.T) {
	plan := &resolve.Plan{Prog: &manifest.Program{Kind: probe.Watchpoint, Attach: manifest.Attach{Addr: 0x1000, Len: 8}}}
	_, err := attachWatchpoint(plan, &resolve.Match{}, nil, Options{PIDs: []int{1}, Follow: true}, &host.Host{})
	if err == nil || !strings.Contains(err.Error(), "--follow-forks with -p cannot watch") {
		t.Errorf("error = %v", err)
	}
}
