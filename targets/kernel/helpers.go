// SPDX-License-Identifier: Apache-2.0

package kernel

import "btc/internal/probe"

// ArgKind is what a helper requires of one argument, in the kernel's terms.
type ArgKind uint8

const (
	ArgAny         ArgKind = iota // any initialized scalar or pointer: the kernel does not check it
	ArgCtx                        // the program's context, unmodified
	ArgMap                        // a map
	ArgMapKey                     // pointer to a key of initialized bytes (stack, map value, ring buffer record)
	ArgMapValue                   // pointer to the map's value size of initialized bytes
	ArgMem                        // pointer to initialized bytes; the next argument is their number
	ArgMemOrNull                  // as ArgMem, or 0
	ArgMemOut                     // pointer to bytes to write, perhaps uninitialized; size in the next argument
	ArgSize                       // number of bytes of the pointer before it, known to be 1 or more and bounded
	ArgSizeOrZero                 // as ArgSize, but may be 0
	ArgAllocSize                  // constant number of bytes to allocate
	ArgRecord                     // ring buffer record, at its start; the call releases it
	ArgFunc                       // subprogram (callback)
	ArgStackOrNull                // pointer into the stack, or 0
	ArgConstStr                   // pointer to a zero-terminated string in a frozen read-only map
	ArgBTF                        // typed kernel pointer (struct named in the helper's row)
	ArgMemInOut                   // pointer to initialized bytes that the helper overwrites; size in the next argument
)

// ResultKind is what a helper returns in R0.
type ResultKind uint8

const (
	ResultInt      ResultKind = iota // scalar
	ResultVoid                       // R0 is not readable
	ResultMapValue                   // pointer to the map's value, or null
	ResultRecord                     // ring buffer record, or null
	ResultBTF                        // trusted typed kernel pointer, never null
)

// ProgSet is a set of program types.
type ProgSet uint16

// Progs makes a set.
func Progs(types ...probe.Program) ProgSet {
	var s ProgSet
	for _, k := range types {
		s |= 1 << k
	}
	return s
}

// Has reports whether k is in the set.
func (s ProgSet) Has(k probe.Program) bool { return s&(1<<k) != 0 }

var (
	allProgs = Progs(probe.Programs()...)
	notXDP   = allProgs &^ (1 << probe.ProgXDP)
)

const (
	tracing    ProgSet = 1<<probe.ProgTPBTF | 1<<probe.ProgFentry | 1<<probe.ProgFexit | 1<<probe.ProgIter
	trampoline ProgSet = 1<<probe.ProgFentry | 1<<probe.ProgFexit
)

// Helper is one kernel helper function.
type Helper struct {
	Name   string // without the bpf_ prefix
	ID     int32  // BPF_FUNC_*
	Since  Version
	Args   []ArgKind
	Result ResultKind
	Struct string // struct that ArgBTF or ResultBTF points to
	// Progs are the kinds of programs that may call it on the newest kernels; a kernel may be built or locked down
	// without probe_write_user and override_return.
	Progs ProgSet
	GPL   bool // only from programs with a GPL-compatible license
}

// HelperByName finds a helper by its name without the bpf_ prefix, or returns nil.
func HelperByName(name string) *Helper {
	for i := range helpers {
		if helpers[i].Name == name {
			return &helpers[i]
		}
	}
	return nil
}

// HelperByID finds a helper by its number, or returns nil.
func HelperByID(id int32) *Helper {
	for i := range helpers {
		if helpers[i].ID == id {
			return &helpers[i]
		}
	}
	return nil
}

// Helpers lists every row, in order of ID.
func Helpers() []Helper { return helpers }

