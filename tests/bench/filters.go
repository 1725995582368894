// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"btc/loader/cgroup"
	"btc/loader/rewrite"
)

// filters measures the cost of btrun's filters for an event that they accept and for one that they
// reject. The filtered programs are empty.
func (b *bench) filters() error {
	a := axis{
		Name: "filters", Title: "Filters by process and cgroup", Sides: [2]string{"let through", "kept out"},
	}
	groups, err := makeGroups(severalGroups)
	if err != nil {
		a.note("not measured: %v", err)
		b.result.put(a)
		return nil
	}
	defer groups.remove()
	self := os.Getpid()
	bytesOf := func(pid int) trial {
		return filtered(func(m trialMaps) rewrite.Filter {
			return rewrite.Filter{Processes: m[0].FD(), ProcessBytes: int(m[0].ValueSize())}
		}, processBytes(pid))
	}
	one := func(pid int) trial {
		return filtered(func(trialMaps) rewrite.Filter { return rewrite.Filter{PID: pid} })
	}
	last := append(groups[1:severalGroups:severalGroups], groups[0]) // the root, which contains this process
	return b.weigh(a, []contest{
		{"one process (-p)", [2]trial{one(self), one(self + 1)}, false},
		{"several processes, or forks followed", [2]trial{bytesOf(self), bytesOf(self + 1)}, false},
		{"one cgroup", [2]trial{inGroups(groups[:1]), inGroups(groups[1:2])}, false},
		{fmt.Sprintf("%d cgroups, of which the last one contains the task", severalGroups), [2]trial{inGroups(last), inGroups(groups[1 : 1+severalGroups])}, false},
	})
}

// filterContests compare alternative ways for a filter to query the kernel.
func filterContests() ([]contest, func(), error) {
	groups, err := makeGroups(0)
	if err != nil {
		return nil, nil, err
	}
	self := os.Getpid()
	set := filtered(func(m trialMaps) rewrite.Filter {
		return rewrite.Filter{Processes: m[0].FD(), ProcessBytes: int(m[0].ValueSize())}
	}, processBytes(self))
	return []contest{
		{
			"a filter by process: a byte for each process, or a hash",
			[2]trial{set, {
				maps: []ebpf.MapSpec{{
					Type: ebpf.Hash, KeySize: 8, ValueSize: 8, MaxEntries: 4096,
					Contents: []ebpf.MapKV{{Key: uint64(self), Value: uint64(1)}},
				}},
				code: func(m trialMaps) code {
					return join(pidKey(asm.DWord, -24), find(m[0], -24), code{asm.JEq.Imm(asm.R0, 0, "out")})
				},
			}},
			true,
		},
		{
			"a filter by cgroup: the cgroup in an array, or the ID of the ancestor (5.15)",
			[2]trial{inGroups(groups[:1]), {code: func(trialMaps) code {
				return code{
					asm.Mov.Imm(asm.R1, 0),
					asm.FnGetCurrentAncestorCgroupId.Call(),
					asm.LoadImm(asm.R1, int64(groups[0].ID), asm.DWord),
					asm.JNE.Reg(asm.R0, asm.R1, "out"),
				}
			}}},
			true,
		},
	}, groups.remove, nil
}

// severalGroups is the number of cgroups of the case with many.
const severalGroups = 8

// groups are cgroups (v2): the root, and others without tasks.
type groups []*cgroup.Dir

func makeGroups(n int) (out groups, err error) {
	root, err := cgroup.Open("/")
	if err == nil && root.Path == "/" {
		err = fmt.Errorf("cgroup v2 is not mounted")
	}
	for _, h := range cgroup.Mounted() {
		if err != nil && h.Name == "unified" {
			root, err = cgroup.Open(h.Mount)
		}
	}
	if err != nil {
		return nil, err
	}
	out = groups{root}
	for i := range n {
		path := filepath.Join(root.Path, fmt.Sprintf("btc-bench-%d-%d", os.Getpid(), i))
		if err := os.Mkdir(path, 0o755); err != nil {
			out.remove()
			return nil, err
		}
		d, err := cgroup.Open(path)
		if err != nil {
			out.remove()
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// remove removes all cgroups but the root.
func (g groups) remove() {
	for i, d := range g {
		d.Close()
		if i > 0 {
			unix.Rmdir(d.Path)
		}
	}
}

// filtered returns a program that consists of a filter only.
func filtered(f func(trialMaps) rewrite.Filter, maps ...ebpf.MapSpec) trial {
	return trial{maps: maps, filter: f, code: func(trialMaps) code { return nil }}
}

// processBytes is a map with one byte per process; the byte of one process is set.
func processBytes(pid int) ebpf.MapSpec {
	const limit = 1 << 22 // PID_MAX_LIMIT
	content := make([]byte, limit)
	content[pid] = 1
	return ebpf.MapSpec{
		Type: ebpf.Array, KeySize: 4, ValueSize: limit, MaxEntries: 1,
		Contents: []ebpf.MapKV{{Key: uint32(0), Value: content}},
	}
}

// inGroups returns a filter that accepts tasks in cgroups.
func inGroups(dirs groups) trial {
	m := ebpf.MapSpec{Type: ebpf.CGroupArray, KeySize: 4, ValueSize: 4, MaxEntries: uint32(len(dirs))}
	for i, d := range dirs {
		m.Contents = append(m.Contents, ebpf.MapKV{Key: uint32(i), Value: uint32(d.FD())})
	}
	return filtered(func(m trialMaps) rewrite.Filter {
		return rewrite.Filter{Cgroups: m[0].FD(), NumCgroups: len(dirs)}
	}, m)
}
