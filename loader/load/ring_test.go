// SPDX-License-Identifier: Apache-2.0

package load

import (
	"os"
	"testing"

	"github.com/cilium/ebpf"

	"btc/internal/manifest"
	"btc/loader/object"
)

func TestSizeRing(t *testing.T) {
	page := os.Getpagesize()
	for _, c := range []struct {
		memory uint64
		pages  int
		want   uint32
	}{
		{0, 0, 16 << 20},
		{1 << 40, 0, 16 << 20},
		{500 << 20, 0, 16 << 20},
		{100 << 20, 0, 4 << 20},
		{1 << 20, 0, 256 << 10},
		{1 << 40, 1, 256 << 10},
		{1 << 20, 32 << 20 / page, 32 << 20},
		{1 << 20, 33<<20/page + 1, 64 << 20},
		{1 << 40, 1 << 30 / page, 1 << 30},
		{1 << 40, 1<<30/page + 1, 1 << 30},
	} {
		o := &object.Object{Spec: &ebpf.CollectionSpec{Maps: map[string]*ebpf.MapSpec{"events": {}}}, Manifest: &manifest.Manifest{}}
		o.Manifest.Config.RingbufPages = c.pages
		sizeRing(o, c.memory)
		if got := o.Spec.Maps["events"].MaxEntries; got != c.want {
			t.Errorf("%d bytes of memory, %d pages: size %d, want %d", c.memory, c.pages, got, c.want)
		}
	}
	sizeRing(&object.Object{Spec: &ebpf.CollectionSpec{}, Manifest: &manifest.Manifest{}}, 0) // no events
}
