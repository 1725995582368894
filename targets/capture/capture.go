// SPDX-License-Identifier: Apache-2.0

// Package capture makes target files: it reads what a kernel exports about itself (BTF, tracefs, kallsyms; live or
// copied from another machine) and returns a targetfile.Data.
//
// Sources that cannot be read are skipped and named in Meta.Gaps; only BTF is required.
package capture

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"btc/internal/kernelfs"
	"btc/targets/targetfile"
)

// Source is what a kernel exports about itself.
type Source struct {
	Arch    string // as uname -m
	Release string // as uname -r
	BTF     []byte // BTF of vmlinux
	// Modules are the modules whose types are included.
	Modules []Module

	// Tracefs is a tracefs tree: events/*/*/format and available_filter_functions.
	// nil means that there is none.
	Tracefs fs.FS

	// Kallsyms lists functions instead of available_filter_functions. May be nil.
	Kallsyms *kernelfs.Kallsyms

	// Syscalls are system call numbers by name. They are part of the architecture's ABI; no file of a running kernel
	// lists them. May be nil.
	Syscalls map[string]int

	abridge func(*btf, []Module) // nil if no module is abridged
}

// Module is a module's own types, from /sys/kernel/btf/NAME.
type Module struct {
	Name string
	BTF  []byte

	brief bool // Abridge
}

// MaxFile is the maximum size in bytes of a file from HostFile.
const MaxFile = 3_000_000

// HostFile returns the target file of the running kernel. If it would be larger than MaxFile, the types of the largest
// modules are omitted, and the file says so.
func HostFile() ([]byte, error) {
	files := memory{}
	if err := kernelfs.EachRaw(files.add); err != nil {
		return nil, err
	}
	return files.target()
}

// Import is like HostFile, for a raw capture that btrun wrote on another host (kernelfs.WriteRaw).
func Import(r io.Reader) ([]byte, error) {
	files, err := readArchive(r)
	if err != nil {
		return nil, err
	}
	return files.target()
}

func file(src *Source, most int) ([]byte, error) {
	var left []string
	for {
		data, err := Make(*src)
		if err != nil {
			return nil, err
		}
		if len(left) > 0 {
			slices.Sort(left)
			data.Meta.Gaps = append(data.Meta.Gaps,
				"types of modules: those of "+strings.Join(left, ", ")+" were too large")
		}
		b, err := targetfile.Write(data)
		if err != nil || len(b) <= most || len(src.Modules) == 0 {
			return b, err
		}
		// A target file is at most a quarter of the size of its BTF.
		for over := 4 * (len(b) - most); over > 0 && len(src.Modules) > 0; {
			at := 0
			for i := range src.Modules {
				if len(src.Modules[i].BTF) > len(src.Modules[at].BTF) {
					at = i
				}
			}
			over -= len(src.Modules[at].BTF)
			left = append(left, src.Modules[at].Name)
			src.Modules = slices.Delete(slices.Clone(src.Modules), at, at+1)
		}
	}
}

// popular is the number of types that are ordered by how often they are referred to; see converter.assign.
const popular = 1500

// Make builds the content of a target file.
func Make(src Source) (*targetfile.Data, error) {
	b, err := parseBTF(src.BTF)
	if err != nil {
		return nil, err
	}
	damaged := b.merge(src.Modules)
	if src.abridge != nil {
		src.abridge(b, src.Modules)
	}
	m := &maker{src: src, btf: b, data: &targetfile.Data{Meta: targetfile.Meta{Arch: src.Arch, Release: src.Release}}}
	if len(damaged) > 0 {
		m.gap("types of modules: %s", strings.Join(damaged, ", "))
	}
	m.events()
	funcs := m.functions()
	m.types(funcs)
	return m.data, nil
}

type maker struct {
	src  Source
	btf  *btf
	data *targetfile.Data
}

func (m *maker) gap(format string, args ...any) {
	m.data.Meta.Gaps = append(m.data.Meta.Gaps, fmt.Sprintf(format, args...))
}

// events reads every format file.
func (m *maker) events() {
	if m.src.Tracefs == nil {
		m.gap("tracepoints and system calls: tracefs was not readable")
		return
	}
	paths, err := fs.Glob(m.src.Tracefs, "events/*/*/format")
	if err != nil || len(paths) == 0 {
		m.gap("tracepoints and system calls: no format file was readable in tracefs")
		return
	}
	classes := newClasses(m.btf)
	calls := newSyscalls(m.src.Syscalls)
	unread := 0
	for _, path := range paths {
		text, err := fs.ReadFile(m.src.Tracefs, path)
		if err != nil {
			unread++
			continue
		}
		format, err := kernelfs.ParseFormat(text)
		if err != nil {
			unread++
			continue
		}
		parts := strings.Split(path, "/")
		category, name := parts[1], parts[2]
		if category == "syscalls" {
			calls.add(name, fields(format))
			continue
		}
		ev := targetfile.Event{Category: category, Name: name, Fields: fields(format)}
		ev.Class = classes.find(name, ev.Fields)
		m.data.Events = append(m.data.Events, ev)
	}
	m.data.Syscalls = calls.list()
	if unread > 0 {
		m.gap("%d tracepoints: their format files were not readable", unread)
	}
	if len(calls.odd) > 0 {
		m.gap("%d system calls: their records do not have the usual layout (%s ...)", len(calls.odd), calls.odd[0])
	}
}

