// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"slices"
	"strings"

	"btc/internal/elffile"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/why"
	"btc/targets/kernel"
)

// notes collects why attach points of the target may not fire, in the words of btrun --why.
func (c *checker) notes() {
	var functions []kernel.Function
	for i := range c.m.Programs {
		p := &c.m.Programs[i]
		if c.r.Programs[i].Verdict == Skipped {
			continue
		}
		site := siteOf(p)
		facts := why.Known(site)
		if isFunction(p.Kind) && site.Name != "" {
			if functions == nil {
				functions = c.t.Traceable()
			}
			var copies []string
			for _, f := range functions {
				if why.IsCopy(f.Name, site.Name) {
					copies = append(copies, f.Name)
				}
			}
			if len(copies) > 0 {
				facts = append(facts, why.CopiesFact(copies))
			}
		}
		c.r.note(c.m, p, facts)
	}
}

// NoteHost adds what this host shows of why attach points do not fire now, in the same words.
func (r *Report) NoteHost(m *manifest.Manifest) {
	known := map[string][]why.Fact{}
	for i := range m.Programs {
		if r.Programs[i].Verdict == Skipped {
			continue
		}
		site := siteOf(&m.Programs[i])
		site.Calls = nil // of the file of the target, which this host may have in another version
		if path, ok := elffile.Find(site.Path); ok && site.Path != "" {
			site.Path = path
		}
		key := site.Kind + "\x00" + site.Group + "\x00" + site.Name + "\x00" + site.Path
		facts, looked := known[key]
		if !looked {
			facts, _ = why.Facts(site)
			known[key] = facts
		}
		r.note(m, &m.Programs[i], facts)
	}
}

func (r *Report) note(m *manifest.Manifest, p *manifest.Program, facts []why.Fact) {
	for i := range facts {
		f := &facts[i]
		if f.Row == why.OtherCall && slices.ContainsFunc(m.Programs, func(o manifest.Program) bool { return o.Attach.Name == f.Dir+"_"+f.Other }) {
			continue // the script traces the other call as well
		}
		text := f.Sentence(p.Attach.Text)
		if !slices.ContainsFunc(r.Notes, func(n Finding) bool { return n.Text == text }) {
			r.Notes = append(r.Notes, Finding{Program: p.Name, Pos: p.Pos, Text: text})
		}
	}
}

func isFunction(kind string) bool {
	return kind == probe.Kprobe || kind == probe.Kretprobe || kind == probe.Fentry || kind == probe.Fexit
}

// siteOf describes an attach point for facts about it; patterns have no name.
func siteOf(p *manifest.Program) *why.Site {
	a := &p.Attach
	s := &why.Site{Kind: p.Kind}
	if probe.IsPattern(a.Target+a.Name) || len(a.Substitute) > 0 {
		return s
	}
	if bpf, _, _ := strings.Cut(a.Target, ":"); bpf != "bpf" || !isFunction(p.Kind) { // the lists of the kernel do not have functions of BPF programs
		s.Name = a.Name
	}
	switch {
	case p.Kind == probe.Tracepoint:
		s.Group = a.Target
	case probe.Lookup(p.Kind).Space == probe.UserSpace:
		s.Path, s.Calls = a.Target, a.Calls
	}
	return s
}
