// SPDX-License-Identifier: Apache-2.0

package run

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
)

func TestFile(t *testing.T) {
	var b bytes.Buffer
	w, err := newPacketWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	const ns = 1_700_000_000_123_456_789
	if err := w.Packet(ns, []byte("packet")); err != nil {
		t.Fatal(err)
	}
	if err := w.Packet(ns+1, make([]byte, snapLen+1)); err != nil {
		t.Fatal(err)
	}
	u32 := func(off int) uint32 { return binary.NativeEndian.Uint32(b.Bytes()[off:]) }
	for _, x := range []struct {
		off  int
		want uint32
	}{
		{0, 0xa1b23c4d}, {16, 65535}, {20, 101},
		{24, 1_700_000_000}, {28, 123_456_789}, {32, 6}, {36, 6},
		{46, 1_700_000_000}, {50, 123_456_790}, {54, 65535}, {58, 65536},
	} {
		if got := u32(x.off); got != x.want {
			t.Errorf("word at %d = %#x, want %#x", x.off, got, x.want)
		}
	}
	if got := string(b.Bytes()[40:46]); got != "packet" {
		t.Errorf("packet = %q", got)
	}
	if want := 24 + 16 + 6 + 16 + snapLen; b.Len() != want {
		t.Errorf("%d bytes, want %d", b.Len(), want)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no space") }

func TestWriteFails(t *testing.T) {
	if _, err := newPacketWriter(broken{}); err == nil {
		t.Error("no error for failing to write the header")
	}
	if err := (&packetWriter{to: broken{}}).Packet(1, []byte("x")); err == nil {
		t.Error("no error for failing to write a packet")
	}
}
