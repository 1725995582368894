// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"bytes"
	"io"
	"os"
)

// vdsoPath is the name of the code that the kernel maps into each process without a file. All 64-bit processes have
// the same.
const vdsoPath = "[vdso]"

// maxVDSO bounds its size, in bytes; it is one or two pages.
const maxVDSO = 1 << 20

// readVDSO reads the symbols of this process's vDSO; nil if its size differs.
func readVDSO(size uint64) *fileSyms {
	maps, _ := readMaps(uint32(os.Getpid()))
	for _, m := range maps {
		if m.path != vdsoPath || m.end-m.start != size || size > maxVDSO {
			continue
		}
		f, err := os.Open("/proc/self/mem")
		if err != nil {
			return nil
		}
		defer f.Close()
		b := make([]byte, size)
		if _, err := io.ReadFull(io.NewSectionReader(f, int64(m.start), int64(size)), b); err != nil {
			return nil
		}
		if p, err := parseFile(bytes.NewReader(b)); err == nil { // the kernel made it
			return &fileSyms{table: p.table, buildID: p.buildID}
		}
		return nil
	}
	return nil
}
