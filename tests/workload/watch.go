// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setupWatch maps a page at a given address for a watchpoint.
func setupWatch(args []string, r *report) (func() error, error) {
	flags := flag.NewFlagSet("watch", flag.ContinueOnError)
	at := flags.Uint64("at", 0x10000000, "address, the start of a page")
	writes := flags.Int("writes", 1, "number of writes of 8 bytes")
	reads := flags.Int("reads", 0, "number of reads of 8 bytes")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	address := uintptr(*at)
	page, err := unix.MmapPtr(-1, 0, *(*unsafe.Pointer)(unsafe.Pointer(&address)), 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED_NOREPLACE)
	if err != nil {
		return nil, err
	}
	word := (*uint64)(page)
	return func() error {
		for i := range *writes {
			atomic.StoreUint64(word, uint64(i))
		}
		for range *reads {
			atomic.LoadUint64(word)
		}
		r.add("writes", *writes)
		r.add("reads", *reads)
		return nil
	}, nil
}
