// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"btc/targets/capture"
	"btc/targets/kernel"
	"btc/targets/targetfile"
)

// embeddedTarget is the target file that is embedded in the compiler.
const embeddedTarget = "../../targets/kernel/default_x86_64.target"

// The names that bpftrace's unit tests mock, in addition to those of a real kernel.
var (
	mockFuncs = []targetfile.Func{
		{Name: "f", Traceable: true}, {Name: "k", Traceable: true}, {Name: "main", Traceable: true},
		{Name: "func_1", Traceable: true}, {Name: "func_2", Traceable: true}, {Name: "func_3", Traceable: true},
		{Name: "func_anon_struct", Traceable: true}, {Name: "func_arrays", Traceable: true}, {Name: "func_array_with_compound_data", Traceable: true},
		{Name: "sys_read", Traceable: true}, {Name: "sys_write", Traceable: true},
		{Name: "mod_func_1", Module: "kernel_mod_1", Traceable: true}, {Name: "mod_func_2", Module: "kernel_mod_1", Traceable: true},
	}
	mockEvents = []targetfile.Event{
		mockEvent("sched", "sched_one", "common_field"), mockEvent("sched", "sched_two"), mockEvent("sched_extra", "sched_extra"),
		mockEvent("category", "event"), mockEvent("notsched", "bar"), mockEvent("file", "filename"),
		mockEvent("tcp", "some_tcp_tp"), mockEvent("btf", "tag"), mockEvent("vmlinux", "event_rt"), mockEvent("vmlinux", "sched_switch"),
	}
)

func mockEvent(category, name string, fields ...string) targetfile.Event {
	ev := targetfile.Event{Category: category, Name: name}
	for i, f := range fields {
		ev.Fields = append(ev.Fields, targetfile.Field{Name: f, CType: "u64", Offset: 8 + 8*i, Size: 8})
	}
	return ev
}

// mockTarget returns the embedded target with the mocked functions and tracepoints added.
func mockTarget() (*kernel.Target, error) {
	b, err := os.ReadFile(embeddedTarget)
	if err != nil {
		return nil, err
	}
	data, err := contents(b)
	if err != nil {
		return nil, err
	}
	have := map[string]bool{}
	for _, f := range data.Funcs {
		have[f.Name] = true
	}
	for _, f := range mockFuncs {
		if !have[f.Name] {
			data.Funcs = append(data.Funcs, f)
		}
	}
	data.Events = append(data.Events, mockEvents...)
	return made(data)
}

// contents decodes a whole target file.
func contents(b []byte) (*targetfile.Data, error) {
	f, err := targetfile.Open(b)
	if err != nil {
		return nil, err
	}
	data := &targetfile.Data{Meta: f.Meta}
	for i := range f.NumTypes() {
		t, err := f.Type(targetfile.MakeRef(i, 0))
		if err != nil {
			return nil, err
		}
		data.Types = append(data.Types, t)
	}
	err = f.Funcs("", func(fn targetfile.Func) bool {
		data.Funcs = append(data.Funcs, fn)
		return true
	})
	if err != nil {
		return nil, err
	}
	return data, eventsOf(f, data)
}

func eventsOf(f *targetfile.File, data *targetfile.Data) error {
	var names, calls []string
	if err := f.Events("", func(name string) bool { names = append(names, name); return true }); err != nil {
		return err
	}
	if err := f.Syscalls("", func(name string) bool { calls = append(calls, name); return true }); err != nil {
		return err
	}
	for _, name := range names {
		i := bytes.IndexByte([]byte(name), ':')
		ev, _, err := f.Event(name[:i], name[i+1:])
		if err != nil {
			return err
		}
		data.Events = append(data.Events, ev)
	}
	for _, name := range calls {
		s, _, err := f.Syscall(name)
		if err != nil {
			return err
		}
		data.Syscalls = append(data.Syscalls, s)
	}
	return nil
}

func made(data *targetfile.Data) (*kernel.Target, error) {
	b, err := targetfile.Write(data)
	if err != nil {
		return nil, err
	}
	return kernel.New(b)
}

// mockTypes are declarations of the mock kernel that are not in the C source of the checkout: the type
// of its raw tracepoint.
const mockTypes = `
typedef void (*btf_trace_event_rt)(void *, long);
btf_trace_event_rt event_rt_type;
`

// mockBTFTarget returns the kernel for tests with BTF of their own: the checkout's
// tests/data/data_source.c, compiled with gcc.
func mockBTFTarget(tests, dir string) (*kernel.Target, error) {
	src, err := os.ReadFile(filepath.Join(tests, "data", "data_source.c"))
	if err != nil {
		return nil, err
	}
	c, object := filepath.Join(dir, "source.c"), filepath.Join(dir, "source.o")
	if err := os.WriteFile(c, append(src, mockTypes...), 0o600); err != nil {
		return nil, err
	}
	if out, err := exec.Command("gcc", "-gbtf", "-c", "-o", object, c).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("gcc -gbtf: %w: %s", err, out)
	}
	f, err := elf.Open(object)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	section := f.Section(".BTF")
	if section == nil {
		return nil, fmt.Errorf("gcc -gbtf wrote no BTF")
	}
	raw, err := section.Data()
	if err != nil {
		return nil, err
	}
	data, err := capture.Make(capture.Source{Arch: "x86_64", Release: "6.12.0", BTF: raw})
	if err != nil {
		return nil, err
	}
	have := map[string]bool{}
	for _, f := range data.Funcs {
		have[f.Name] = true
	}
	for _, f := range mockFuncs {
		if !have[f.Name] {
			data.Funcs = append(data.Funcs, f)
		}
	}
	data.Events = append(data.Events, mockEvents...)
	return made(data)
}
