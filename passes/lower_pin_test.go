// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"testing"

	"btc/ir"
)

func TestKernelFormat(t *testing.T) {
	for format, want := range map[string]string{
		"%d\n": "%lld\n", "%-16s %5d %%": "%-16s %5lld %%", "%lu%llx": "%llu%llx", "%p\n": "0x%llx\n", "100%": "100%", "%#x": "%llx", "none": "none",
	} {
		if got := kernelFormat(&ir.Event{Format: format}); got != want {
			t.Errorf("kernel format of %q = %q, want %q", format, got, want)
		}
	}
}