// helpers is read-only. Ids are those of include/uapi/linux/bpf.h, argument
// kinds those of the helpers' bpf_func_proto, program kinds those of
// bpf_base_func_proto, bpf_tracing_func_proto and the *_prog_func_proto of
// kernel/trace/bpf_trace.c.
var helpers = []Helper{
	{"map_lookup_elem", 1, Version{3, 19}, args(ArgMap, ArgMapKey), ResultMapValue, "", allProgs, false},
	{"map_update_elem", 2, Version{3, 19}, args(ArgMap, ArgMapKey, ArgMapValue, ArgAny), ResultInt, "", allProgs, false},
	{"map_delete_elem", 3, Version{3, 19}, args(ArgMap, ArgMapKey), ResultInt, "", allProgs, false},
	{"probe_read", 4, Version{4, 1}, args(ArgMemOut, ArgSizeOrZero, ArgAny), ResultInt, "", notXDP, true},
	{"ktime_get_ns", 5, Version{4, 1}, nil, ResultInt, "", allProgs, false},
	{"trace_printk", 6, Version{4, 1}, args(ArgMem, ArgSize, ArgAny, ArgAny, ArgAny), ResultInt, "", allProgs, true},
	{"get_prandom_u32", 7, Version{4, 1}, nil, ResultInt, "", allProgs, false},
	{"get_smp_processor_id", 8, Version{4, 1}, nil, ResultInt, "", allProgs, false},
	{"get_current_pid_tgid", 14, Version{4, 2}, nil, ResultInt, "", allProgs, false},
	{"get_current_uid_gid", 15, Version{4, 2}, nil, ResultInt, "", allProgs, false},
	{"get_current_comm", 16, Version{4, 2}, args(ArgMemOut, ArgSize), ResultInt, "", allProgs, false},
	{"perf_event_output", 25, Version{4, 4}, args(ArgCtx, ArgMap, ArgAny, ArgMem, ArgSizeOrZero), ResultInt, "", allProgs, true},
	{"get_stackid", 27, Version{4, 6}, args(ArgCtx, ArgMap, ArgAny), ResultInt, "", notXDP, true},
	{"get_current_task", 35, Version{4, 8}, nil, ResultInt, "", allProgs, true},
	{"probe_write_user", 36, Version{4, 8}, args(ArgAny, ArgMem, ArgSize), ResultInt, "", notXDP, true},
	{"get_numa_node_id", 42, Version{4, 10}, nil, ResultInt, "", allProgs, false},
	{"probe_read_str", 45, Version{4, 11}, args(ArgMemOut, ArgSizeOrZero, ArgAny), ResultInt, "", notXDP, true},
	// Tracing programs since 5.12.
	{"get_socket_cookie", 46, Version{4, 12}, args(ArgBTF), ResultInt, "sock_common", tracing &^ (1 << probe.ProgIter), false},
	{"override_return", 58, Version{4, 16}, args(ArgCtx, ArgAny), ResultInt, "", Progs(probe.ProgKprobe), true},
	{"get_stack", 67, Version{4, 18}, args(ArgCtx, ArgMemOut, ArgSizeOrZero, ArgAny), ResultInt, "", notXDP, true},
	{"get_current_cgroup_id", 80, Version{4, 18}, nil, ResultInt, "", allProgs, false},
	{"send_signal", 109, Version{5, 3}, args(ArgAny), ResultInt, "", notXDP, false},
	{"skb_output", 111, Version{5, 5}, args(ArgBTF, ArgMap, ArgAny, ArgMem, ArgSizeOrZero), ResultInt, "sk_buff", tracing &^ (1 << probe.ProgIter), false},
	{"probe_read_user", 112, Version{5, 5}, args(ArgMemOut, ArgSizeOrZero, ArgAny), ResultInt, "", allProgs, true},
	{"probe_read_kernel", 113, Version{5, 5}, args(ArgMemOut, ArgSizeOrZero, ArgAny), ResultInt, "", allProgs, true},
	{"probe_read_user_str", 114, Version{5, 5}, args(ArgMemOut, ArgSizeOrZero, ArgAny), ResultInt, "", allProgs, true},
	{"probe_read_kernel_str", 115, Version{5, 5}, args(ArgMemOut, ArgSizeOrZero, ArgAny), ResultInt, "", allProgs, true},
	{"send_signal_thread", 117, Version{5, 6}, args(ArgAny), ResultInt, "", notXDP, false},
	{"jiffies64", 118, Version{5, 6}, nil, ResultInt, "", allProgs, false},
	{"get_ns_current_pid_tgid", 120, Version{5, 7}, args(ArgAny, ArgAny, ArgMemOut, ArgSize), ResultInt, "", allProgs, false},
	{"get_current_ancestor_cgroup_id", 123, Version{5, 7}, args(ArgAny), ResultInt, "", allProgs, false},
	{"ktime_get_boot_ns", 125, Version{5, 8}, nil, ResultInt, "", allProgs, false},
	{"seq_printf", 126, Version{5, 7}, args(ArgBTF, ArgMem, ArgSize, ArgMemOrNull, ArgSizeOrZero), ResultInt, "seq_file", Progs(probe.ProgIter), true},
	{"seq_write", 127, Version{5, 7}, args(ArgBTF, ArgMem, ArgSizeOrZero), ResultInt, "seq_file", Progs(probe.ProgIter), true},
	{"ringbuf_output", 130, Version{5, 8}, args(ArgMap, ArgMem, ArgSizeOrZero, ArgAny), ResultInt, "", allProgs, false},
	{"ringbuf_reserve", 131, Version{5, 8}, args(ArgMap, ArgAllocSize, ArgAny), ResultRecord, "", allProgs, false},
	{"ringbuf_submit", 132, Version{5, 8}, args(ArgRecord, ArgAny), ResultVoid, "", allProgs, false},
	{"ringbuf_discard", 133, Version{5, 8}, args(ArgRecord, ArgAny), ResultVoid, "", allProgs, false},
	{"ringbuf_query", 134, Version{5, 8}, args(ArgMap, ArgAny), ResultInt, "", allProgs, false},
	{"d_path", 147, Version{5, 10}, args(ArgBTF, ArgMemInOut, ArgSizeOrZero), ResultInt, "path", trampoline | 1<<probe.ProgIter, false},
	// Only in sleepable programs.
	{"copy_from_user", 148, Version{5, 10}, args(ArgMemOut, ArgSizeOrZero, ArgAny), ResultInt, "", notXDP, false},
	{"get_current_task_btf", 158, Version{5, 11}, nil, ResultBTF, "task_struct", allProgs, true},
	{"for_each_map_elem", 164, Version{5, 13}, args(ArgMap, ArgFunc, ArgStackOrNull, ArgAny), ResultInt, "", allProgs, false},
	{"snprintf", 165, Version{5, 13}, args(ArgMemInOut, ArgSizeOrZero, ArgConstStr, ArgMemOrNull, ArgSizeOrZero), ResultInt, "", allProgs, true},
	// fentry and fexit have it since 5.15 too.
	{"get_func_ip", 173, Version{5, 15}, args(ArgCtx), ResultInt, "", trampoline | 1<<probe.ProgKprobe, true},
	// fentry and fexit since 5.19, raw_tp and tp_btf since 6.10.
	{"get_attach_cookie", 174, Version{5, 15}, args(ArgCtx), ResultInt, "", notXDP &^ (1 << probe.ProgIter), false},
	{"task_pt_regs", 175, Version{5, 15}, args(ArgBTF), ResultBTF, "pt_regs", allProgs, true},
	{"loop", 181, Version{5, 17}, args(ArgAny, ArgFunc, ArgStackOrNull, ArgAny), ResultInt, "", allProgs, false},
	{"strncmp", 182, Version{5, 17}, args(ArgMem, ArgSize, ArgConstStr), ResultInt, "", allProgs, false},
	{"map_lookup_percpu_elem", 195, Version{5, 19}, args(ArgMap, ArgMapKey, ArgAny), ResultMapValue, "", allProgs, false},
	{"ktime_get_tai_ns", 208, Version{6, 1}, nil, ResultInt, "", allProgs, false},
}

func args(kinds ...ArgKind) []ArgKind { return kinds }
