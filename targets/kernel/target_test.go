// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func open(tb testing.TB) *Target {
	tb.Helper()
	t, err := Default("amd64")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := t.Err(); err != nil {
			tb.Error(err)
		}
	})
	return t
}

func TestDefault(t *testing.T) {
	tgt := open(t)
	if tgt.Arch().Name != "x86_64" || !strings.HasPrefix(tgt.Release(), "6.12") || len(tgt.Gaps()) != 0 {
		t.Errorf("arch = %s, release = %s, gaps = %v", tgt.Arch().Name, tgt.Release(), tgt.Gaps())
	}
	if _, err := Default("vax"); err == nil {
		t.Error("no error for an unknown architecture")
	}
}

func TestOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.target")
	if _, err := Open(path); !os.IsNotExist(err) {
		t.Errorf("missing file: error = %v", err)
	}
	if err := os.WriteFile(path, []byte(defaultX86), 0o644); err != nil {
		t.Fatal(err)
	}
	if tgt, err := Open(path); err != nil || !tgt.HasFunc("vfs_read") {
		t.Errorf("copy of the default: error = %v", err)
	}
	if err := os.WriteFile(path, []byte(defaultX86[:20]), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "truncated") {
		t.Errorf("truncated file: error = %v", err)
	}
}

// TestDamageIsKept checks that a file that is truncated after its directory can be opened, and that
// lookups then find nothing and set Err.
func TestDamageIsKept(t *testing.T) {
	tgt, err := New([]byte(defaultX86[:4096]))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := tgt.Struct("task_struct"); ok {
		t.Error("found a struct in a truncated file")
	}
	if err := tgt.Err(); err == nil || !strings.Contains(err.Error(), "truncated") {
		t.Errorf("Err() = %v", err)
	}
}

// TestFields checks fields with the same layout on all x86_64 kernels, by ABI or by tradition.
func TestFields(t *testing.T) {
	tgt := open(t)
	tests := []struct {
		typ, field string
		offset     int
		size       int
		text       string
		depth      int // length of Path
	}{
		{"pt_regs", "di", 112, 8, "long unsigned int", 1},
		{"pt_regs", "ip", 128, 8, "long unsigned int", 1},
		{"pt_regs", "cs", 136, 2, "u16", 2},
		{"list_head", "prev", 8, 8, "struct list_head *", 1},
		{"iphdr", "protocol", 9, 1, "__u8", 1},
		{"iphdr", "saddr", 12, 4, "__be32", 3},
		{"sockaddr_in", "sin_port", 2, 2, "__be16", 1},
		{"sock_common", "skc_daddr", 0, 4, "__be32", 3},
		{"sock_common", "skc_rcv_saddr", 4, 4, "__be32", 3},
		{"sock_common", "skc_dport", 12, 2, "__be16", 3},
		{"sock_common", "skc_num", 14, 2, "__u16", 3},
		{"sock_common", "skc_family", 16, 2, "short unsigned int", 1},
		{"sock", "__sk_common", 0, 136, "struct sock_common", 1},
		{"trace_event_raw_sched_switch", "prev_comm", 8, 16, "char[16]", 1},
		{"syscall_trace_enter", "args", 16, 0, "long unsigned int[0]", 1},
		{"bpf_iter__task", "task", 8, 8, "struct task_struct *", 2},
	}
	for _, c := range tests {
		typ, ok := tgt.Struct(c.typ)
		if !ok {
			t.Errorf("no struct %s", c.typ)
			continue
		}
		f, ok := typ.Field(c.field)
		if !ok {
			t.Errorf("no field %s in %s", c.field, typ)
			continue
		}
		if f.Offset != c.offset || f.Type.Size != c.size || f.Type.String() != c.text || len(f.Path) != c.depth {
			t.Errorf("%s.%s: offset %d, size %d, %s, path %v", c.typ, c.field, f.Offset, f.Type.Size, f.Type, f.Path)
		}
	}
}

func TestBitfield(t *testing.T) {
	tgt := open(t)
	iphdr, _ := tgt.Struct("iphdr")
	ihl, _ := iphdr.Field("ihl")
	version, _ := iphdr.Field("version")
	if ihl.BitSize != 4 || ihl.BitOffset != 0 || ihl.Offset != 0 || version.BitSize != 4 || version.BitOffset != 4 {
		t.Errorf("iphdr.ihl = %+v, version = %+v", ihl, version)
	}
	tcp, _ := tgt.Struct("tcphdr")
	syn, _ := tcp.Field("syn")
	if syn.Offset != 12 || syn.BitOffset != 9 || syn.BitSize != 1 || syn.Type.Size != 2 {
		t.Errorf("tcphdr.syn = %+v", syn)
	}
}

