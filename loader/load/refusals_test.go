// SPDX-License-Identifier: Apache-2.0

package load

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"btc/internal/manifest"
	"btc/loader/diag"
	"btc/loader/host"
	"btc/loader/kerneltypes"
	"btc/loader/object"
)

// TestUntraceable checks the message of kernels that refuse a function without a line in the log (btf_id_deny before 6.17).
func TestUntraceable(t *testing.T) {
	p := &manifest.Program{Kind: "fentry", Attach: manifest.Attach{Text: "fentry:migrate_disable", Name: "migrate_disable"}}
	err := refusal(&manifest.Manifest{}, p, nil, 0, &ebpf.VerifierError{Cause: unix.EINVAL, Log: []string{"processed 0 insns (limit 1000000)"}}, nil)
	if !strings.Contains(err.Error(), "this kernel does not let the function migrate_disable be traced") || strings.Contains(err.Error(), "bug") {
		t.Error(err)
	}
}

// TestUnexplained checks the message for a rejected program without a log.
func TestUnexplained(t *testing.T) {
	for _, c := range []struct {
		kind       string
		err        error
		text, hint string
	}{
		{"kprobe", fmt.Errorf("load: %w", os.ErrPermission), "the kernel does not permit kprobe:f: permission denied", ""},
		{"fentry", fmt.Errorf("load: %w", unix.EPERM), "the kernel does not permit fentry:f: operation not permitted", "this kernel refuses programs at the entry and exit of its functions"},
		{"fexit", unix.EPERM, "the kernel does not permit fexit:f: operation not permitted", "this kernel refuses programs at the entry and exit of its functions"},
		{"kprobe", fmt.Errorf("load: %w", unix.EMFILE), "loading kprobe:f: too many open files", raiseFiles},
		{"kprobe", fmt.Errorf("load: %w", btf.ErrNotFound), "cannot adapt kprobe:f to this kernel: load: not found", ""},
		{"kprobe", btf.ErrNotSupported, "cannot adapt kprobe:f to this kernel: ", ""},
		{"kprobe", fmt.Errorf("load: %w", unix.EINVAL), "the kernel refused kprobe:f: load: invalid argument", ""},
	} {
		text, hint := unexplained(&manifest.Program{Kind: c.kind, Attach: manifest.Attach{Text: c.kind + ":f"}}, c.err)
		if !strings.HasPrefix(text, c.text) || !strings.HasPrefix(hint, c.hint) || c.hint == "" && strings.HasPrefix(hint, "this kernel refuses programs at the entry") {
			t.Errorf("%s, %v: message %q, hint %q, want %q, %q", c.kind, c.err, text, hint, c.text, c.hint)
		}
	}
}

// TestHints checks that a known reason from the kernel has a hint, and that an unknown one asks for a
// report.
func TestHints(t *testing.T) {
	for reason, want := range map[string]string{
		"unknown func bpf_x#999":                       "this kernel lacks a helper",
		"invalid func unknown#999":                     "this kernel lacks a helper",
		"program of this type cannot use helper bpf_x": "this kernel does not offer the function",
		"BPF program is too large. Processed 1000001":  "the script is too long",
		"The sequence of 8193 jumps is too complex.":   "the loop has too many iterations",
		"back-edge from insn 5 to 4":                   "this kernel does not accept such a loop",
		"infinite loop detected at insn 5":             "the verifier cannot see that the loop ends",
		"combined stack size of 2 calls is 544":        "the script needs too much stack",
		"calling kernel functions requires BPF JIT":    "the kernel's BPF compiler is off",
		"cannot call GPL-restricted function":          "the config key license must be GPL compatible",
		"R2 invalid mem access 'scalar'":               "this is a bug in the compiler",
	} {
		if got := hintFor(reason); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", reason, got, want)
		}
	}
}

// TestLogLines checks that the reason found in a log is its last line that is neither an instruction
// nor state.
func TestLogLines(t *testing.T) {
	for _, c := range []struct {
		log    string
		insn   int
		reason string
	}{
		{"", -1, "no reason given"},
		{"7: (b7) r0 = 0\nreason\n; @x = 1\ncur state: R0\nold state: R0\n\nverification time 3 usec\nstack depth 8\nmax_states_per_insn 0", 7, "reason"},
		{"  7: (b7) r0 = 0", 7, "7: (b7) r0 = 0"},
		{"7: (b7) r0 = 0\nfrom 3 to 9: R0=1\nx: (b7) z\n8: (b", 7, "8: (b"},
		{"0: (b7) r0 = 0", 0, "0: (b7) r0 = 0"},
	} {
		log := strings.Split(c.log, "\n")
		if got := lastInsn(log); got != c.insn {
			t.Errorf("%q: instruction %d, want %d", c.log, got, c.insn)
		}
		if got := lastReason(log); got != c.reason {
			t.Errorf("%q: reason %q, want %q", c.log, got, c.reason)
		}
	}
	if got := tail([]string{"a", "b", "c"}, 2); strings.Join(got, "") != "bc" {
		t.Errorf("last two lines = %v", got)
	}
}

