// SPDX-License-Identifier: Apache-2.0

package btrace

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"btc/internal/manifest"
)

func TestLosses(t *testing.T) {
	losses := []manifest.Loss{{Kind: "events"}, {Kind: "stack"}, {Kind: "scratch"}, {Kind: "map", Map: "@a"}, {Kind: "map", Map: "@b"}, {Kind: "map", Map: "@c"}}
	for _, c := range []struct {
		numbers []uint64
		want    Losses
	}{
		{[]uint64{0, 0, 0, 0, 0, 0}, Losses{Messages: 9}},
		{[]uint64{1, 0, 0, 0, 0, 0}, Losses{Messages: 9, Events: 1}},
		{[]uint64{0, 2, 0, 0, 0, 0}, Losses{Messages: 9, Stacks: 2}},
		{[]uint64{0, 0, 3, 0, 0, 0}, Losses{Messages: 9, Scratch: 3}},
		{[]uint64{1, 2, 3, 4, 0, 6}, Losses{Messages: 9, Events: 1, Stacks: 2, Scratch: 3, Updates: map[string]uint64{"@a": 4, "@c": 6}}},
	} {
		l := Losses{Messages: 9}
		l.add(losses, c.numbers)
		if d := cmp.Diff(c.want, l); d != "" {
			t.Errorf("%v (-want +got):\n%s", c.numbers, d)
		}
	}
}
