package attach

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/binary"
	"btc/loader/usdt"
)

// expandUSDT reads the notes of the files and finds each place of each probe.
// Places of one probe whose arguments lie alike share a program.
func expandUSDT(x *expander, p *manifest.Program) (Plan, error) {
	a := &p.Attach
	paths, err := usdtFiles(a.Target, x.opts.PID)
	if err != nil {
		return Plan{}, err
	}
	namespace, name, both := strings.Cut(a.Name, ":")
	if !both {
		namespace, name = "*", a.Name
	} else if namespace == "" {
		namespace = "*"
	}
	// Of the many files of a pattern or process, those that cannot be read have none.
	exact := len(paths) == 1 && a.Target != "" && !probe.IsPattern(a.Target)
	plan := Plan{}
	for _, path := range paths {
		if a.Binary != "" {
			if err := checkBuild(a, path); err != nil {
				return Plan{}, err
			}
		}
		all, err := readProbes(path)
		if err != nil && exact && len(all) == 0 {
			return Plan{}, fmt.Errorf("%s: %w", path, err)
		}
		if err != nil && exact {
			x.warn(p, fmt.Sprintf("%s: %v; the other probes are used", path, err))
		}
		for _, l := range all {
			if probe.Glob(namespace, l.Provider) && probe.Glob(name, l.Name) {
				plan.add(path, l)
			}
		}
	}
	if len(plan.Matches) == 0 {
		return Plan{}, &missing{text: "No matches for usdt " + a.Target + ":" + name + ".", pattern: probe.IsPattern(a.Target + a.Name)}
	}
	return plan, nil
}

func checkBuild(a *manifest.Attach, path string) error {
	f, err := binary.Open(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer f.Close()
	return sameBuild(a, f.File, path)
}

// add makes a match of a place.
func (p *Plan) add(path string, l usdt.Location) {
	m := Match{Text: "usdt:" + path + ":" + l.Provider + ":" + l.Name, Name: l.Name, Path: path,
		Offset: l.Offset, Semaphore: l.Semaphore, USDT: usdt.Encode(l.Args)}
	for i := range p.Matches {
		old := &p.Matches[i]
		if old.Text != m.Text {
			continue
		}
		m.More = true
		if string(old.USDT) == string(m.USDT) {
			m.SameAs = i + 1
			break
		}
		m.Place = max(m.Place, old.Place+1)
	}
	p.Matches = append(p.Matches, m)
}

// readProbes reads a file's notes. Places that stand twice in it count once.
func readProbes(path string) ([]usdt.Location, error) {
	f, err := binary.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all, err := usdt.Read(f.File)
	type place struct {
		provider, name string
		offset         uint64
	}
	seen := map[place]bool{}
	all = slices.DeleteFunc(all, func(l usdt.Location) bool {
		at := place{l.Provider, l.Name, l.Offset}
		twice := seen[at]
		seen[at] = true
		return twice
	})
	return all, err
}

// usdtFiles are the files that an attach point's target stands for: without one,
// or with "*", all that the process of -p has mapped.
func usdtFiles(target string, pid int) ([]string, error) {
	if target != "" && (target != "*" || pid != 0) {
		return findBinaries(target, pid)
	}
	if pid == 0 {
		return nil, errors.New("a usdt without a file needs -p")
	}
	return mappedFiles(pid)
}

// mappedFiles lists the files that a process has mapped to run code from. A file
// that has no name any more, or never had one, is reached through the kernel's
// own list of mappings.
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
		path := root + strings.TrimSuffix(line[strings.Index(line, f[5]):], "\n")
		if strings.HasSuffix(path, " (deleted)") || !binary.IsELF(path) {
			path = fmt.Sprintf("/proc/%d/map_files/%s", pid, f[0])
		}
		if binary.IsELF(path) {
			paths = append(paths, path)
		}
	}
	return paths, nil
}
