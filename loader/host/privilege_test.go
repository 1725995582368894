// SPDX-License-Identifier: Apache-2.0

package host

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMissing(t *testing.T) {
	both := []string{"CAP_BPF", "CAP_PERFMON"}
	for _, tc := range []struct {
		caps  uint64
		names []string
		want  []string
	}{
		{0, both, both},
		{1 << unix.CAP_BPF, both, []string{"CAP_PERFMON"}},
		{1<<unix.CAP_BPF | 1<<unix.CAP_PERFMON, both, nil},
		{1 << unix.CAP_SYS_ADMIN, append([]string{"CAP_SYSLOG"}, both...), []string{"CAP_SYSLOG"}},
		{1<<unix.CAP_BPF | 1<<unix.CAP_PERFMON, []string{"CAP_SYS_ADMIN"}, []string{"CAP_SYS_ADMIN"}},
	} {
		if got := missing(tc.caps, tc.names); !slices.Equal(got, tc.want) {
			t.Errorf("Missing(%#x) = %v, want %v", tc.caps, got, tc.want)
		}
	}
	for _, c := range capabilities {
		if !strings.HasPrefix(c.name, "CAP_") {
			t.Errorf("wrong name of capability %s", c.name)
		}
	}
}
