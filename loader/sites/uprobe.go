// SPDX-License-Identifier: Apache-2.0

package sites

import (
	"errors"
	"fmt"
	"sort"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/resolve"
	"btc/loader/symbols"
)

// uprobes finds the files and the offsets of the functions in each.
func (x *expander) uprobes(p *manifest.Program) (resolve.Plan, error) {
	a := &p.Attach
	paths, err := x.findBinaries(p, a.Target, x.opts.pid)
	if err != nil {
		return resolve.Plan{}, err
	}
	plan := resolve.Plan{}
	x.stripped = ""
	for _, path := range paths {
		used := x.files.Opened(path) // by another program
		matches, err := x.matchFile(p, path)
		if len(matches) == 0 && !used {
			x.files.Release(path)
		}
		if err != nil && probe.IsPattern(a.Target) {
			x.warn(p, err.Error()+"; the other files are used")
			continue
		}
		if err != nil {
			return resolve.Plan{}, err
		}
		plan.Matches = append(plan.Matches, matches...)
	}
	if len(plan.Matches) == 0 {
		return resolve.Plan{}, resolve.NoFunction(p.Kind, a.Target+":"+a.Name, x.stripped)
	}
	return plan, nil
}

// unsafeHint follows messages about probes that --unsafe would allow.
const unsafeHint = "\nUse --unsafe to force attachment. WARNING: This option could lead to data corruption in the target process."

// matchFile finds an attach point's attach sites in one file; finding none is not an error.
func (x *expander) matchFile(p *manifest.Program, path string) ([]resolve.Match, error) {
	a := &p.Attach
	f, err := x.files.Functions(path, &symbols.Question{
		Name: a.Name, Lang: a.Lang, Addr: a.Addr, Offset: a.Offset, Identity: a.Binary != "" || a.Calls != nil,
		Return: p.Kind == probe.Uretprobe,
	})
	if err != nil {
		if m, ok := x.flat(p, path, err); ok {
			return m, nil
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if f.Stripped {
		x.stripped = path
	}
	if !f.Linked {
		return nil, fmt.Errorf("%s is neither a program nor a shared library", path)
	}
	if err := sameBuild(a, f, path); err != nil {
		return nil, err
	}
	text := p.Kind + ":" + path + ":"
	if a.Lang != "" {
		text += a.Lang + ":"
	}
	if a.Name == "" {
		if !f.HasCode {
			return nil, &resolve.Failure{
				Probe: a.Text,
				//lint:ignore ST1005 bpftrace's words
				Cause: fmt.Errorf("Could not resolve address: %s:%#x", path, a.Addr),
			}
		}
		what := fmt.Sprintf("%s:%#x", path, a.Addr)
		var err error
		if f.Around != nil {
			what = fmt.Sprintf("%s:%s+%d", path, f.Around.Name, a.Addr-f.Around.Value)
			err = atStart(p, f.Around, a.Addr-f.Around.Value)
		}
		if err == nil {
			err = x.checkSite(p, what, f.Site)
		}
		if err != nil {
			return nil, &resolve.Failure{Probe: a.Text, Cause: err}
		}
		return []resolve.Match{
			{Text: fmt.Sprintf("%s%d", text, a.Addr), Path: f.Path, File: f.File, Offset: f.Base + f.CodeOffset},
		}, nil
	}
	var out []resolve.Match
	seen := map[uint64]bool{}
	for _, s := range pick(f.Functions, a) {
		off := s.Offset
		if !s.Loaded || seen[off] {
			continue
		}
		seen[off] = true
		if s.Size == 0 && !x.opts.Unsafe {
			if probe.IsPattern(a.Name) {
				continue
			}
			return nil, &resolve.Failure{
				Probe: text + s.Name,
				//lint:ignore ST1005 bpftrace's words
				Cause: fmt.Errorf("Could not determine boundary for %s (symbol has size 0).%s", s.Name, unsafeHint),
			}
		}
		if a.Offset > 0 && s.Size > 0 && a.Offset >= s.Size {
			return nil, &resolve.Failure{
				Probe: a.Text,
				//lint:ignore ST1005 bpftrace's words
				Cause: fmt.Errorf("Offset outside the function bounds ('%s' size is %d)", s.Name, s.Size),
			}
		}
		what := path + ":" + s.Name
		if a.Offset > 0 {
			what = fmt.Sprintf("%s+%d", what, a.Offset)
		}
		err := atStart(p, &s, a.Offset)
		if err == nil && (s.Size > 0 || a.Offset > 0) { // of a size of 0, --unsafe says enough
			err = x.checkSite(p, what, s.Site)
		}
		if err != nil && probe.IsPattern(a.Name) {
			continue
		}
		if err != nil {
			return nil, &resolve.Failure{Probe: a.Text, Cause: err}
		}
		m := resolve.Match{Text: text + s.Name, Name: s.Name, Path: f.Path, File: f.File, Offset: f.Base + off + a.Offset}
		m.SameBuild = a.Calls != nil && a.Calls.Binary == f.Identity
		if a.Offset > 0 {
			m.Text = fmt.Sprintf("%s+%d", m.Text, a.Offset)
		}
		out = append(out, m)
	}
	return out, nil
}

// sameBuild returns an error if the file is another build than the one whose debug information the program was
// compiled with, because types and addresses may have changed.
func sameBuild(a *manifest.Attach, f *symbols.Image, path string) error {
	switch {
	case a.Binary == "":
		return nil
	case f.NoIdentity != "":
		return fmt.Errorf("%s: %s", path, f.NoIdentity)
	case f.Identity != a.Binary:
		return &resolve.Missing{
			Text: fmt.Sprintf("%s is another build (%s) than the one whose debug information the script was compiled with (%s): compile it with the debug information of this build (btc compile --binary %s=FILE)",
				path, f.Identity, a.Binary, a.Target),
		}
	}
	return nil
}

// flat returns an offset in a file that is not ELF but that some process maps as code. Instruction boundaries are not
// known, so it needs --unsafe.
func (x *expander) flat(p *manifest.Program, path string, err error) ([]resolve.Match, bool) {
	if !errors.Is(err, symbols.ErrNotELF) || p.Attach.Name != "" || !x.opts.Unsafe {
		return nil, false
	}
	file, err := x.files.Open(path)
	return []resolve.Match{
		{Text: fmt.Sprintf("%s:%s:%d", p.Kind, path, p.Attach.Addr), Path: path, File: file, Offset: p.Attach.Addr},
	}, err == nil
}

// pick chooses among the symbols that an attach point names: among several versions of a name the default one, if
// there is one.
func pick(out []symbols.Function, a *manifest.Attach) []symbols.Function {
	if probe.IsPattern(a.Name) || a.Lang != "" {
		return out
	}
	var visible []symbols.Function
	for _, s := range out {
		if !s.Hidden {
			visible = append(visible, s)
		}
	}
	if len(visible) > 0 {
		out = visible
	}
	sort.SliceStable(out, func(i, j int) bool { return int64(out[i].Value>>1) < int64(out[j].Value>>1) })
	return out
}
