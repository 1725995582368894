// SPDX-License-Identifier: Apache-2.0

package cost

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
)

// TestCheaper checks which uprobes have a cheaper probe.
func TestCheaper(t *testing.T) {
	for _, c := range []struct {
		attach string
		want   []string
	}{
		{"uprobe:libc:write", []string{"tracepoint:syscalls:sys_enter_write"}},
		{"uretprobe:/lib/x86_64-linux-gnu/libc.so.6:write", []string{"tracepoint:syscalls:sys_exit_write"}},
		{"uprobe:/lib/libc-2.31.so:__libc_open64", []string{"tracepoint:syscalls:sys_enter_openat"}},
		{"uprobe:libc:unlink", []string{"tracepoint:syscalls:sys_enter_unlink"}}, // the target is x86_64
		{"uprobe:libc:qsort", nil},
		{"uprobe:libc:clock_gettime", nil},            // the vDSO
		{"uprobe:/lib/ld-musl-x86_64.so.1:open", nil}, // another call
		{"uprobe:/opt/libcrypto.so.3:write", nil},
		{"uprobe:libc:write+4", nil},
		{"tracepoint:syscalls:sys_enter_write", nil},
		{"kprobe:ksys_write", nil},
	} {
		var have []string
		for _, p := range estimate(t, c.attach+" { @ = count(); }") {
			for _, x := range p.Cheaper {
				if have = append(have, x.Probe); x.NS >= *p.ProbeNS || x.Note == "" {
					t.Errorf("%s: %+v", c.attach, x)
				}
			}
		}
		if !slices.Equal(have, c.want) {
			t.Errorf("%s: cheaper are %q, want %q", c.attach, have, c.want)
		}
	}
}

// marked has two functions; the second one has a USDT probe, which has two locations.
const marked = `
.text
.globl plain, busy
.type plain, @function
plain: nop
ret
.size plain, .-plain
.type busy, @function
busy: nop
1: nop
2: nop
ret
.size busy, .-busy
.macro mark at
.balign 4
.4byte 7f-6f, 9f-8f, 3
6: .asciz "stapsdt"
7: .balign 4
8: .8byte \at, 0, 0
.asciz "app"
.asciz "work"
.asciz ""
9: .balign 4
.endm
.section .note.stapsdt, "", %note
mark 1b
mark 2b
`

// TestProbesInside checks that a USDT probe is found by the function that contains it.
func TestProbesInside(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil || runtime.GOARCH != "amd64" {
		t.Skip("skipped: needs gcc for x86_64")
	}
	source, file := filepath.Join(t.TempDir(), "a.s"), filepath.Join(t.TempDir(), "a.so")
	if err := os.WriteFile(source, []byte(marked), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-shared", "-nostdlib", "-o", file, source).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v: %s", err, out)
	}
	for function, want := range map[string][]string{"busy": {"app:work"}, "plain": nil, "absent": nil} {
		if have := probesInside(file, function); !slices.Equal(have, want) {
			t.Errorf("probes inside %s: %q, want %q", function, have, want)
		}
	}
	if have := probesInside(filepath.Join(t.TempDir(), "absent"), "busy"); have != nil {
		t.Errorf("probes of a file that does not exist: %q", have)
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if out, err := exec.Command("mkfifo", fifo).CombinedOutput(); err != nil {
		t.Fatalf("mkfifo: %v: %s", err, out)
	}
	if have := probesInside(fifo, "busy"); have != nil { // it would wait for a writer
		t.Errorf("probes of a FIFO: %q", have)
	}
	programs := estimate(t, "uprobe:"+file+":busy { @ = count(); }")
	if len(programs) != 1 || len(programs[0].Cheaper) != 1 || programs[0].Cheaper[0].Probe != "usdt:"+file+":app:work" {
		t.Errorf("cheaper probes of busy: %+v", programs)
	}
}
