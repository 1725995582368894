// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"weak"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"btc/internal/kernelfs"
	"btc/internal/probe"
	"btc/loader/resolve"
)

// Several functions of a kernel may have the same name: static functions, or functions of files that are compiled
// twice (load_elf_binary). Newer kernels refuse such a name as ambiguous (EADDRNOTAVAIL), older ones use the first
// function. A probe on such a name probes each of the functions, by address.

// addressesOf finds the functions of names, by name, in the modules that match a
// pattern; "" is all.
func addressesOf(names map[string]bool, module string) (map[string][]uintptr, error) {
	out := map[string][]uintptr{}
	wanted := false
	for _, w := range names {
		wanted = wanted || w
	}
	if !wanted {
		return out, nil
	}
	k, err := kallsyms()
	if err != nil {
		return nil, fmt.Errorf("several functions have one name, and their addresses cannot be read: %w", err)
	}
	k.Each(func(s kernelfs.Symbol) bool {
		if names[s.Name] && inModules(module, s.Module) && !slices.Contains(out[s.Name], uintptr(s.Addr)) {
			out[strings.Clone(s.Name)] = append(out[s.Name], uintptr(s.Addr))
		}
		return true
	})
	return out, nil
}

// kernelSymbols caches the kernel's symbol table while it is in use: it is slow to read, and large.
var kernelSymbols weak.Pointer[kernelfs.Kallsyms]

func kallsyms() (*kernelfs.Kallsyms, error) {
	if k := kernelSymbols.Value(); k != nil {
		return k, nil
	}
	k, err := kernelfs.LoadKallsyms()
	if err == nil {
		kernelSymbols = weak.Make(k)
	}
	return k, err
}

func inModules(pattern, module string) bool {
	if module == "" {
		module = "vmlinux"
	}
	return pattern == "" || probe.Glob(pattern, module)
}

// attachNamesakes probes each function of a match's name; those that the kernel refuses are
// skipped, unless it refuses all.
func attachNamesakes(m *resolve.Match, prog *ebpf.Program, ret bool) (io.Closer, error) {
	all, err := addressesOf(map[string]bool{m.Name: true}, m.Group)
	if err != nil {
		return nil, err
	}
	addrs := all[m.Name]
	if len(addrs) == 0 {
		return nil, resolve.NoMatch(kindOf(ret), strings.TrimPrefix(m.Group+":"+m.Name, ":"))
	}
	attr, err := probeEvent("kprobe", ret)
	if err != nil {
		return nil, err
	}
	var links fds
	var failure error
	for _, addr := range addrs {
		one := *attr
		// Ext1 (kprobe_func) stays 0: only then the kernel takes Ext2 as an address (kprobe_addr), not as an offset.
		one.Ext2 = uint64(addr) + m.Offset
		fd, err := openPerf(&one, -1, 0, prog)
		if err != nil {
			failure = err
			continue
		}
		links = append(links, fd)
	}
	if len(links) == 0 {
		return nil, failure
	}
	return links, nil
}

func kindOf(ret bool) string {
	if ret {
		return probe.Kretprobe
	}
	return probe.Kprobe
}

// probeEvent returns the perf event of a "kprobe" or "uprobe" (4.17), or of the return of a function.
// The caller sets Ext2 to the address or the offset in a file, and Ext1 to the file's path.
func probeEvent(kind string, ret bool) (*unix.PerfEventAttr, error) {
	dir := "/sys/bus/event_source/devices/" + kind
	number := func(file, prefix string) (uint64, error) {
		b, err := os.ReadFile(dir + file)
		if err != nil {
			return 0, err
		}
		digits, ok := strings.CutPrefix(strings.TrimSpace(string(b)), prefix)
		if !ok {
			return 0, errors.New(dir + file + ": unexpected contents")
		}
		return strconv.ParseUint(digits, 10, 32)
	}
	typ, err := number("/type", "")
	if err != nil {
		return nil, err
	}
	attr := &unix.PerfEventAttr{Type: uint32(typ), Size: unix.PERF_ATTR_SIZE_VER5}
	if ret {
		bit, err := number("/format/retprobe", "config:")
		if err != nil {
			return nil, err
		}
		attr.Config = 1 << (bit & 63)
	}
	return attr, nil
}
