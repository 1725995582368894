// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// loader measures the process that runs while tracing: its size on disk, its memory, and its times. For
// bpftrace this is all of bpftrace, including the compiler.
func (b *bench) loader() error {
	a := axis{Name: "loader", Title: "The process that traces"}
	script := filepath.Join(b.root, "tests/bench/output/start.bt")
	var attached, first, exit, resident, whole [2][]float64
	err := b.alternate(3*b.rounds, func(k int, t tool) error {
		command, err := t.prepare(script, "")
		if err != nil {
			return err
		}
		tr, err := start(command())
		if err != nil {
			return err
		}
		tr.awaitLine()
		_, kib, err := tr.usage()
		if err != nil {
			return err
		}
		took, _, err := tr.stop()
		if err != nil {
			return err
		}
		attached[k] = append(attached[k], tr.attached.Seconds()*1e3)
		first[k] = append(first[k], tr.first.Seconds()*1e3)
		exit[k] = append(exit[k], took.Seconds()*1e3)
		resident[k] = append(resident[k], float64(kib)/1024)
		// Start, attach nothing, exit.
		cmd := command()
		cmd.Args = append(cmd.Args[:1], append([]string{"--dry-run"}, cmd.Args[1:]...)...)
		all, _, err := process(cmd)
		if err != nil {
			return fmt.Errorf("--dry-run: %w", err)
		}
		whole[k] = append(whole[k], all.Seconds()*1e3)
		return nil
	})
	if err != nil {
		return err
	}
	a.add(paired("start to attached", "ms", attached[0], attached[1]))
	a.add(paired("start to first output", "ms", first[0], first[1]))
	a.add(paired("interrupt to exit", "ms", exit[0], exit[1]))
	a.add(paired("--dry-run, start to exit", "ms", whole[0], whole[1]))
	a.Rows[len(a.Rows)-1].Note = "bpftrace attaches, too"
	a.add(paired("resident memory at its peak", "MiB", resident[0], resident[1]))
	mine, err := os.Stat(filepath.Join(b.dir, "btrun"))
	if err != nil {
		return err
	}
	other, files, err := b.ref.closure()
	if err != nil {
		return err
	}
	a.add(compared("bytes on disk, with libraries", "MB", exactly(float64(mine.Size())/1e6), exactly(float64(other)/1e6)))
	a.Rows[len(a.Rows)-1].Note = fmt.Sprintf("1 file against %d", files)
	a.mean("start to attached", a.Rows[0].Ratio, 0.1)
	a.mean("resident memory", a.Rows[4].Ratio, 0.1)
	if err := b.stacks(&a); err != nil {
		return err
	}
	b.result.put(a)
	return nil
}

// stacks measures a script that counts kernel stacks, whose symbols the process must read. Its peak
// memory is known after the map has been printed.
func (b *bench) stacks(a *axis) error {
	script := filepath.Join(b.root, "tests/bench/output/stacks.bt")
	var attached, resident [2][]float64
	err := b.alternate(b.rounds, func(k int, t tool) error {
		command, err := t.prepare(script, "")
		if err != nil {
			return err
		}
		tr, err := start(command())
		if err != nil {
			return err
		}
		work(100)
		tr.awaitLine()
		time.Sleep(50 * time.Millisecond) // until the rest of the map is printed
		_, kib, err := tr.usage()
		if err != nil {
			return err
		}
		if _, _, err := tr.stop(); err != nil {
			return err
		}
		if tr.firstLine() == 0 {
			return fmt.Errorf("no stacks printed")
		}
		attached[k] = append(attached[k], tr.attached.Seconds()*1e3)
		resident[k] = append(resident[k], float64(kib)/1024)
		return nil
	})
	if err != nil {
		return err
	}
	a.add(paired("kernel stacks: start to attached", "ms", attached[0], attached[1]))
	a.add(paired("kernel stacks: resident memory at its peak", "MiB", resident[0], resident[1]))
	return nil
}

// closure returns the total size of bpftrace and of all libraries that it loads.
func (t refTool) closure() (size int64, files int, err error) {
	cmd := t.command()
	cmd.Path, cmd.Args = "/usr/bin/ldd", []string{"ldd", "/usr/bin/bpftrace"}
	out, err := cmd.Output()
	if err != nil {
		return 0, 0, fmt.Errorf("ldd: %v", err)
	}
	paths := []string{"/usr/bin/bpftrace"}
	for line := range strings.Lines(string(out)) {
		for _, word := range strings.Fields(line) {
			if strings.HasPrefix(word, "/") {
				paths = append(paths, word)
			}
		}
	}
	for _, p := range paths {
		fi, err := os.Stat(t.chroot + p)
		if err != nil {
			return 0, 0, err
		}
		size += fi.Size()
	}
	return size, len(paths), nil
}

// attach measures attaching to the entry of every system call.
func (b *bench) attach() error {
	a := axis{Name: "attach", Title: "Many probes"}
	for _, name := range []string{"many", "most"} {
		script := filepath.Join(b.root, "tests/bench/output", name+".bt")
		rounds := min(b.rounds, 3)
		if b.quick && name == "most" {
			rounds = 1
		}
		var attached, exit [2][]float64
		probes := ""
		err := b.alternate(rounds, func(k int, t tool) error {
			command, err := t.prepare(script, "")
			if err != nil {
				return err
			}
			tr, err := start(command())
			if err != nil {
				return err
			}
			probes = tr.said
			took, _, err := tr.stop()
			if err != nil {
				return err
			}
			attached[k] = append(attached[k], tr.attached.Seconds()*1e3)
			exit[k] = append(exit[k], took.Seconds()*1e3)
			return nil
		})
		if err != nil {
			return err
		}
		n := strings.Trim(probes, "Atached probs.\n")
		a.add(paired(n+" probes, start to attached", "ms", attached[0], attached[1]))
		a.add(paired(n+" probes, interrupt to exit", "ms", exit[0], exit[1]))
	}
	b.result.put(a)
	return nil
}
