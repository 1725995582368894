// SPDX-License-Identifier: Apache-2.0

package load

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/adapt"
	"btc/loader/diag"
	"btc/loader/host"
	"btc/loader/kerneltypes"
)

// logTail is the number of lines of the kernel's log that are shown: the reason and the last instructions before it.
const logTail = 6

// refusal translates the kernel's error for a program, and its verifier log, to terms of the
// script. head is the number of slots that the loader has put in front of the object's instructions. lacks describes a
// field that could not be relocated; nil: as missing.
func refusal(m *manifest.Manifest, mp *manifest.Program, insns asm.Instructions, head int, err error,
	lacks func(*manifest.FieldUse) string) error {
	f := &diag.Error{Script: &m.Script, Pos: mp.Pos, Cause: err}
	var ve *ebpf.VerifierError
	scarce := outOfFiles(err) || errors.Is(err, unix.ENOMEM) // the log does not mention it
	if scarce || !errors.As(err, &ve) || len(ve.Log) == 0 {
		f.Text, f.Hint = unexplained(mp, err)
		return f
	}
	log := ve.Log
	if n := len(log); n > 0 && strings.HasPrefix(log[n-1], "processed ") {
		log = log[:n-1]
	}
	insn := lastInsn(log)
	if pos, ok := lineOf(insns, insn); ok {
		f.Pos = pos
	}
	if use := fieldAt(m, mp, insn-head); use != nil && isPoison(log) {
		f.Pos = use.Pos
		if f.Text = "this kernel has no " + use.String(); lacks != nil {
			f.Text = lacks(use)
		}
		if use.Module != "" && strings.HasSuffix(f.Text, adapt.NotLoaded) {
			f.Hint = "load the module: modprobe " + use.Module
			return f
		}
		f.Hint = "the type differs on this kernel (" + m.Target + " was compiled for); see it with: bpftool btf dump file /sys/kernel/btf/vmlinux format c"
		if a := &mp.Attach; mp.Kind == probe.Tracepoint && strings.HasPrefix(use.Type, "struct trace_event_raw_") {
			f.Hint = "the event differs on this kernel (" + m.Target + " was compiled for); see its fields with: cat /sys/kernel/tracing/events/" + a.Target + "/" + a.Name + "/format"
		}
		return f
	}
	if text, hint, ok := causeOf(mp, log); ok {
		f.Text, f.Hint = text, hint
		return f
	}
	if len(log) == 0 && (mp.Kind == probe.Fentry || mp.Kind == probe.Fexit) { // btf_id_deny has had a message since 6.17
		f.Text, f.Hint = "this kernel does not let the function "+mp.Attach.Name+" be traced", "use a kprobe, or probe another function"
		return f
	}
	reason := lastReason(log)
	f.Text = fmt.Sprintf("the kernel refused %s: %s", mp.Attach.Text, reason)
	f.Notes = tail(log, logTail)
	f.Hint = hintFor(reason)
	return f
}

// unexplained covers refusals without a verifier log.
func unexplained(mp *manifest.Program, err error) (text, hint string) {
	cause := errors.Unwrap(err)
	for cause != nil && errors.Unwrap(cause) != nil {
		cause = errors.Unwrap(cause)
	}
	if cause == nil {
		cause = err
	}
	switch {
	case errors.Is(err, os.ErrPermission) && (mp.Kind == probe.Fentry || mp.Kind == probe.Fexit):
		return fmt.Sprintf("the kernel does not permit %s: %v", mp.Attach.Text, cause),
			"this kernel refuses programs at the entry and exit of its functions: " + host.Reason() + "; use a tracepoint, rawtracepoint or kprobe instead"
	case errors.Is(err, os.ErrPermission):
		return fmt.Sprintf("the kernel does not permit %s: %v", mp.Attach.Text, cause), host.Reason()
	case errors.Is(err, unix.EFAULT): // newer kernels return this instead of E2BIG, and the library then drops the log
		return fmt.Sprintf("the kernel's verifier gave up on %s: the program has too many paths, or a loop too many iterations",
				mp.Attach.Text),
			"give loops a smaller bound, or use for ($i : 0..N); bpftool -d prog loadall shows the verifier's log"
	case errors.Is(err, ebpf.ErrNotSupported) && kernelHasNoTypes():
		return fmt.Sprintf("%s: this kernel has no BTF (%s is missing), and such programs are checked against it",
				mp.Attach.Text, kerneltypes.Path),
			"a kernel built with CONFIG_DEBUG_INFO_BTF=y is needed"
	case outOfFiles(err):
		return fmt.Sprintf("loading %s: %v", mp.Attach.Text, unix.EMFILE), raiseFiles
	case errors.Is(err, btf.ErrNotFound), errors.Is(err, btf.ErrNotSupported):
		return fmt.Sprintf("cannot adapt %s to this kernel: %v", mp.Attach.Text, err), ""
	}
	return fmt.Sprintf("the kernel refused %s: %v", mp.Attach.Text, err), host.Hint(err)
}

