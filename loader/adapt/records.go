// SPDX-License-Identifier: Apache-2.0

package adapt

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"btc/internal/kernelfs"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/diag"
)

// recordPrefix is the prefix of the structs that describe tracepoints' records.
const recordPrefix = "trace_event_raw_"

// formatOf reads the format file of a tracepoint.
type formatOf = func(group, event string) (*kernelfs.Format, error)

// recordTypes returns the types to relocate a tracepoint's program with. The format file describes the actual layout
// of the record. BTF can differ: in a distribution's kernel with a longer common part, if types for another kernel
// were supplied, or if a struct belongs to other events here than where the object was compiled. Where they differ
// the struct is changed to match the format file; a field that the format lacks is missing in this kernel. Without
// differences it returns types unchanged. Its error is a *diag.Error.
func recordTypes(m *manifest.Manifest, p *manifest.Program, events []Event, types *btf.Spec,
	read formatOf) (*btf.Spec, error) {
	changed := map[*btf.Struct]*btf.Struct{}
	for _, use := range m.Fields {
		name, ok := strings.CutPrefix(use.Type, "struct ")
		if use.Program != p.Name || !ok || !strings.HasPrefix(name, recordPrefix) || types == nil {
			continue
		}
		var own *btf.Struct
		if types.TypeByName(name, &own) != nil || changed[own] != nil {
			continue
		}
		right, from := (*btf.Struct)(nil), ""
		for _, e := range events {
			format, err := read(e.Group, e.Name)
			if err != nil {
				continue // attaching reports the error
			}
			now := asFormat(own, format)
			if right != nil && !sameLayout(now, right) {
				return nil, &diag.Error{
					Script: &m.Script,
					Pos:    use.Pos,
					Text: fmt.Sprintf("on this kernel %s and %s have different records, and one program cannot read both",
						from, e),
					Hint: "write a separate clause for each event",
				}
			}
			right, from = now, e.String()
		}
		if right != nil && !sameLayout(right, own) {
			changed[own] = right
		}
	}
	if len(changed) == 0 {
		return types, nil
	}
	return replaced(types, changed)
}

// asFormat returns a record's struct with its members at the offsets of the format file. Members that are not fields
// are kept: the common part and the data after the record.
func asFormat(s *btf.Struct, format *kernelfs.Format) *btf.Struct {
	out := *s
	out.Members = slices.Clone(s.Members)
	for i := range out.Members {
		m := &out.Members[i]
		if m.Name == "ent" || m.Name == "__data" || m.Name == "" {
			continue
		}
		at := slices.IndexFunc(format.Fields, func(f kernelfs.FormatField) bool { return memberName(&f) == m.Name })
		if at < 0 {
			m.Name = "__not_in_the_format_" + m.Name
			continue
		}
		f := &format.Fields[at]
		m.Offset = btf.Bits(f.Offset * 8)
		out.Size = max(out.Size, uint32(f.Offset+f.Size))
		if size, err := btf.Sizeof(m.Type); err == nil && size != f.Size {
			m.Type = ofSize(m.Type, f)
		}
	}
	// A struct's members are sorted by offset.
	sort.SliceStable(out.Members, func(i, j int) bool { return out.Members[i].Offset < out.Members[j].Offset })
	return &out
}

// sameLayout compares members by name, offset and size.
func sameLayout(a, b *btf.Struct) bool {
	return slices.EqualFunc(a.Members, b.Members, func(x, y btf.Member) bool {
		n, errN := btf.Sizeof(x.Type)
		m, errM := btf.Sizeof(y.Type)
		return x.Name == y.Name && x.Offset == y.Offset && n == m && (errN == nil) == (errM == nil)
	})
}

