// SPDX-License-Identifier: Apache-2.0

// Package forecast predicts, without a host, whether a compiled object would load and attach on the kernel that a
// target describes.
//
// It takes an object and a target and returns a verdict for each program: whether its reachable relocations resolve,
// its attach point exists, and the kernel has the helpers and map types that it uses. What only a host knows (the
// symbols of its programs, its processors' counters, the verifier's limit for a long program) is unknown, not ok.
package forecast

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf/btf"

	"btc/internal/manifest"
	"btc/loader/object"
	"btc/loader/rewrite"
	"btc/targets/kernel"
)

// Verdict is the expected outcome, from good to bad.
type Verdict string

const (
	OK      Verdict = "ok"      // it will load and attach, according to the target
	Unknown Verdict = "unknown" // it depends on the host's files or machine
	Skipped Verdict = "skipped" // the attach point is missing, and missing_probes lets the script run without it
	Fails   Verdict = "fails"   // the loader or the kernel will refuse it
)

// worse returns the worse of two verdicts.
func worse(a, b Verdict) Verdict {
	order := []Verdict{OK, Unknown, Skipped, Fails}
	if slices.Index(order, b) > slices.Index(order, a) {
		return b
	}
	return a
}

// Finding is one reason for a verdict.
type Finding struct {
	Verdict Verdict      `json:"verdict,omitempty"`
	Program string       `json:"program,omitempty"`
	Pos     manifest.Pos `json:"pos"`
	Text    string       `json:"text"`
}

// Program is the verdict on one program.
type Program struct {
	Name    string  `json:"name"`
	Attach  string  `json:"attach"`
	Verdict Verdict `json:"verdict"`
	// Sites is the number of attach sites: functions or events of the target that match the attach
	// point. It is more than 1 for a pattern, and 0 if the target does not have the information.
	Sites int `json:"sites"`
	// Instructions is the length of the program on this target, without code that the kernel
	// removes as dead, and without walks by unwind tables that only --unwind=dwarf needs.
	Instructions int `json:"instructions"`
	// Verified is an estimate of the instructions that the kernel's verifier walks, including
	// subprograms; the verifier's limit is 1,000,000.
	Verified int `json:"verified"`
}

// Report is the verdict on one object and one target.
type Report struct {
	Target   string    `json:"target"` // the kernel's release
	Arch     string    `json:"arch"`
	Verdict  Verdict   `json:"verdict"`
	Programs []Program `json:"programs"`
	Findings []Finding `json:"findings,omitempty"`
	// Notes say why attach points may not fire, in the words of btrun --why. They do not change the verdict, and have none.
	Notes []Finding `json:"notes,omitempty"`
}

// Check returns a report for an object on a target. It modifies the object, so the object must be
// read again for each target. The error is about reading the target.
func Check(o *object.Object, t *kernel.Target) (*Report, error) {
	c := &checker{o: o, m: o.Manifest, t: t, r: &Report{Target: t.Release(), Arch: t.Arch().Label, Verdict: OK}}
	if arches := c.m.Arches; len(arches) > 0 && !slices.Contains(arches, t.Arch().Label) {
		c.find(Fails, nil, manifest.Pos{}, "the object was compiled for %v, not for %s", arches, t.Arch().Label)
	}
	if err := c.readFeatures(); err != nil {
		return nil, err
	}
	rewrite.DropWalks(o.Spec, usualWalks)
	c.needs()
	c.hostOnly()
	if err := c.wholeValues(); err != nil {
		return nil, err
	}
	points := c.points()
	for i := range points {
		if err := c.program(&c.m.Programs[i], points[i]); err != nil {
			return nil, err
		}
	}
	c.nothingLeft()
	c.notes()
	if err := t.Err(); err != nil {
		return nil, fmt.Errorf("target %s: %w", t.Release(), err)
	}
	return c.r, nil
}

type checker struct {
	o *object.Object
	m *manifest.Manifest
	t *kernel.Target
	r *Report

	verified int // estimate of the last program

	types   *types
	spec    *btf.Spec      // types of the target that the last program was relocated with
	helpers map[int64]bool // numbers of the helpers that the target has
	// needed are the missing helpers that were reported with a construct from the manifest.
	needed map[string]bool
}

func (c *checker) find(v Verdict, p *manifest.Program, pos manifest.Pos, format string, args ...any) {
	f := Finding{Verdict: v, Pos: pos, Text: fmt.Sprintf(format, args...)}
	if p != nil {
		f.Program = p.Name
	}
	same := func(have Finding) bool { return have.Text == f.Text && have.Pos == f.Pos }
	if !slices.ContainsFunc(c.r.Findings, same) { // several instructions read the same field
		c.r.Findings = append(c.r.Findings, f)
	}
	if v != Skipped {
		c.r.Verdict = worse(c.r.Verdict, v)
	}
}

func (c *checker) program(p *manifest.Program, point point) error {
	out := Program{Name: p.Name, Attach: p.Attach.Text, Verdict: OK}
	out.Sites = point.sites
	if point.text != "" {
		c.find(point.verdict, p, p.Pos, "%s", point.text)
	}
	out.Verdict = point.verdict
	if point.verdict != Skipped { // a program that is not attached is not loaded either
		v, n, err := c.code(p)
		if err != nil {
			return err
		}
		out.Verdict, out.Instructions, out.Verified = worse(out.Verdict, v), n, c.verified
	}
	c.r.Programs = append(c.r.Programs, out)
	return nil
}

// nothingLeft handles a script with no existing probe: the loader would report that there is
// nothing to attach.
func (c *checker) nothingLeft() {
	for _, p := range c.r.Programs {
		if p.Verdict != Skipped {
			return
		}
	}
	if len(c.r.Programs) > 0 {
		c.find(Fails, nil, manifest.Pos{}, "none of the script's probes exists")
	}
}

// needs checks the manifest's list of needs against the target's helpers.
func (c *checker) needs() {
	for _, n := range c.m.Needs {
		if _, _, ok := c.t.EnumConst("BPF_FUNC_" + n.Feature); !ok {
			c.needed[n.Feature] = true
			c.find(Fails, nil, n.Pos, "%s needs the helper bpf_%s, which this kernel lacks", n.Construct, n.Feature)
		}
	}
}

// readFeatures determines the helpers of the target's kernel, from the enum of their numbers in BTF
// rather than the kernel's version.
func (c *checker) readFeatures() error {
	enum, ok := c.t.Enum("bpf_func_id")
	if !ok {
		return fmt.Errorf("target %s does not say which helpers its kernel has (enum bpf_func_id is missing)",
			c.t.Release())
	}
	c.helpers, c.needed = map[int64]bool{}, map[string]bool{}
	for _, e := range enum.Enumerators {
		if e.Name != "__BPF_FUNC_MAX_ID" {
			c.helpers[e.Value] = true
		}
	}
	return nil
}