func kernelHasNoTypes() bool {
	_, err := os.Stat(kerneltypes.Path)
	return errors.Is(err, fs.ErrNotExist)
}

// lastInsn returns the index of the last instruction that the log shows: lines of
// the form "12: (85) call ...".
func lastInsn(log []string) int {
	for i := len(log) - 1; i >= 0; i-- {
		num, rest, ok := strings.Cut(strings.TrimSpace(log[i]), ": (")
		if !ok || len(rest) < 3 || rest[2] != ')' {
			continue
		}
		if n, err := strconv.Atoi(num); err == nil {
			return n
		}
	}
	return -1
}

// lineOf finds the script's position of an instruction in the object's line information.
func lineOf(insns asm.Instructions, index int) (manifest.Pos, bool) {
	pos, found := manifest.Pos{}, false
	raw := 0
	for i := range insns {
		if raw > index {
			break
		}
		if line, ok := insns[i].Source().(*btf.Line); ok {
			pos, found = manifest.Pos{Line: int(line.LineNumber()), Col: max(int(line.LineColumn()), 1)}, true
		}
		raw += int(insns[i].Size()) / asm.InstructionSize
	}
	return pos, found && index >= 0
}

func fieldAt(m *manifest.Manifest, mp *manifest.Program, insn int) *manifest.FieldUse {
	for i := range m.Fields {
		if u := &m.Fields[i]; u.Program == mp.Name && u.Insn == insn {
			return u
		}
	}
	return nil
}

// isPoison reports whether the last instruction is the poison of a failed CO-RE relocation: a call of the helper
// 0xbad2310 or, instead of a 64-bit load, a load of that number into r10, which is read-only.
func isPoison(log []string) bool {
	for _, line := range tail(log, poisonTail) {
		if strings.Contains(line, "195896080") || strings.Contains(strings.ToLower(line), "0xbad2310") {
			return true
		}
	}
	return false
}

// poisonTail is the number of lines at the end of a log that isPoison searches: the poison is the last instruction,
// followed by its error and up to two lines of statistics.
const poisonTail = 4

// lastReason returns the log's last line that is neither an instruction nor state.
func lastReason(log []string) string {
	for i := len(log) - 1; i >= 0; i-- {
		line := strings.TrimSpace(log[i])
		switch {
		case line == "",
			strings.HasPrefix(line, ";"),
			strings.HasPrefix(line, "cur state:"),
			strings.HasPrefix(line, "old state:"),
			strings.HasPrefix(line, "verification time"),
			strings.HasPrefix(line, "stack depth"),
			strings.HasPrefix(line, "max_states"):
			continue
		}
		return line
	}
	return "no reason given"
}

func tail(lines []string, n int) []string { return lines[max(len(lines)-n, 0):] }

// hints maps messages in the kernel's log to advice.
var hints = []struct{ word, hint string }{
	{"unknown func", "this kernel lacks a helper that the script needs; a newer kernel has it"},
	{"invalid func", "this kernel lacks a helper that the script needs; a newer kernel has it"},
	{"program of this type cannot use helper", "this kernel does not offer the function to this kind of probe; use another kind of probe"},
	{"BPF program is too large", "the script is too long for this kernel's verifier: split it, or make its loops shorter"},
	{"too many jumps", "the script is too long for this kernel's verifier: split it, or make its loops shorter"},
	{"back-edge from insn", "this kernel does not accept such a loop: count its iterations, as in while ($i < 100 && ...) { $i++; ... }, or use for ($i : 0..N)"},
	{"infinite loop detected", "the verifier cannot see that the loop ends: count its iterations, as in while ($i < 100 && ...) { $i++; ... }, or use for ($i : 0..N)"},
	{"The sequence of", "the loop has too many iterations for this kernel's verifier: give it a smaller bound, or use for ($i : 0..N)"},
	{"combined stack size", "the script needs too much stack: use fewer or shorter strings"},
	{"requires BPF JIT", "the kernel's BPF compiler is off: sysctl net.core.bpf_jit_enable=1"},
	{"GPL", "the config key license must be GPL compatible for this function"},
}

func hintFor(reason string) string {
	for _, h := range hints {
		if strings.Contains(reason, h.word) {
			return h.hint
		}
	}
	return "this is a bug in the compiler, unless the object was modified: please report it with the script and the output of btrun -v"
}
