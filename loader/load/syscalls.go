// SPDX-License-Identifier: Apache-2.0

package load

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"btc/internal/arch"
	"btc/loader/kerneltypes"
	"btc/loader/resolve"
	"btc/loader/rewrite"
)

// sharer loads programs for the raw tracepoints of all system calls.
type sharer struct {
	regs    *arch.SyscallRegs
	compat  int32 // offset of regs.Field in struct task_struct
	numbers map[string]int
}

// newSharer looks up the facts about this kernel that the programs need.
func newSharer() (*sharer, error) {
	here := arch.Host()
	d := &sharer{regs: here.SyscallRegs, numbers: here.SyscallEvents()}
	blob, _, err := kerneltypes.Subset(kerneltypes.Path, []string{"task_struct"})
	if err != nil {
		return nil, err
	}
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(blob))
	if err != nil {
		return nil, err
	}
	var task *btf.Struct
	if err := spec.TypeByName("task_struct", &task); err != nil {
		return nil, err
	}
	info, at, ok := member(task, "thread_info")
	if !ok {
		return nil, fmt.Errorf("struct task_struct has no thread_info")
	}
	s, isStruct := info.(*btf.Struct)
	if !isStruct {
		return nil, fmt.Errorf("thread_info is not a struct")
	}
	_, in, ok := member(s, d.regs.Field)
	if !ok {
		return nil, fmt.Errorf("struct thread_info has no %s", d.regs.Field)
	}
	d.compat = int32(at + in)
	return d, nil
}

func member(s *btf.Struct, name string) (btf.Type, uint32, bool) {
	for _, m := range s.Members {
		if m.Name == name {
			return btf.UnderlyingType(m.Type), m.Offset.Bytes(), true
		}
	}
	return nil, 0, false
}

// table maps the number of a system call to the number of its attach point plus
// one; 0 means not traced.
func (d *sharer) table(plan *resolve.Plan) (*ebpf.Map, error) {
	content := make([]byte, 4*rewrite.SyscallSlots)
	for i := range plan.Matches {
		m := &plan.Matches[i]
		nr := d.numbers[strings.TrimPrefix(m.Name, plan.Direction+"_")]
		binary.LittleEndian.PutUint32(content[4*nr:], uint32(m.ID)+1)
	}
	return ebpf.NewMap(&ebpf.MapSpec{
		Name: "btc_syscalls", Type: ebpf.Array, KeySize: 4, ValueSize: uint32(len(content)), MaxEntries: 1,
		Contents: []ebpf.MapKV{{Key: uint32(0), Value: content}},
	})
}
