// SPDX-License-Identifier: Apache-2.0

package interp

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseInputs parses inputs for Run, one per line:
//
//	run probe_0 ctx+112=4096 pid=7 comm="bash" cpu=1 kernel@0x1000="abc\x00" user@0x2000=u64:5,6
//
// The first word after run is the program. Then: ctx+N=V puts 8 bytes into the
// context; pid tid uid gid nspid nstid nsdev nsino cpu boot mono tai start
// cgroup numa jiffies task taskregs funcip attachid are numbers; comm a string; kstack
// ustack args lists of numbers; kernel@A user@A memory at address A, a quoted
// string or u64:, u32: and numbers; global@NAME the loader's value of a global;
// lacks a list of helpers that the kernel does not have.
// Empty lines and lines that begin with # are ignored.
func ParseInputs(text string) ([]Input, error) {
	var inputs []Input
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		in, err := parseInput(line)
		if err != nil {
			return nil, fmt.Errorf("input line %d: %w", i+1, err)
		}
		inputs = append(inputs, in)
	}
	return inputs, nil
}

func parseInput(line string) (Input, error) {
	in := Input{
		Kernel:  map[uint64][]byte{},
		User:    map[uint64][]byte{},
		Globals: map[string][]byte{},
		Ctx:     make([]byte, 512),
	}
	words, err := splitWords(line)
	if err != nil {
		return in, err
	}
	if len(words) < 2 || words[0] != "run" {
		return in, fmt.Errorf("expected: run PROGRAM NAME=VALUE")
	}
	in.Prog = words[1]
	for _, w := range words[2:] {
		name, value, ok := strings.Cut(w, "=")
		if !ok {
			return in, fmt.Errorf("expected NAME=VALUE: %s", w)
		}
		if err := in.set(name, value); err != nil {
			return in, fmt.Errorf("%s: %w", w, err)
		}
	}
	return in, nil
}

// splitWords cuts at spaces outside of quotes.
func splitWords(line string) ([]string, error) {
	var words []string
	start, i := -1, 0
	for i < len(line) {
		switch c := line[i]; {
		case c == '"':
			q, err := strconv.QuotedPrefix(line[i:])
			if err != nil {
				return nil, fmt.Errorf("bad string at column %d", i+1)
			}
			if start < 0 {
				start = i
			}
			i += len(q)
		case c == ' ' || c == '\t':
			if start >= 0 {
				words = append(words, line[start:i])
			}
			start = -1
			i++
		default:
			if start < 0 {
				start = i
			}
			i++
		}
	}
	if start >= 0 {
		words = append(words, line[start:])
	}
	return words, nil
}

func (in *Input) set(name, value string) error {
	kind, where, placed := strings.Cut(name, "@")
	if !placed {
		if off, ok := strings.CutPrefix(name, "ctx+"); ok {
			return in.setCtx(off, value)
		}
		return in.setPlain(name, value)
	}
	data, err := parseBytes(value)
	if err != nil {
		return err
	}
	if kind == "global" {
		in.Globals[where] = data
		return nil
	}
	addr, err := strconv.ParseUint(where, 0, 64)
	switch {
	case err != nil:
		return err
	case kind == "kernel":
		in.Kernel[addr] = data
	case kind == "user":
		in.User[addr] = data
	default:
		return fmt.Errorf("unknown memory %q", kind)
	}
	return nil
}

func (in *Input) setCtx(off, value string) error {
	n, err := strconv.Atoi(off)
	if err != nil || n < 0 || n+8 > len(in.Ctx) {
		return fmt.Errorf("bad offset in the context")
	}
	x, err := parseNumber(value)
	putUint(in.Ctx[n:n+8], x)
	return err
}

func (in *Input) setPlain(name, value string) error {
	small := map[string]*uint32{
		"pid":   &in.PID,
		"tid":   &in.TID,
		"uid":   &in.UID,
		"gid":   &in.GID,
		"nspid": &in.NSPID,
		"nstid": &in.NSTID,
	}
	large := map[string]*uint64{
		"nsdev":   &in.NSDev,
		"nsino":   &in.NSIno,
		"boot":    &in.Boot,
		"mono":    &in.Mono,
		"tai":     &in.TAI,
		"start":   &in.Start,
		"cgroup":  &in.Cgroup,
		"numa":    &in.NUMA,
		"jiffies": &in.Jiffy,
		"task":    &in.Task, "taskregs": &in.TaskRegs,
		"funcip": &in.FuncIP,
	}
	lists := map[string]*[]uint64{"kstack": &in.Kstack, "ustack": &in.Ustack, "args": &in.Args}
	if list, ok := lists[name]; ok {
		for _, s := range strings.Split(value, ",") {
			x, err := parseNumber(s)
			if err != nil {
				return err
			}
			*list = append(*list, x)
		}
		return nil
	}
	if name == "lacks" {
		in.Lacks = strings.Split(value, ",")
		return nil
	}
	if name == "comm" {
		in.Comm = value
		if s, err := strconv.Unquote(value); err == nil {
			in.Comm = s
		}
		return nil
	}
	x, err := parseNumber(value)
	if err != nil {
		return err
	}
	switch {
	case small[name] != nil:
		*small[name] = uint32(x)
	case large[name] != nil:
		*large[name] = x
	case name == "cpu" && x < CPUs:
		in.CPU = int(x)
	case name == "attachid":
		in.AttachID = int64(x)
	default:
		return fmt.Errorf("unknown input %q", name)
	}
	return nil
}

func parseNumber(s string) (uint64, error) {
	if n, err := strconv.ParseInt(s, 0, 64); err == nil {
		return uint64(n), nil
	}
	return strconv.ParseUint(s, 0, 64)
}

func parseBytes(value string) ([]byte, error) {
	if strings.HasPrefix(value, `"`) {
		s, err := strconv.Unquote(value)
		return []byte(s), err
	}
	kind, list, ok := strings.Cut(value, ":")
	size := map[string]int{"u8": 1, "u16": 2, "u32": 4, "u64": 8}[kind]
	if !ok || size == 0 {
		return nil, fmt.Errorf("expected a string or u64: and numbers")
	}
	var data []byte
	for _, s := range strings.Split(list, ",") {
		x, err := parseNumber(s)
		if err != nil {
			return nil, err
		}
		b := make([]byte, size)
		putUint(b, x)
		data = append(data, b...)
	}
	return data, nil
}