// ofSize returns the type of a field whose size differs from BTF's: integers get the format's width and sign, anything
// else becomes bytes, so that relocating it as an integer fails.
func ofSize(t btf.Type, f *kernelfs.FormatField) btf.Type {
	switch u := btf.UnderlyingType(t).(type) {
	case *btf.Int, *btf.Enum:
		if f.Size == 1 || f.Size == 2 || f.Size == 4 || f.Size == 8 {
			i := &btf.Int{Name: f.CType, Size: uint32(f.Size)}
			if f.Signed {
				i.Encoding = btf.Signed
			}
			return i
		}
	case *btf.Array:
		if n, err := btf.Sizeof(u.Type); err == nil && n > 0 && f.Size%n == 0 {
			return &btf.Array{Type: u.Type, Index: u.Index, Nelems: uint32(f.Size / n)}
		}
	}
	return &btf.Array{
		Type:   &btf.Int{Name: "unsigned char", Size: 1},
		Index:  &btf.Int{Name: "unsigned int", Size: 4},
		Nelems: uint32(f.Size),
	}
}

// memberName returns the name of a format's field in the record's struct.
func memberName(f *kernelfs.FormatField) string {
	for _, kind := range []string{"__data_loc", "__rel_loc"} {
		if strings.HasPrefix(f.CType, kind+" ") {
			return kind + "_" + f.Name
		}
	}
	return f.Name
}

// replaced returns all types with some structs replaced. Nothing refers to records.
func replaced(types *btf.Spec, changed map[*btf.Struct]*btf.Struct) (*btf.Spec, error) {
	b, err := btf.NewBuilder(nil, nil)
	if err != nil {
		return nil, err
	}
	for t, err := range types.All() {
		if err != nil {
			return nil, err
		}
		if s, ok := t.(*btf.Struct); ok && changed[s] != nil {
			t = changed[s]
		}
		if _, err := b.Add(t); err != nil {
			return nil, fmt.Errorf("cannot adapt the types of tracepoints: %w", err)
		}
	}
	return b.Spec()
}

// SyscallRecord is the name in the kernel's types of the struct that programs of system call tracepoints read.
// Kernels have two structs of that name, for entries and for exits.
const SyscallRecord = "syscall_tp_t"

// RelocatesRecord reports whether a program has relocations of its system call's record. Programs that do not read it
// and programs of older objects have none.
func RelocatesRecord(m *manifest.Manifest, program string, insns asm.Instructions) bool {
	return eachRecordRelocation(m, program, insns, func(*asm.Instruction) {})
}

// FixRecord removes the relocations of a system call's record: the program then reads at the offsets of mainline
// kernels, which checkSyscallRecords expects and the loader's own record (rewrite.Syscalls) has. It reports whether
// there were any.
func FixRecord(m *manifest.Manifest, program string, insns asm.Instructions) bool {
	return eachRecordRelocation(m, program, insns, func(i *asm.Instruction) {
		*i = btf.WithCORERelocationMetadata(*i, nil)
	})
}

func eachRecordRelocation(m *manifest.Manifest, program string, insns asm.Instructions,
	do func(*asm.Instruction)) bool {
	reads := map[int]bool{}
	for i := range m.Fields {
		if u := &m.Fields[i]; u.Program == program && strings.HasPrefix(u.Type, "struct "+SyscallRecord+"___") {
			reads[u.Insn] = true
		}
	}
	found, raw := false, 0
	for i := range insns {
		if reads[raw] && btf.CORERelocationMetadata(&insns[i]) != nil {
			found = true
			do(&insns[i])
		}
		raw += int(insns[i].Size()) / asm.InstructionSize
	}
	return found
}

// Expected offsets in the records of system calls: the number (4 bytes) and the first
// argument or the return value.
const (
	syscallNrOffset  = 8
	syscallArgOffset = 16
)

