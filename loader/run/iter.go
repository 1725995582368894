// SPDX-License-Identifier: Apache-2.0

package run

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"btc/loader/attach"
	"btc/loader/resolve"
)

// readIterators runs the iterators to completion and handles their records. It reports whether
// there were any; if so, the run is over. As in bpftrace, exit() takes effect after the last
// object.
func (r *reader) readIterators() (any bool, err error) {
	for i := range r.expansion.Plans {
		if path := resolve.PinPath(r.expansion.Plans[i].Prog); path != "" {
			any = true
			r.front.sink.Pinned(path)
		}
	}
	for _, l := range r.links.all {
		it, err := attach.Iterator(l)
		if err != nil {
			return false, fmt.Errorf("opening an iterator: %w", err)
		}
		if it == nil {
			continue
		}
		any = true
		err = r.readRecords(it)
		it.Close()
		if err != nil {
			return false, fmt.Errorf("reading an iterator: %w", err)
		}
	}
	return any, nil
}

// maxRecord bounds the size of a record; the kernel's buffer for an iterator is smaller.
const maxRecord = 1 << 20

// readRecords handles the records written by an iterator's programs, in order.
func (r *reader) readRecords(from io.Reader) error {
	var pending, exits []byte
	buf := make([]byte, 64<<10)
	for !r.end.interrupted() {
		n, err := from.Read(buf)
		if errors.Is(err, unix.EAGAIN) { // many objects without output
			continue
		}
		pending = append(pending, buf[:n]...)
		for len(pending) >= 8 {
			size := int(binary.NativeEndian.Uint32(pending[4:]))
			if size < 8 || size > maxRecord {
				return fmt.Errorf("a record of %d bytes", size)
			}
			if size > len(pending) {
				break
			}
			record := pending[:size]
			pending = pending[size:]
			if r.isExit(record) {
				exits = append([]byte(nil), record...)
				continue
			}
			r.awaitRoom(false)
			r.handleOne(record)
		}
		if err == io.EOF || n == 0 && err == nil {
			break
		}
		if errors.Is(err, unix.EOPNOTSUPP) { // iterators over cgroups cannot hold the lock between two reads
			return fmt.Errorf("the kernel visits all objects in one go, and the script's output does not fit into its buffer of 8 pages: %w",
				err)
		}
		if err != nil {
			return err
		}
	}
	if exits != nil {
		r.handle(exits)
	}
	return nil
}
