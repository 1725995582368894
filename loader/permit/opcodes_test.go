// SPDX-License-Identifier: Apache-2.0

package permit

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/cilium/ebpf/asm"
)

// TestEmitted checks every opcode: those of the table are known, with fields that are not used being 0, and no others.
func TestEmitted(t *testing.T) {
	const dst, src, off, imm = 1, 2, 4, 8 // fields in use
	known := map[uint8]int{0x05: off, 0x85: src | imm, 0x95: 0, 0x18: dst | src | imm, 0xdc: dst | imm, 0x84: dst, 0x87: dst}
	for _, kind := range []uint8{0x00, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x90, 0xa0, 0xb0, 0xc0} {
		for _, class := range []uint8{4, 7} {
			known[kind|class], known[kind|class|8] = dst|imm, dst|src
		}
	}
	for _, kind := range []uint8{0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0xa0, 0xb0, 0xc0, 0xd0} {
		for _, class := range []uint8{5, 6} {
			known[kind|class], known[kind|class|8] = dst|off|imm, dst|src|off
		}
	}
	for _, size := range []uint8{0x00, 0x08, 0x10, 0x18} {
		known[0x61|size], known[0x62|size], known[0x63|size] = dst|src|off, dst|off|imm, dst|src|off
	}
	known[0xc3], known[0xdb] = dst|src|off, dst|src|off // atomic additions
	for op := range 256 {
		fields, is := known[uint8(op)]
		for set := range 16 {
			b := []byte{byte(op), 0, 0, 0, 0, 0, 0, 0}
			if set&dst != 0 {
				b[1] |= 3
			}
			if set&src != 0 {
				b[1] |= 1 << 4
			}
			if set&off != 0 {
				b[2] = 8
			}
			if set&imm != 0 {
				b[4] = 1
			}
			var ins asm.Instruction
			if err := ins.Unmarshal(bytes.NewReader(append(b, make([]byte, 8)...)), binary.LittleEndian, "linux"); err != nil {
				continue // refused by the reader
			}
			want := is && set&^fields == 0
			if op == 0x85 && ins.IsKfuncCall() {
				continue
			}
			if got := emitted(&ins); got != want {
				t.Errorf("opcode %#02x with fields %04b: emitted = %v, want %v", op, set, got, want)
			}
		}
	}
}
