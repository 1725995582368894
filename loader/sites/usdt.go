// SPDX-License-Identifier: Apache-2.0

package sites

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"btc/internal/elffile"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/internal/safefile"
	"btc/loader/resolve"
	"btc/loader/symbols"
)

// usdts reads the notes of the files and finds all locations of each probe. Locations
// of one probe with equal argument locations share a program.
func (x *expander) usdts(p *manifest.Program) (resolve.Plan, error) {
	a := &p.Attach
	paths, err := x.usdtFiles(p, a.Target, x.opts.pid)
	if err != nil {
		return resolve.Plan{}, err
	}
	namespace, name, both := strings.Cut(a.Name, ":")
	if !both {
		namespace, name = "*", a.Name
	} else if namespace == "" {
		namespace = "*"
	}
	// Files of a pattern or process that cannot be read are skipped.
	exact := len(paths) == 1 && a.Target != "" && !probe.IsPattern(a.Target)
	plan := resolve.Plan{}
	for _, path := range paths {
		used := x.files.Opened(path) // by another program
		file, all, failure, err := x.files.Probes(path, namespace, name, a.Binary != "")
		if err == nil {
			if err := sameBuild(a, file, path); err != nil {
				return resolve.Plan{}, err
			}
			if err = failure; failure != nil && len(all) > 0 {
				if err = nil; exact {
					x.warn(p, fmt.Sprintf("%s: %v; the other probes are used", path, failure))
				}
			}
		}
		if err != nil && exact {
			return resolve.Plan{}, fmt.Errorf("%s: %w", path, err)
		}
		if len(plan.Matches)+len(all) > symbols.MaxResults {
			return resolve.Plan{}, fmt.Errorf("more than %d locations match", symbols.MaxResults)
		}
		if len(all) == 0 {
			if !used {
				x.files.Release(path)
			}
			continue
		}
		addLocations(&plan, path, file, all)
	}
	if len(plan.Matches) == 0 {
		return resolve.Plan{}, &resolve.Missing{
			Text:    "No matches for usdt " + a.Target + ":" + name + ".",
			Pattern: probe.IsPattern(a.Target + a.Name),
		}
	}
	return plan, nil
}

// addLocations adds a match for each location in a file. Those of a probe with equal argument locations
// share a program.
func addLocations(p *resolve.Plan, path string, file *symbols.Image, all []symbols.Probe) {
	first := map[string]int{} // by name and arguments: index of the first match
	ways := map[string]int{}  // number of argument variants by name
	for _, l := range all {
		m := resolve.Match{Text: "usdt:" + path + ":" + l.Provider + ":" + l.Name, Name: l.Name, Path: path,
			File: file.File, Offset: l.Offset, Semaphore: l.Semaphore, USDT: l.Args}
		way := m.Text + "\x00" + string(m.USDT)
		if i, ok := first[way]; ok {
			m.More, m.SameAs, m.Variant = true, i+1, p.Matches[i].Variant
		} else {
			m.Variant = ways[m.Text]
			m.More = m.Variant > 0
			first[way] = len(p.Matches)
			ways[m.Text]++
		}
		p.Matches = append(p.Matches, m)
	}
}

// usdtFiles returns the files for an attach point's target: without a target, or with "*", all files that the process of
// -p has mapped.
func (x *expander) usdtFiles(p *manifest.Program, target string, pid int) ([]string, error) {
	switch {
	case target != "":
		return x.findBinaries(p, target, pid)
	case pid == 0:
		return nil, errors.New("a usdt without a file needs -p")
	}
	return mappedFiles(pid)
}

// mappedFiles lists the files that a process has mapped as code. A file without a name is accessed through
// /proc/PID/map_files.
func mappedFiles(pid int) ([]string, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	root := processRoot(pid)
	var paths []string
	seen := map[string]bool{}
	for line := range strings.Lines(string(maps)) {
		// 55d0c8a00000-55d0c8a21000 r-xp 00002000 fe:01 1234   /usr/bin/cat
		f := strings.Fields(line)
		if len(f) < 6 || !strings.Contains(f[1], "x") || f[4] == "0" || seen[f[3]+" "+f[4]] {
			continue
		}
		seen[f[3]+" "+f[4]] = true
		path := strings.TrimSuffix(line[strings.Index(line, f[5]):], "\n")
		gone := strings.HasSuffix(path, " (deleted)")
		if root != "" && !gone { // a symbolic link created in the meantime cannot redirect it
			if path, err = safefile.Resolve(root, path); err != nil {
				gone = true
			}
		}
		if gone || !elffile.IsELF(path) {
			path = fmt.Sprintf("/proc/%d/map_files/%s", pid, f[0])
		}
		if elffile.IsELF(path) {
			paths = append(paths, path)
		}
	}
	return paths, nil
}
