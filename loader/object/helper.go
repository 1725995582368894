// SPDX-License-Identifier: Apache-2.0

package object

import (
	"fmt"
	"strings"

	"github.com/cilium/ebpf/asm"
)

// HelperName returns the kernel's name of a helper without "bpf_".
func HelperName(f asm.BuiltinFunc) string {
	camel, known := strings.CutPrefix(f.String(), "Fn")
	if !known {
		return fmt.Sprintf("number %d", int(f))
	}
	var b strings.Builder
	for i, c := range camel {
		if c >= 'A' && c <= 'Z' {
			if i > 0 {
				b.WriteByte('_')
			}
			c += 'a' - 'A'
		}
		b.WriteRune(c)
	}
	return b.String()
}