// checkSyscallRecords returns an error for a program of system call tracepoints without relocations if the records in
// the format files differ from what it reads. Kernels with a longer common part (real-time kernels, RHEL 9) have the
// number at byte 12 in the format file, and some of them at another offset in the record; programs that do not read
// the number work there, too. Objects without Program.Code may read it.
func checkSyscallRecords(m *manifest.Manifest, p *manifest.Program, events []Event, read formatOf) error {
	for _, e := range events {
		if e.Group != "syscalls" {
			continue
		}
		format, err := read(e.Group, e.Name)
		if err != nil {
			continue // attaching reports the error
		}
		if text := otherSyscallRecord(format, p.Code == nil || p.Code.RecordNr); text != "" {
			return &diag.Error{
				Script: &m.Script,
				Pos:    p.Pos,
				Text:   "this kernel lays the record of " + e.String() + " out differently: " + text,
			}
		}
	}
	return nil
}

func otherSyscallRecord(format *kernelfs.Format, readsNr bool) string {
	next := syscallArgOffset
	for i := range format.Fields {
		f := &format.Fields[i]
		switch {
		case f.Common() || strings.HasPrefix(f.CType, "__data_loc"): // strings of arguments, after them since 6.19
		case f.Name == "__syscall_nr" || f.Name == "nr" && f.Offset < syscallArgOffset:
			if f.Offset != syscallNrOffset && readsNr {
				return fmt.Sprintf("%s is at byte %d, not %d", f.Name, f.Offset, syscallNrOffset)
			}
		case f.Offset != next || f.Size != 8:
			return fmt.Sprintf("%s is %d bytes at byte %d, not 8 at byte %d", f.Name, f.Size, f.Offset, next)
		default:
			next += 8
		}
	}
	return ""
}

// checkRecord returns an error for a program that reads fields of a record at fixed offsets if the record of an event
// has other offsets. Its error is a *diag.Error.
func checkRecord(m *manifest.Manifest, p *manifest.Program, events []Event, read formatOf) error {
	for _, e := range events {
		if len(p.Record) == 0 {
			return nil
		}
		format, err := read(e.Group, e.Name)
		if err != nil {
			continue // attaching reports the error
		}
		for j := range p.Record {
			use := &p.Record[j]
			if text := otherField(use, format); text != "" {
				return &diag.Error{
					Script: &m.Script,
					Pos:    use.Pos,
					Text:   "this kernel lays the record of " + e.String() + " out differently: " + text,
					Hint:   "compile the script against this kernel: btc compile --target host",
				}
			}
		}
	}
	return nil
}

// otherField describes how a field in a format file differs from what a program reads, ""
// if it does not.
func otherField(use *manifest.RecordUse, format *kernelfs.Format) string {
	at := slices.IndexFunc(format.Fields, func(f kernelfs.FormatField) bool { return f.Name == use.Name })
	if at < 0 {
		return "it has no field " + use.Name
	}
	switch f := &format.Fields[at]; {
	case f.Offset != use.Offset || f.Size != use.Size:
		return fmt.Sprintf("%s is %d bytes at byte %d, not %d at byte %d", use.Name, f.Size, f.Offset, use.Size,
			use.Offset)
	case use.Sign != "" && use.Sign != sign(f.Signed):
		return use.Name + " is " + sign(f.Signed) + ", not " + use.Sign
	}
	return ""
}

// Event is a tracepoint that a program is to be attached to.
type Event struct{ Group, Name string }

func (e Event) String() string { return "tracepoint:" + e.Group + ":" + e.Name }

// Tracepoint returns the types for relocating a program that will be attached to events, on a kernel with the given
// types and with the format files that read returns. It returns types itself if the program is not of a tracepoint or
// nothing differs. A program that would misread a record is an error: a *diag.Error, or an error from building
// types.
func Tracepoint(m *manifest.Manifest, p *manifest.Program, insns asm.Instructions, events []Event, types *btf.Spec,
	read formatOf) (*btf.Spec, error) {
	if p.Kind != probe.Tracepoint {
		return types, nil
	}
	if !RelocatesRecord(m, p.Name, insns) {
		if err := checkSyscallRecords(m, p, events, read); err != nil {
			return nil, err
		}
	}
	if err := checkRecord(m, p, events, read); err != nil {
		return nil, err
	}
	return recordTypes(m, p, events, types, read)
}
