// SPDX-License-Identifier: Apache-2.0

package run

import (
	"encoding/binary"
	"maps"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"btc/internal/manifest"
	"btc/internal/safefile"
	"btc/loader/sites"
	"btc/loader/symbols"
)

// recordMappings records the memory mappings of processes if the script symbolizes their addresses,
// so that the addresses can be resolved after a process has exited. Mappings of processes that are
// certainly traced are recorded immediately, those of others when they are first seen. If the
// kernel refuses, only /proc is used.
func (n *names) recordMappings(m *manifest.Manifest, pids []int, e *sites.Expansion, cpus []int) {
	if !hasEvent(m, "proc") {
		return
	}
	n.symbols().Watch, _ = symbols.NewWatch(cpus)
	for _, pid := range pids {
		n.symbols().Snapshot(uint32(pid))
	}
	if len(pids) > 0 {
		return
	}
	files := map[string]bool{}
	for i := range e.Plans {
		for j := range e.Plans[i].Matches {
			files[e.Plans[i].Matches[j].Path] = true
		}
	}
	delete(files, "") // for probes that are not in files
	for _, pid := range processesOf(slices.Collect(maps.Keys(files))) {
		n.symbols().Snapshot(pid)
	}
}

// processesOf returns the processes whose executable is one of the files.
func processesOf(files []string) []uint32 {
	wanted := map[[2]uint64]bool{} // device and inode
	id := func(path string) [2]uint64 {
		var st unix.Stat_t
		if unix.Stat(path, &st) != nil {
			return [2]uint64{}
		}
		return [2]uint64{uint64(st.Dev), st.Ino}
	}
	for _, path := range files {
		if file := id(path); file[1] != 0 {
			wanted[file] = true
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	entries, _ := safefile.Entries("/proc")
	var out []uint32
	for _, e := range entries {
		pid, err := strconv.ParseUint(e.Name(), 10, 32)
		if err == nil && wanted[id("/proc/"+e.Name()+"/exe")] {
			out = append(out, uint32(pid))
		}
	}
	return out
}

// referenced calls add for each process that has addresses in the script's maps.
func (t *mapTable) referenced(add func(tgid uint32)) {
	for i := range t.manifest.Maps {
		m := &t.manifest.Maps[i]
		if m.Shape == "stack" || m.Shape == "intern" ||
			!hasProcess(m.Key) && (m.Shape != "plain" || !hasProcess(m.Value)) {
			continue
		}
		elems, err := t.elements(m)
		if err != nil {
			continue
		}
		for _, e := range elems {
			processesIn(m.Key, e.Key, add)
			if m.Shape == "plain" {
				processesIn(m.Value, e.Bytes, add)
			}
		}
	}
}

// hasProcess reports whether a layout contains an address of a process.
func hasProcess(l *manifest.Layout) bool {
	if l == nil {
		return false
	}
	return l.Kind == "usym" || l.Kind == "ustack" || hasProcess(l.Elem) ||
		slices.ContainsFunc(l.Fields, func(f manifest.Field) bool { return hasProcess(&f.Layout) })
}

// processesIn calls add for each process that has addresses in a value.
func processesIn(l *manifest.Layout, b []byte, add func(tgid uint32)) {
	switch {
	case l == nil || len(b) < l.Size:
	case l.Kind == "usym" || l.Kind == "ustack":
		add(binary.NativeEndian.Uint32(b[8:])) // after the address or the stack ID
	case l.Elem != nil && l.Elem.Size > 0 && hasProcess(l.Elem):
		for i := range min(l.Count, len(b)/l.Elem.Size) {
			processesIn(l.Elem, b[i*l.Elem.Size:], add)
		}
	default:
		for i := range l.Fields {
			if f := &l.Fields[i]; f.Off <= len(b) {
				processesIn(&f.Layout, b[f.Off:], add)
			}
		}
	}
}

// limitNames limits the time for symbols when the run ends, because its user waits. A program that uses the maps
// afterwards does not.
func (s *session) limitNames() {
	if _, ok := s.opts.ownProcess(); ok {
		s.names.table.End()
	}
}
