// SPDX-License-Identifier: Apache-2.0

package run

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"

	"btc/internal/manifest"
	"btc/loader/cgroup"
	"btc/loader/containers"
	"btc/loader/format"
	"btc/loader/symbols"
)

// names finds the names of what is printed: symbols, probes, cgroups, users.
type names struct {
	probes map[int]string // attach points by number (sites.Expansion)
	maps   *mapTable      // has the frames of stacks
	warn   func(text string)
	// demangle is how C++ symbols are shown (the config cpp_demangle), and helper what reads the files of processes.
	demangle bool
	later    bool // functions in user stacks are named later
	helper   symbols.Helper

	// table is created before events are read if the script prints symbols; mu is held during symbol lookups.
	table   *symbols.Table
	mu      sync.Mutex
	cgroups cgroup.Names

	containers *containers.Host // valid once looked is true; nil: no containers
	looked     bool
}

func (n *names) ksym(addr uint64) string {
	if name, ok := n.probedFunc(addr); ok {
		return name
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.symbols().Ksym(addr)
}

func (n *names) usym(addr uint64, tgid uint32) string {
	if name, ok := n.probedFunc(addr); ok {
		return name
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.symbols().Usym(addr, tgid)
}

// probedFunc returns the function of an attach point. Programs send the attach point's number in
// place of an address, marked by 10 in the two top bits, which no address has (docs/layouts.md,
// func).
func (n *names) probedFunc(addr uint64) (string, bool) {
	if addr>>62 != 2 {
		return "", false
	}
	name := n.probe(addr & 0xffffffff)
	name = name[strings.LastIndexByte(name, ':')+1:]
	name, _, _ = strings.Cut(name, "+")
	return name, true
}

func (n *names) stack(l *manifest.Layout, id uint64, tgid uint32) []format.Frame {
	n.mu.Lock()
	defer n.mu.Unlock()
	addrs := n.maps.frames(l, id)
	if l.Kind == "kstack" {
		return n.symbols().Kstack(addrs, l.Mode)
	}
	return n.symbols().Ustack(addrs, l.Mode, tgid)
}

func (n *names) symbols() *symbols.Table {
	if n.table == nil {
		n.table = symbols.New(n.demangle)
		n.table.SetHelper(n.helper)
		n.table.Later = n.later
		n.table.Referenced, n.table.Warn = n.maps.referenced, n.warn
	}
	return n.table
}

// poll reads the recorded mappings of processes.
func (n *names) poll() {
	if n.table != nil {
		n.table.Poll()
	}
}

// watch returns the record of mappings; nil: none.
func (n *names) watch() *symbols.Watch {
	if n.table == nil {
		return nil
	}
	return n.table.Watch
}

// probe returns the attach point with a number.
func (n *names) probe(id uint64) string {
	if name, ok := n.probes[int(id)]; ok {
		return name
	}
	return strconv.FormatUint(id, 10)
}

// container maps a cgroup to its container or pod. It must not be called concurrently.
func (n *names) container(path string) format.Container {
	if !n.looked {
		n.looked = true
		n.containers, _ = containers.Local() // without a host, no cgroup has a name
	}
	if n.containers == nil {
		return format.Container{}
	}
	label, c := n.containers.Label(path)
	return format.Container{Label: label, Namespace: c.Namespace, Pod: c.Pod, Name: c.Container}
}

// userName looks up a user ID in /etc/passwd.
func userName(uid uint64) string {
	want := strconv.FormatUint(uid, 10)
	b, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return want
	}
	for line := range bytes.Lines(b) {
		parts := bytes.SplitN(line, []byte(":"), 4)
		if len(parts) == 4 && string(parts[2]) == want {
			return string(parts[0])
		}
	}
	return want
}