func TestPathAndAccess(t *testing.T) {
	tgt := open(t)
	typ, _ := tgt.Struct("sock_common")
	f, _ := typ.Field("skc_num")
	at := typ
	for i, index := range f.Path {
		m := at.Members[index]
		if last := i == len(f.Path)-1; last != (m.Name == "skc_num") {
			t.Fatalf("path %v leads to %q", f.Path, m.Name)
		}
		at = m.Type()
	}
	if want := "0:2:1:1"; f.Access() != want {
		t.Errorf("Access() = %s, want %s", f.Access(), want)
	}
}

// TestIdentity checks that looking up the same type twice gives the same Type: the checker compares
// pointers.
func TestIdentity(t *testing.T) {
	tgt := open(t)
	a, _ := tgt.Struct("task_struct")
	parent, _ := a.Field("real_parent")
	if parent.Type.Kind != Pointer || parent.Type.Elem() != a {
		t.Errorf("task_struct.real_parent = %s", parent.Type)
	}
	if leader, _ := a.Field("group_leader"); leader.Type != parent.Type {
		t.Error("two pointers to the same struct have different types")
	}
}

func TestNamedTypes(t *testing.T) {
	tgt := open(t)
	u32, ok := tgt.Typedef("u32")
	if !ok || u32.Size != 4 || u32.Resolve().Kind != Int || u32.Resolve().Signed {
		t.Errorf("u32 = %+v", u32)
	}
	if pid, _ := tgt.Typedef("pid_t"); pid == nil || !pid.Resolve().Signed {
		t.Error("pid_t is not signed")
	}
	if b, _ := tgt.Base("_Bool"); b == nil || !b.Bool || b.Size != 1 {
		t.Error("wrong type of _Bool")
	}
	if c, _ := tgt.Base("char"); c == nil || !c.Char || c.Size != 1 {
		t.Error("wrong type of char")
	}
	enum, value, ok := tgt.EnumConst("TCP_ESTABLISHED")
	if !ok || value != 1 || enum.Kind != Enum {
		t.Errorf("TCP_ESTABLISHED = %d, %v", value, ok)
	}
	if _, value, _ := tgt.EnumConst("BPF_FUNC_ringbuf_reserve"); value != 131 {
		t.Errorf("BPF_FUNC_ringbuf_reserve = %d", value)
	}
	if _, ok := tgt.Struct("no_such_struct"); ok {
		t.Error("found no_such_struct")
	}
	if _, ok := tgt.Union("bpf_attr"); !ok {
		t.Error("no union bpf_attr")
	}
}

func TestParseType(t *testing.T) {
	tgt := open(t)
	for text, want := range map[string]string{
		"const char *":              "char *",
		"struct sock *":             "struct sock *",
		"unsigned long":             "long unsigned int",
		"long long":                 "long long int",
		"char[16]":                  "char[16]",
		"const char *const *":       "char **",
		"umode_t":                   "umode_t",
		"struct sockaddr __user *":  "struct sockaddr *",
		"u8[2][3]":                  "u8[3][2]", // Elem first: String prints the inner dimension first
		"bool":                      "_Bool",
		"void *":                    "void *",
		"enum bpf_cmd":              "enum bpf_cmd",
		"unsigned":                  "unsigned int",
		"struct no_such_struct *":   "",
		"":                          "",
		"int[x]":                    "",
		"int long frog":             "",
		"struct task_struct * [12]": "struct task_struct *[12]",
	} {
		typ, ok := tgt.ParseType(text)
		if ok != (want != "") || ok && typ.String() != want {
			t.Errorf("ParseType(%q) = %v, %v, want %q", text, typ, ok, want)
		}
	}
}

func TestAlign(t *testing.T) {
	tgt := open(t)
	for name, want := range map[string]int{"sockaddr_in": 4, "list_head": 8, "iphdr": 4, "desc_ptr": 1, "qstr": 8} {
		typ, _ := tgt.Struct(name)
		if got := typ.Align(); got != want {
			t.Errorf("alignment of struct %s = %d, want %d", name, got, want)
		}
	}
}

