// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"btc/targets/targetfile"
)

// otherKernels writes the table of tracepoints and fields that the kernel in dir lacks and those
// in the other directories have. If several have one, the first directory is used.
func otherKernels(dir, arch, out string, others []string) error {
	if dir == "" || out == "" || len(others) == 0 {
		return errors.New("others needs -dir, -o and the directories of other kernels")
	}
	base, err := describe(dir, arch)
	if err != nil {
		return err
	}
	known := map[string]*targetfile.Event{}
	for _, ev := range events(base) {
		known[ev.Category+":"+ev.Name] = &ev
	}
	found := map[string]*targetfile.Event{}
	releases := []string{}
	for _, other := range others {
		data, err := describe(other, arch)
		if err != nil {
			return err
		}
		releases = append(releases, data.Meta.Release)
		for _, ev := range events(data) {
			add(found, known[ev.Category+":"+ev.Name], ev)
		}
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, "# Tracepoints and fields of %s that %s does not have.\n", strings.Join(releases, ", "),
		base.Meta.Release)
	fmt.Fprintf(&text, "# Made by: go run ./tools/maketarget others -dir %s -o %s %s\n", dir, out,
		strings.Join(others, " "))
	names := make([]string, 0, len(found))
	for name := range found {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&text, "%s %s\n", name, found[name].Class)
		for _, f := range found[name].Fields {
			sign := "u"
			if f.Signed {
				sign = "s"
			}
			fmt.Fprintf(&text, "\t%d %d %s %s %s\n", f.Offset, f.Size, sign, f.Name, f.CType)
		}
	}
	return os.WriteFile(out, text.Bytes(), 0o644)
}

// events returns a kernel's tracepoints, those of system calls among them.
func events(data *targetfile.Data) []targetfile.Event {
	all := slices.Clone(data.Events)
	for _, s := range data.Syscalls {
		ev := targetfile.Event{Category: "syscalls", Name: "sys_enter_" + s.Name, Class: "syscall_trace_enter"}
		for i, a := range s.Args {
			ev.Fields = append(ev.Fields, targetfile.Field{Name: a.Name, CType: a.CType, Offset: 16 + 8*i, Size: 8})
		}
		all = append(all, ev)
		if s.Exit {
			ret := targetfile.Field{Name: "ret", CType: "long", Offset: 16, Size: 8, Signed: true}
			all = append(all, targetfile.Event{
				Category: "syscalls", Name: "sys_exit_" + s.Name, Class: "syscall_trace_exit",
				Fields: []targetfile.Field{ret},
			})
		}
	}
	return all
}

// add records the parts of an event that the base kernel lacks, if any. It skips fields whose
// record is described by another struct in the base kernel.
func add(found map[string]*targetfile.Event, base *targetfile.Event, ev targetfile.Event) {
	if ev.Class == "" {
		return
	}
	name := ev.Category + ":" + ev.Name
	has := func(e *targetfile.Event, field string) bool {
		return e != nil && slices.ContainsFunc(e.Fields, func(f targetfile.Field) bool { return f.Name == field })
	}
	for _, f := range ev.Fields {
		if has(base, f.Name) || has(found[name], f.Name) {
			continue
		}
		if found[name] == nil {
			found[name] = &targetfile.Event{Category: ev.Category, Name: ev.Name, Class: ev.Class}
		}
		if found[name].Class == ev.Class {
			found[name].Fields = append(found[name].Fields, f)
		}
	}
}