// TestFieldsOfRefusal checks that the error names a field that the host lacks, and says where to find
// the existing ones.
func TestFieldsOfRefusal(t *testing.T) {
	poison := []string{"3: (85) call unknown#195896080", "invalid func unknown#195896080", "processed 4 insns"}
	number := []string{
		"; @ = REQ_OP_WRITE", "3: (18) r10 = 0xbad2310", "frame pointer is read only",
		"verification time 6483 usec", "stack depth 40", "processed 4 insns",
	}
	for _, c := range []struct {
		kind, typ  string
		insn       int
		log        []string
		text, hint string
	}{
		{"kprobe", "struct sock", 3, number, "this kernel has no field x in struct sock", "bpftool btf dump"},
		{"kprobe", "struct sock", 3, poison, "this kernel has no field x in struct sock", "bpftool btf dump"},
		{"tracepoint", "struct trace_event_raw_sched_switch", 3, poison, "this kernel has no field x", "cat /sys/kernel/tracing/events/sched/sched_switch/format"},
		{"tracepoint", "struct sock", 3, poison, "this kernel has no field x in struct sock", "bpftool btf dump"},
		{"kprobe", "struct sock", 4, poison, "the kernel refused k:f: invalid func unknown#195896080", "this kernel lacks a helper"},
		{"kprobe", "struct sock", 3, []string{"3: (85) call unknown#7", "invalid func unknown#7"}, "the kernel refused k:f: invalid func unknown#7", "this kernel lacks a helper"},
		{"kprobe", "struct sock", 3, []string{"3: (85) call 0xBAD2310", "no"}, "this kernel has no field x in struct sock", "bpftool btf dump"},
	} {
		m := &manifest.Manifest{Target: "6.12", Fields: []manifest.FieldUse{{Program: "other", Insn: c.insn, Type: "struct z", Path: "z"}, {Program: "p", Insn: c.insn, Type: c.typ, Path: "x", Pos: manifest.Pos{Line: 9, Col: 2}}}}
		p := &manifest.Program{Name: "p", Kind: c.kind, Attach: manifest.Attach{Text: "k:f", Target: "sched", Name: "sched_switch"}}
		var f *diag.Error
		if !errors.As(refusal(m, p, nil, 0, &ebpf.VerifierError{Cause: unix.EINVAL, Log: c.log}, nil), &f) {
			t.Fatal("not an error with a position")
		}
		if !strings.HasPrefix(f.Text, c.text) || !strings.Contains(f.Hint, c.hint) || (f.Pos.Line == 9) != strings.HasPrefix(c.text, "this kernel has no field") {
			t.Errorf("%s %s at %d: %q, %q at %v", c.kind, c.typ, c.insn, f.Text, f.Hint, f.Pos)
		}
		for _, note := range f.Notes {
			if strings.HasPrefix(note, "processed") {
				t.Error("message contains the instruction count")
			}
		}
	}
}

// TestMapErrors checks that failing to create a map is reported as an error of the host, with a hint.
func TestMapErrors(t *testing.T) {
	o := &object.Object{Manifest: &manifest.Manifest{Script: manifest.Script{File: "x.bt"}}}
	for _, c := range []struct {
		err, limit error
		want       string
	}{
		{unix.EPERM, unix.EINVAL, "kernels before 5.11 count maps as locked memory, and raising its limit failed: invalid argument"},
		{unix.EPERM, nil, "the kernel refused to create a map: operation not permitted ("},
		{unix.E2BIG, nil, "the kernel refused to create the maps of x.bt: map: argument list too long"},
		{unix.EMFILE, nil, "exceed the limit of open files"},
		{ebpf.ErrNotSupported, nil, host.Hint(unix.ENOSYS)},
	} {
		if c.limit != nil && host.HasSeccomp() {
			continue // which is then the more likely reason
		}
		if got := mapError(o, fmt.Errorf("map: %w", c.err), c.limit); !strings.Contains(got.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.err, got, c.want)
		}
	}
}

// TestNoTypes checks the messages if the kernel's types are unavailable.
func TestNoTypes(t *testing.T) {
	m := &manifest.Manifest{Fields: []manifest.FieldUse{{Pos: manifest.Pos{Line: 7}}}}
	for _, c := range []struct {
		given, path string
		err         error
		want        string
		line        int
	}{
		{"x.btf", "x.btf", &fs.PathError{Op: "open", Path: "x.btf", Err: fs.ErrNotExist}, "--btf x.btf: file does not exist", 0},
		{"x.btf", "x.btf", errors.New("bad"), "--btf x.btf: bad", 0},
		{"", kerneltypes.Path, fs.ErrNotExist, "this kernel has no BTF (" + kerneltypes.Path + " is missing)", 7},
		{"", kerneltypes.Path, errors.New("bad"), "the kernel's types cannot be read: bad", 0},
		{"", "/boot/x", errors.New("bad"), "the types of /boot/x cannot be read: bad", 0},
		{"", "/boot/x", fs.ErrNotExist, "the types of /boot/x cannot be read: file does not exist", 0},
	} {
		p := &programs{object: &object.Object{Manifest: m}, opts: Options{BTF: c.given}}
		err := p.noTypes(c.path, c.err)
		var f *diag.Error
		line := 0
		text := err.Error()
		if errors.As(err, &f) {
			text, line = f.Text, f.Pos.Line
		}
		if !strings.HasPrefix(text, c.want) || line != c.line {
			t.Errorf("%+v: %q at line %d", c, text, line)
		}
	}
}