// TestEventClasses checks that the classes of these events are those of the kernel's
// include/trace/events.
func TestEventClasses(t *testing.T) {
	tgt := open(t)
	for event, class := range map[string]string{
		"sched:sched_switch":             "sched_switch",
		"sched:sched_wakeup":             "sched_wakeup_template",
		"sched:sched_wakeup_new":         "sched_wakeup_template",
		"sched:sched_process_exit":       "sched_process_template",
		"sched:sched_process_exec":       "sched_process_exec",
		"sched:sched_stat_iowait":        "sched_stat_template",
		"raw_syscalls:sys_enter":         "sys_enter",
		"raw_syscalls:sys_exit":          "sys_exit",
		"timer:hrtimer_start":            "hrtimer_start",
		"timer:hrtimer_cancel":           "hrtimer_class",
		"block:block_rq_issue":           "block_rq",
		"block:block_rq_insert":          "block_rq",
		"block:block_rq_complete":        "block_rq_completion",
		"irq:softirq_entry":              "softirq",
		"kmem:mm_page_alloc":             "mm_page_alloc",
		"net:netif_receive_skb":          "net_dev_template",
		"skb:kfree_skb":                  "kfree_skb",
		"tcp:tcp_retransmit_skb":         "tcp_event_sk_skb",
		"sock:inet_sock_set_state":       "inet_sock_set_state",
		"vmscan:mm_vmscan_wakeup_kswapd": "mm_vmscan_wakeup_kswapd",
		"ext4:ext4_es_insert_extent":     "ext4__es_extent",
		"signal:signal_generate":         "signal_generate",
		"task:task_newtask":              "task_newtask",
	} {
		category, name, _ := strings.Cut(event, ":")
		ev, ok := tgt.Tracepoint(category, name)
		if !ok || ev.Class != "trace_event_raw_"+class {
			t.Errorf("%s = %+v, want class %s", event, ev, class)
		}
	}
}

// TestEventFieldsAgreeWithStructs checks that every field of every event has the same offset in the
// event as in the class struct.
func TestEventFieldsAgreeWithStructs(t *testing.T) {
	tgt := open(t)
	checked := 0
	for _, event := range tgt.Tracepoints("*", "*") {
		category, name, _ := strings.Cut(event, ":")
		ev, ok := tgt.Tracepoint(category, name)
		if !ok {
			t.Errorf("listed but not found: %s", event)
			continue
		}
		s := ev.Struct()
		if s == nil {
			if ev.Class != "" {
				t.Errorf("%s: no struct %s", event, ev.Class)
			}
			continue
		}
		for _, f := range ev.Fields {
			m, ok := s.Field(f.Member)
			if !ok || category != "syscalls" && (m.Offset != f.Offset || m.Type.Size != f.Size) {
				t.Errorf("%s: field %s at %d+%d, but %+v in %s", event, f.Name, f.Offset, f.Size, m, s)
			}
			checked++
		}
	}
	if checked < 5000 {
		t.Errorf("compared only %d fields", checked)
	}
}

func TestTracepointFields(t *testing.T) {
	tgt := open(t)
	ev, _ := tgt.Tracepoint("block", "block_rq_issue")
	cmdField, ok := ev.Field("cmd")
	if !ok || !cmdField.DataLoc || cmdField.Member != "__data_loc_cmd" || cmdField.Type().String() != "char[0]" {
		t.Errorf("cmd = %+v", cmdField)
	}
	fn, _ := tgt.Tracepoint("timer", "hrtimer_start")
	if f, ok := fn.Field("function"); !ok || f.Type().Kind != Pointer || f.Offset != 16 {
		t.Errorf("hrtimer_start.function = %+v", f)
	}
	if got := ev.SuggestField("sectr"); got != "sector" {
		t.Errorf("suggestion for sectr = %q", got)
	}
	if _, ok := tgt.Tracepoint("sched", "nonsense"); ok {
		t.Error("found sched:nonsense")
	}
	if got := tgt.Tracepoints("sched", "sched_wak*"); !cmp.Equal(got, []string{"sched:sched_wake_idle_without_ipi", "sched:sched_wakeup", "sched:sched_wakeup_new", "sched:sched_waking"}) {
		t.Errorf("events matching sched:sched_wak* = %v", got)
	}
}

