// Package pcap writes packet capture files in the classic format of libpcap:
// packets that begin with their IP header, times in nanoseconds.
//
// It takes a destination and gives it a file header and a record for each packet,
// in the byte order of the machine, as readers expect.
package pcap

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

// SnapLen is the longest packet, in bytes, that a file says it may hold.
const SnapLen = 65535

// Writer writes one file. Its methods may not be called at the same time.
type Writer struct {
	to  io.Writer
	buf []byte
}

// NewWriter writes the header of a file.
func NewWriter(to io.Writer) (*Writer, error) {
	b := binary.NativeEndian.AppendUint32(nil, magicNanoseconds)
	b = binary.NativeEndian.AppendUint16(b, versionMajor)
	b = binary.NativeEndian.AppendUint16(b, versionMinor)
	b = binary.NativeEndian.AppendUint32(b, 0) // times are UTC
	b = binary.NativeEndian.AppendUint32(b, 0) // and their accuracy is not told
	b = binary.NativeEndian.AppendUint32(b, SnapLen)
	b = binary.NativeEndian.AppendUint32(b, linkTypeRaw)
	if _, err := to.Write(b); err != nil {
		return nil, err
	}
	return &Writer{to: to}, nil
}

// Packet writes a packet that was seen at a time, in ns since 1970, with one
// write. What is longer than SnapLen is cut; the record holds its true length.
func (w *Writer) Packet(ns uint64, data []byte) error {
	kept := data[:min(len(data), SnapLen)]
	b := binary.NativeEndian.AppendUint32(w.buf[:0], uint32(ns/1e9))
	b = binary.NativeEndian.AppendUint32(b, uint32(ns%1e9))
	b = binary.NativeEndian.AppendUint32(b, uint32(len(kept)))
	b = binary.NativeEndian.AppendUint32(b, uint32(len(data)))
	w.buf = append(b, kept...)
	_, err := w.to.Write(w.buf)
	return err
}
