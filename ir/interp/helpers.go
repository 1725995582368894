// SPDX-License-Identifier: Apache-2.0

package interp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sort"

	"btc/ir"
)

// helperFunc is a BPF helper. The number and kinds of arguments are checked.
type helperFunc func(fr *frame, v *ir.Value) int64

// both combines two 32-bit halves.
func both(high, low uint32) uint64 { return uint64(high)<<32 | uint64(low) }

func helperInput(get func(in *Input) uint64) helperFunc { return helperFunc(input(get)) }

// helperTable has the helpers that generated code calls. Any other helper stops the run.
func helperTable() map[string]helperFunc {
	return map[string]helperFunc{
		"map_lookup_elem":         mapLookup,
		"map_lookup_percpu_elem":  mapLookupPercpu,
		"map_update_elem":         mapUpdate,
		"map_delete_elem":         mapDelete,
		"for_each_map_elem":       forEach,
		"loop":                    loop,
		"probe_read":              probeRead(true, true),
		"probe_read_kernel":       probeRead(true, false),
		"probe_read_user":         probeRead(false, true),
		"copy_from_user":          probeRead(false, true),
		"probe_read_str":          probeReadStr(false),
		"probe_read_kernel_str":   probeReadStr(false),
		"probe_read_user_str":     probeReadStr(true),
		"probe_write_user":        writeUser,
		"ktime_get_ns":            helperInput(func(in *Input) uint64 { return in.Mono }),
		"ktime_get_coarse_ns":     helperInput(func(in *Input) uint64 { return in.Mono }),
		"ktime_get_boot_ns":       helperInput(func(in *Input) uint64 { return in.Boot }),
		"ktime_get_tai_ns":        helperInput(func(in *Input) uint64 { return in.TAI }),
		"jiffies64":               helperInput(func(in *Input) uint64 { return in.Jiffy }),
		"get_smp_processor_id":    helperInput(func(in *Input) uint64 { return uint64(in.CPU) }),
		"get_numa_node_id":        helperInput(func(in *Input) uint64 { return in.NUMA }),
		"get_current_pid_tgid":    helperInput(func(in *Input) uint64 { return both(in.PID, in.TID) }),
		"get_current_uid_gid":     helperInput(func(in *Input) uint64 { return both(in.GID, in.UID) }),
		"get_current_cgroup_id":   helperInput(func(in *Input) uint64 { return in.Cgroup }),
		"get_current_task":        helperInput(func(in *Input) uint64 { return in.Task }),
		"get_current_task_btf":    helperInput(func(in *Input) uint64 { return in.Task }),
		"task_pt_regs":            helperInput(func(in *Input) uint64 { return in.TaskRegs }),
		"get_func_ip":             helperInput(func(in *Input) uint64 { return in.FuncIP }),
		"get_attach_cookie":       helperInput(func(in *Input) uint64 { return uint64(in.AttachID) }),
		"get_ns_current_pid_tgid": nsPid,
		"get_prandom_u32":         func(fr *frame, _ *ir.Value) int64 { return fr.random() },
		"get_current_comm":        currentComm,
		"get_stack":               getStack,
		"ringbuf_reserve":         reserve,
		"ringbuf_submit":          func(fr *frame, v *ir.Value) int64 { return fr.finishRecord(v, true) },
		"ringbuf_discard":         func(fr *frame, v *ir.Value) int64 { return fr.finishRecord(v, false) },
		"ringbuf_output":          ringOutput,
		"ringbuf_query":           helperInput(func(*Input) uint64 { return 0 }),
		"strncmp":                 strncmp,
		"override_return":         action("override", 1),
		"send_signal":             action("signal", 0),
		"send_signal_thread":      action("signal_thread", 0),
		"trace_printk": func(fr *frame, v *ir.Value) int64 {
			fr.trace(fr.cString(fr.arg(v, 0)), v.Args[2:], func(i int) int64 { return fr.arg(v, 2+i) })
			return 0
		},
		"d_path":            func(fr *frame, v *ir.Value) int64 { return fr.path(fr.arg(v, 1), int(fr.arg(v, 2)), fr.arg(v, 0)) },
		"get_socket_cookie": func(fr *frame, v *ir.Value) int64 { return cookie(fr.arg(v, 0)) },
		"skb_output": func(fr *frame, v *ir.Value) int64 {
			rec := fr.bytes(fr.arg(v, 3), int(fr.arg(v, 4)), false)
			fr.skbOutput(fr.arg(v, 0), getUint(rec[16:24]), getUint(rec[24:32]))
			return 0
		},
	}
}