func TestSyscalls(t *testing.T) {
	tgt := open(t)
	ev, ok := tgt.Tracepoint("syscalls", "sys_enter_openat")
	if !ok || ev.Class != "syscall_trace_enter" {
		t.Fatalf("sys_enter_openat = %+v", ev)
	}
	f, ok := ev.Field("filename")
	if !ok || f.Offset != 24 || f.CType != "const char *" || !f.User || f.Type().String() != "char *" {
		t.Errorf("filename = %+v", f)
	}
	if nr, _ := ev.Field("__syscall_nr"); nr.Offset != 8 || nr.Size != 4 {
		t.Errorf("__syscall_nr = %+v", nr)
	}
	exit, ok := tgt.Tracepoint("syscalls", "sys_exit_openat")
	if ret, _ := exit.Field("ret"); !ok || ret.Offset != 16 || ret.Type().String() != "long int" {
		t.Errorf("ret = %+v", ret)
	}
	for name, want := range map[string]int{"read": 0, "openat": 257, "newfstat": 5, "io_uring_setup": 425} {
		if s, ok := tgt.Syscall(name); !ok || s.Nr != want {
			t.Errorf("system call %s = %+v", name, s)
		}
	}
	if got := tgt.Syscalls("open*"); !cmp.Equal(got, []string{"open", "open_by_handle_at", "open_tree", "openat", "openat2"}) {
		t.Errorf("system calls matching open* = %v", got)
	}
	for pattern, want := range map[string][]string{
		"sys_*_openat": {"syscalls:sys_enter_openat", "syscalls:sys_exit_openat"},
	} {
		if got := tgt.Tracepoints("syscalls", pattern); !cmp.Equal(got, want) {
			t.Errorf("tracepoints matching %s = %v, want %v", pattern, got, want)
		}
	}
	if len(tgt.Tracepoints("syscalls", "sys_enter_*")) < 300 {
		t.Error("too few system calls")
	}
}

func TestFuncs(t *testing.T) {
	tgt := open(t)
	f, ok := tgt.Func("tcp_sendmsg")
	if !ok || !f.Traceable || f.Proto.String() != "int (struct sock *, struct msghdr *, size_t)" {
		t.Errorf("tcp_sendmsg = %+v", f)
	}
	if f.Proto.Params[0].Name != "sk" {
		t.Errorf("first parameter of tcp_sendmsg = %q", f.Proto.Params[0].Name)
	}
	if tgt.HasFunc("tcp_sendmesg") {
		t.Error("found tcp_sendmesg")
	}
	if got := tgt.SuggestFunc("tcp_sendmesg"); got != "tcp_sendmsg" {
		t.Errorf("suggestion for tcp_sendmesg = %q", got)
	}
	if got := tgt.Funcs("vfs_read*"); !cmp.Equal(got, []string{"vfs_read", "vfs_readlink", "vfs_readv"}) {
		t.Errorf("functions matching vfs_read* = %v", got)
	}
	if got := len(tgt.Funcs("*")); got < 39000 {
		t.Errorf("only %d functions", got)
	}
}

func TestRawTracepointsAndIterators(t *testing.T) {
	tgt := open(t)
	proto, ok := tgt.RawTracepoint("sched_switch")
	if !ok || proto.String() != "void (bool, struct task_struct *, struct task_struct *, unsigned int)" {
		t.Errorf("sched_switch = %v", proto)
	}
	if got := tgt.RawTracepoints("sched_wakeup*"); !cmp.Equal(got, []string{"sched_wakeup", "sched_wakeup_new"}) {
		t.Errorf("raw tracepoints matching sched_wakeup* = %v", got)
	}
	iter, ok := tgt.Iter("task_file")
	if !ok || len(iter.Params) != 4 || iter.Params[1].Type().String() != "struct task_struct *" {
		t.Errorf("iter task_file = %v", iter)
	}
	if got := tgt.Iters(); !slices.Contains(got, "task") || !slices.Contains(got, "bpf_map") || !slices.Contains(got, "tcp") {
		t.Errorf("iterators = %v", got)
	}
}

func TestSuggest(t *testing.T) {
	tgt := open(t)
	task, _ := tgt.Struct("task_struct")
	for name, want := range map[string]string{"state": "__state", "real_parnet": "real_parent", "qqqq": ""} {
		if got := task.SuggestField(name); got != want {
			t.Errorf("Suggest(%s) = %q, want %q", name, got, want)
		}
	}
}