// function is a function to list; proto is a BTF id, 0 if there is none.
type function struct {
	targetfile.Func
	proto uint32
}

// functions lists the traceable or callable functions, sorted by name, without duplicates.
func (m *maker) functions() []function {
	protos := map[string]uint32{}
	kfuncs := map[string]bool{}
	var inBTF []string
	for id := range m.btf.types {
		t := &m.btf.types[id]
		if id >= m.btf.base { // for modules only the prototypes are included
			if key := m.btf.module(id) + ":" + t.name; t.kind == btfFunc && protos[key] == 0 {
				protos[key] = t.link
			}
			continue
		}
		switch t.kind {
		case btfFunc:
			if _, ok := protos[t.name]; !ok {
				protos[t.name] = t.link
				inBTF = append(inBTF, t.name)
			}
		case btfDeclTag:
			if f := m.btf.at(t.link); t.name == "bpf_kfunc" && f.kind == btfFunc {
				kfuncs[f.name] = true
			}
		}
	}
	brief := map[string]bool{}
	for _, mod := range m.src.Modules {
		brief[mod.Name] = mod.brief
	}
	var all []function
	seen := map[string]bool{}
	add := func(name, module string, traceable bool) {
		if name == "" || seen[name] || brief[module] {
			return
		}
		seen[name] = true
		f := function{targetfile.Func{Name: name, Module: module, Traceable: traceable, Kfunc: kfuncs[name]}, 0}
		if module == "" {
			f.proto = protos[name]
		} else {
			f.proto = protos[module+":"+name]
		}
		all = append(all, f)
	}
	m.traceable(inBTF, add)
	for _, name := range inBTF {
		if kfuncs[name] || strings.HasPrefix(name, "bpf_iter_") {
			add(name, "", false)
		}
	}
	return all
}

// traceable calls add for every function that kprobes accept, as far as is known.
func (m *maker) traceable(inBTF []string, add func(name, module string, traceable bool)) {
	if m.src.Tracefs != nil {
		if text, err := fs.ReadFile(m.src.Tracefs, "available_filter_functions"); err == nil {
			for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
				name, module, _ := strings.Cut(lines.Text(), " ")
				add(name, strings.Trim(module, "[]"), true)
			}
			return
		}
	}
	if m.src.Kallsyms == nil {
		m.gap("traceable functions: neither available_filter_functions nor kallsyms was readable; all functions of BTF are assumed traceable")
		for _, name := range inBTF {
			if !strings.HasPrefix(name, "bpf_iter_") {
				add(name, "", true)
			}
		}
		return
	}
	m.gap("traceable functions: available_filter_functions was not readable; all functions of kallsyms are assumed traceable")
	m.src.Kallsyms.Each(func(s kernelfs.Symbol) bool {
		// The kernel lists loaded BPF programs (module "bpf") and the code it made
		// for probes ("__builtin__kprobes", "__builtin__ftrace") among the symbols.
		if s.Module != "bpf" && !strings.HasPrefix(s.Module, "__builtin__") {
			add(s.Name, s.Module, true)
		}
		return true
	})
}

// types converts named types and the types that they refer to, and fills in the functions'
// prototypes.
func (m *maker) types(funcs []function) {
	c := &converter{btf: m.btf, at: map[uint32]int{}, arrays: map[[2]uint64]uint32{}}
	for id := range m.btf.types {
		switch t := &m.btf.types[id]; t.kind {
		case btfInt, btfFloat, btfEnum, btfEnum64:
			c.collect(uint32(id))
		case btfStruct, btfUnion, btfTypedef:
			if t.name != "" {
				c.collect(uint32(id))
			}
		}
	}
	for _, f := range funcs {
		if f.proto != 0 {
			c.collectProto(m.btf.at(f.proto))
		}
	}
	c.assign(popular)
	m.data.Types = c.records()
	for _, f := range funcs {
		if t := m.btf.at(f.proto); t.kind == btfFuncProto {
			p := c.proto(t)
			f.Proto = &p
		}
		m.data.Funcs = append(m.data.Funcs, f.Func)
	}
}