func action(name string, arg int) helperFunc {
	return func(fr *frame, v *ir.Value) int64 {
		fr.Actions = append(fr.Actions, fmt.Sprintf("%s(%d)", name, fr.arg(v, arg)))
		return 0
	}
}

// key returns the bytes of the key argument.
func (fr *frame) key(v *ir.Value) (*bpfMap, []byte) {
	b := fr.mapOf(v)
	return b, append([]byte(nil), fr.bytes(fr.arg(v, 1), b.spec.KeySize, false)...)
}

func mapLookup(fr *frame, v *ir.Value) int64 {
	b, key := fr.key(v)
	return int64(b.lookup(key, fr.in.CPU))
}

func mapLookupPercpu(fr *frame, v *ir.Value) int64 {
	b, key := fr.key(v)
	cpu := fr.arg(v, 2)
	if cpu < 0 || cpu >= CPUs {
		return 0
	}
	return int64(b.lookup(key, int(cpu)))
}

func mapUpdate(fr *frame, v *ir.Value) int64 {
	b, key := fr.key(v)
	value := fr.bytes(fr.arg(v, 2), b.spec.ValueSize, false)
	return b.update(key, bytes.Clone(value), fr.arg(v, 3), fr.in.CPU)
}

func mapDelete(fr *frame, v *ir.Value) int64 {
	b, key := fr.key(v)
	switch {
	case b.array():
		return einval
	case b.delete(key):
		return 0
	}
	return enoent
}

// callback runs a subprogram with as many of the arguments as it has parameters.
func (fr *frame) callback(name string, args ...int64) int64 {
	f := fr.Module.Func(name)
	if f == nil || len(f.Params) > len(args) {
		fr.trap("callback %s", name)
	}
	return fr.call(f, args[:len(f.Params)])
}

func forEach(fr *frame, v *ir.Value) int64 {
	b := fr.mapOf(v)
	n := int64(0)
	for _, s := range append([]string(nil), b.order...) {
		e := b.entries[s]
		if e == nil {
			continue
		}
		key := fr.mem.alloc("key", []byte(s))
		n++
		if fr.callback(v.Args[1].Sym, 0, int64(key), int64(b.lookup(e.key, fr.in.CPU)), fr.arg(v, 2)) != 0 {
			break
		}
	}
	return n
}

func loop(fr *frame, v *ir.Value) int64 {
	n := fr.arg(v, 0)
	if n > 1<<23 {
		return e2big
	}
	for i := range n {
		if fr.callback(v.Args[1].Sym, i, fr.arg(v, 2)) != 0 {
			return i + 1
		}
	}
	return n
}

func probeRead(kernel, user bool) helperFunc {
	return func(fr *frame, v *ir.Value) int64 {
		n, addr := int(fr.arg(v, 1)), uint64(fr.arg(v, 2))
		to := fr.bytes(fr.arg(v, 0), n, true)
		var from []byte
		if kernel {
			from = fr.mem.kernelBytes(addr, n)
		}
		if from == nil && user {
			from = fr.mem.userBytes(addr, n)
		}
		if from == nil {
			clearBytes(to)
			return efault
		}
		copy(to, from)
		return 0
	}
}

// probeReadStr zeroes the whole destination on errors, as all kernels do.
func probeReadStr(user bool) helperFunc {
	return func(fr *frame, v *ir.Value) int64 {
		n := int(fr.arg(v, 1))
		to := fr.bytes(fr.arg(v, 0), n, true)
		if n == 0 {
			return 0
		}
		s, ok := fr.mem.str(uint64(fr.arg(v, 2)), n, user)
		if !ok {
			clearBytes(to)
			return efault
		}
		n = copy(to, s)
		to[n] = 0
		return int64(n + 1)
	}
}

