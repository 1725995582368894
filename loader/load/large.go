// SPDX-License-Identifier: Apache-2.0

package load

import (
	"maps"
	"strings"
	"sync"

	"github.com/cilium/ebpf"

	"btc/loader/permit"
)

// largeMap is the size from which maps are made at the same time: the kernel takes a millisecond for about 256 KB of a hash
// table, whose elements it makes beforehand.
const largeMap = 256 << 10

// makeLarge makes the large maps of an object at the same time, each on a CPU of its own if there are so many, adds them to
// those that a collection uses, and returns them. What fails is left to the collection, which reports it.
func makeLarge(specs map[string]*ebpf.MapSpec, use *ebpf.CollectionOptions) map[string]*ebpf.Map {
	var running sync.WaitGroup
	var mu sync.Mutex
	made := map[string]*ebpf.Map{}
	for name, s := range specs {
		data := strings.HasPrefix(name, ".") // a section, whose variables the collection sets
		if use.MapReplacements[name] != nil || data || s.Pinning != ebpf.PinNone || s.InnerMap != nil || len(s.Contents) > 0 || permit.MapMemory(s, 1) < largeMap {
			continue
		}
		running.Go(func() {
			if m, err := ebpf.NewMap(s); err == nil {
				mu.Lock()
				made[name] = m
				mu.Unlock()
			}
		})
	}
	running.Wait()
	if len(made) > 0 {
		all := maps.Clone(made)
		maps.Copy(all, use.MapReplacements)
		use.MapReplacements = all
	}
	return made
}
