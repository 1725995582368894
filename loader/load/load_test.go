// SPDX-License-Identifier: Apache-2.0

package load

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"btc/internal/manifest"
	"btc/loader/diag"
	"btc/loader/object"
)

func TestRefusalReadsTheLog(t *testing.T) {
	log := []string{
		"0: R1=ctx() R10=fp0", "; @x = count() @ x.bt:3", "0: (b7) r0 = 0", "12: (61) r1 = *(u32 *)(r2 +0)",
		"R2 invalid mem access 'scalar'",
	}
	if n := lastInsn(log); n != 12 {
		t.Errorf("last instruction = %d", n)
	}
	if r := lastReason(append(log, "verification time 10 usec", "stack depth 0")); r != "R2 invalid mem access 'scalar'" {
		t.Errorf("reason = %q", r)
	}
	m := &manifest.Manifest{Script: manifest.Script{File: "x.bt", Source: "a\nb\n@x = c->nope;\n"}, Target: "6.12",
		Fields: []manifest.FieldUse{{Program: "p", Insn: 12, Type: "struct c", Path: "nope", Pos: manifest.Pos{Line: 3, Col: 6}}}}
	p := &manifest.Program{Name: "p", Attach: manifest.Attach{Text: "kprobe:f"}, Pos: manifest.Pos{Line: 1, Col: 1}}
	got := refusal(m, p, nil, 0, &ebpf.VerifierError{Cause: errFor("invalid argument"), Log: log}, nil).Error()
	if !strings.HasPrefix(got, "x.bt:1:1: error: the kernel refused kprobe:f: R2 invalid mem access 'scalar'") || !strings.Contains(got, "12: (61)") {
		t.Errorf("got\n%s", got)
	}
	poison := []string{"12: (85) call unknown#195896080", "invalid func unknown#195896080"}
	got = refusal(m, p, nil, 0, &ebpf.VerifierError{Cause: errFor("invalid argument"), Log: poison}, nil).Error()
	if !strings.HasPrefix(got, "x.bt:3:6: error: this kernel has no field nope in struct c\n 3 | @x = c->nope;\n   |      ^") {
		t.Errorf("got\n%s", got)
	}
	got = refusal(m, p, nil, 0, fmt.Errorf("load program: %w", unix.EFAULT), nil).Error()
	if !strings.HasPrefix(got, "x.bt:1:1: error: the kernel's verifier gave up on kprobe:f") || !strings.Contains(got, "hint") {
		t.Errorf("got\n%s", got)
	}
}

type errFor string

func (e errFor) Error() string { return string(e) }

// TestOpenFiles checks that if the process cannot open more files, the message says how to raise the
// limit.
func TestOpenFiles(t *testing.T) {
	full := fmt.Errorf("can't dup fd: %v", unix.EMFILE)
	text, hint := unexplained(&manifest.Program{Attach: manifest.Attach{Text: "kprobe:f"}}, full)
	if text != "loading kprobe:f: too many open files" || !strings.Contains(hint, "ulimit -n") {
		t.Errorf("for a program: %q, %q", text, hint)
	}
	var placed *diag.Error
	logged := &ebpf.VerifierError{Cause: unix.EMFILE, Log: []string{"[4] FUNC_PROTO (anon) return=2"}}
	if !errors.As(refusal(&manifest.Manifest{}, &manifest.Program{}, nil, 0, logged, nil), &placed) || !strings.Contains(placed.Hint, "ulimit -n") || len(placed.Notes) > 0 {
		t.Errorf("with a log: %+v", placed)
	}
	err := mapError(&object.Object{Manifest: &manifest.Manifest{Script: manifest.Script{File: "x.bt"}}}, full, nil)
	if !strings.Contains(err.Error(), "the maps of x.bt exceed the limit of open files") || !strings.Contains(err.Error(), "ulimit -n") {
		t.Errorf("for maps: %v", err)
	}
}