func writeUser(fr *frame, v *ir.Value) int64 {
	n := int(fr.arg(v, 2))
	from := fr.bytes(fr.arg(v, 1), n, false)
	to := fr.mem.userBytes(uint64(fr.arg(v, 0)), n)
	if to == nil {
		return efault
	}
	fr.Actions = append(fr.Actions, fmt.Sprintf("write_user(%#x, %q)", uint64(fr.arg(v, 0)), from))
	return 0
}

// nsPid fills struct bpf_pidns_info {u32 pid, tgid}.
func nsPid(fr *frame, v *ir.Value) int64 {
	n := int(fr.arg(v, 3))
	to := fr.bytes(fr.arg(v, 2), n, true)
	if n != 8 || uint64(fr.arg(v, 0)) != fr.in.NSDev || uint64(fr.arg(v, 1)) != fr.in.NSIno {
		clearBytes(to)
		return einval
	}
	putUint(to, both(fr.in.NSPID, fr.in.NSTID))
	return 0
}

func currentComm(fr *frame, v *ir.Value) int64 {
	to := fr.bytes(fr.arg(v, 0), int(fr.arg(v, 1)), true)
	clearBytes(to)
	copy(to, fr.in.comm16())
	if len(to) > 0 {
		to[len(to)-1] = 0
	}
	return 0
}

// getStack writes the frames and zeroes the rest of the buffer.
func getStack(fr *frame, v *ir.Value) int64 {
	n, flags := int(fr.arg(v, 2)), fr.arg(v, 3)
	to := fr.bytes(fr.arg(v, 1), n, true)
	clearBytes(to)
	frames := fr.in.Kstack
	if flags&(1<<8) != 0 {
		frames = fr.in.Ustack
	}
	frames = frames[min(len(frames), int(flags&0xff)):]
	frames = frames[:min(len(frames), n/8)]
	if len(frames) == 0 {
		return efault
	}
	for i, ip := range frames {
		binary.LittleEndian.PutUint64(to[8*i:], ip)
	}
	return int64(8 * len(frames))
}

// recordName is the prefix of the names of ring buffer records.
const recordName = "record of "

func reserve(fr *frame, v *ir.Value) int64 {
	data := make([]byte, fr.arg(v, 1))
	for i := range data {
		data[i] = poison
	}
	return int64(fr.mem.allocKept(recordName+v.Args[0].Sym, data))
}

func (fr *frame) finishRecord(v *ir.Value, submit bool) int64 {
	addr := fr.arg(v, 0)
	b := fr.bytes(addr, 0, false)
	o := fr.mem.object(uint64(addr))
	if len(b) != 0 || (uint64(addr)-firstAddr)%stride != 0 || o.name[:len(recordName)] != recordName {
		fr.trap("no record")
	}
	o.dead = true
	switch {
	case !submit:
	case o.name == recordName+"events":
		fr.record(o.data)
	default:
		fr.Records = append(fr.Records, o.data)
	}
	return 0
}

func ringOutput(fr *frame, v *ir.Value) int64 {
	b := fr.bytes(fr.arg(v, 1), int(fr.arg(v, 2)), false)
	if v.Args[0].Sym == "events" {
		fr.record(b)
	}
	return 0
}

// checkRecords traps when a program leaves a record open.
func (k *Machine) checkRecords(f *ir.Func) {
	for _, o := range k.mem.objects {
		if o != nil && !o.dead && len(o.name) > len(recordName) && o.name[:len(recordName)] == recordName {
			panic(&Trap{Func: f.Name, Pos: ir.NoPos, Text: o.name + " is neither submitted nor discarded"})
		}
	}
}

func strncmp(fr *frame, v *ir.Value) int64 {
	n := int(fr.arg(v, 1))
	a, b := fr.bytes(fr.arg(v, 0), n, false), fr.ownString(fr.arg(v, 2), n)
	return int64(bytes.Compare(cstring(a), b))
}

// sortedKeys lists a map's keys in order.
func sortedKeys[T any](m map[string]T) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
