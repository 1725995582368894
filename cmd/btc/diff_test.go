// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"

	"btc/targets/kernel"
)

func TestTargetDiff(t *testing.T) {
	open := func(arch string) *kernel.Target {
		x, err := kernel.Default(arch)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	var out bytes.Buffer
	different, err := diffTargets(&out, open("x86_64"), open("x86_64"), "*", false)
	if err != nil || different || strings.Contains(out.String(), "\n-") {
		t.Errorf("difference between a target and itself: %v\n%s", err, out.String())
	}
	out.Reset()
	different, err = diffTargets(&out, open("x86_64"), open("arm64"), "*pt_regs*", false)
	if err != nil || !different {
		t.Errorf("different = %v, error = %v", different, err)
	}
	for _, want := range []string{"\n struct pt_regs\n", "\n-\tlong unsigned int di\n", "\n+struct user_pt_regs\n", "\n+\tu64 regs[31]\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q not found in\n%s", want, out.String())
		}
	}
	out.Reset()
	if _, err := diffTargets(&out, open("x86_64"), open("arm64"), "open", true); err != nil || strings.Contains(out.String(), "-syscall") ||
		!strings.Contains(out.String(), "syscalls         0 in both, 1 only in the first, 0 only in the second") {
		t.Errorf("summary: %v\n%s", err, out.String())
	}
}
