// SPDX-License-Identifier: Apache-2.0

package run

import (
	"encoding/binary"
	"io"
)

// The file header (pcap-savefile(5)).
const (
	magicNanoseconds = 0xa1b23c4d
	versionMajor     = 2
	versionMinor     = 4
	linkTypeRaw      = 101 // LINKTYPE_RAW: an IPv4 or IPv6 header comes first
)

// snapLen is the maximum length of a packet in bytes, as declared in the file.
const snapLen = 65535

// packetWriter writes one file. Its methods may not be called at the same time.
type packetWriter struct {
	to  io.Writer
	buf []byte
}

// newPacketWriter writes the header of a file.
func newPacketWriter(to io.Writer) (*packetWriter, error) {
	b := binary.NativeEndian.AppendUint32(nil, magicNanoseconds)
	b = binary.NativeEndian.AppendUint16(b, versionMajor)
	b = binary.NativeEndian.AppendUint16(b, versionMinor)
	b = binary.NativeEndian.AppendUint32(b, 0) // times are UTC
	b = binary.NativeEndian.AppendUint32(b, 0) // and the timestamp accuracy, always 0
	b = binary.NativeEndian.AppendUint32(b, snapLen)
	b = binary.NativeEndian.AppendUint32(b, linkTypeRaw)
	if _, err := to.Write(b); err != nil {
		return nil, err
	}
	return &packetWriter{to: to}, nil
}

// Packet writes a packet that was seen at a time, in ns since 1970, with one
// write. A longer packet than snapLen is truncated; the record has its original length.
func (w *packetWriter) Packet(ns uint64, data []byte) error {
	kept := data[:min(len(data), snapLen)]
	b := binary.NativeEndian.AppendUint32(w.buf[:0], uint32(ns/1e9))
	b = binary.NativeEndian.AppendUint32(b, uint32(ns%1e9))
	b = binary.NativeEndian.AppendUint32(b, uint32(len(kept)))
	b = binary.NativeEndian.AppendUint32(b, uint32(len(data)))
	w.buf = append(b, kept...)
	_, err := w.to.Write(w.buf)
	return err
}
