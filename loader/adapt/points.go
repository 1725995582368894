// SPDX-License-Identifier: Apache-2.0

package adapt

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"btc/internal/manifest"
	"btc/internal/probe"
)

// Absence is what becomes of a program whose attach point does not exist on a kernel.
type Absence int

// Absences.
const (
	Fatal    Absence = iota // the run ends with an error
	Warned                  // the program is left out with a warning
	Silently                // it is left out
)

// Mode is the script's missing_probes for a program: error, warn or ignore.
func Mode(p *manifest.Program) string { return cmp.Or(p.Attach.Missing, "error") }

// Searched reports whether a program reads the name of its probe: as in bpftrace its
// attach points are then looked up like patterns, and an absent one is not an error
// while its clause has another. A USDT probe is not searched: its arguments need the
// number of the attach point.
func Searched(p *manifest.Program) bool { return p.UsesID && p.Kind != probe.USDT }

// Clauses are the clauses of a script by number, as far as their attach points were
// looked up.
type Clauses map[int]*Clause

// Clause is what the lookup of a clause's attach points has found.
type Clause struct {
	First *manifest.Program
	Texts []string // what is missing, of patterns and of what is looked up like them
	Kept  bool     // the clause has an attach point
	Mode  string   // of a clause without one: error or warn; set by Empty
}

func (c Clauses) of(p *manifest.Program) *Clause {
	l := c[p.Clause]
	if l == nil {
		l = &Clause{First: p}
		c[p.Clause] = l
	}
	return l
}

// Keep notes that an attach point exists.
func (c Clauses) Keep(p *manifest.Program) { c.of(p).Kept = true }

// Lose notes that the attach point of p does not exist, as text says. pattern: it is a
// pattern without a match; foreign: this architecture cannot have it.
func (c Clauses) Lose(p *manifest.Program, text string, pattern, foreign bool) Absence {
	mode := Mode(p)
	switch {
	case mode == "ignore", pattern, mode == "error" && Searched(p):
		l := c.of(p)
		if pattern || mode == "error" {
			l.Texts = append(l.Texts, text)
		}
		if !pattern && mode == "error" {
			return Warned
		}
		return Silently
	case mode == "warn", foreign:
		c.of(p)
		return Warned
	}
	return Fatal
}

// Empty lists the clauses that have no attach point and whose script does not ignore
// that, in their order.
func (c Clauses) Empty(m *manifest.Manifest) []*Clause {
	var all []*Clause
	for _, n := range slices.Sorted(maps.Keys(c)) {
		l := c[n]
		// Members of patterns have modes of their own.
		l.Mode = cmp.Or(m.Config.Other["missing_probes"], Mode(l.First))
		if !l.Kept && l.Mode != "ignore" {
			all = append(all, l)
		}
	}
	return all
}

// Param is a parameter of a kernel function.
type Param struct {
	Name string
	Type string // in C, without qualifiers
	Size int    // bytes
}

// Prototype is that of a kernel function or raw tracepoint on a kernel.
type Prototype struct {
	Params []Param
	Result string // type of the return value
	// Variadic: it has more parameters, which are not in Params.
	Variadic bool
}

// Arguments holds the arguments that a program reads against a prototype: an argument
// is where it was and has its name or its type. Prototypes change between kernels; a
// number in the place of a pointer must not go unnoticed.
func Arguments(p *manifest.Program, proto Prototype) error {
	for _, use := range p.Args {
		slot, found := 0, false
		for _, param := range proto.Params {
			if use.Name != "" && param.Name == use.Name {
				if slot != use.Slot {
					return fmt.Errorf("on this kernel %s has its argument %s at place %d, the object reads place %d:"+
						" compile the script for this kernel (--target)", p.Attach.Name, use.Name, slot, use.Slot)
				}
				found = true
			} else if slot == use.Slot && param.Type == use.Type {
				found = true
			}
			slot += max(1, (param.Size+7)/8)
		}
		if use.Name == "" {
			found = slot == use.Slot && proto.Result == use.Type
		}
		if !found {
			return fmt.Errorf("on this kernel %s has other arguments: %s of type %s is not where the object reads it;"+
				" compile the script for this kernel (--target)", p.Attach.Name, cmp.Or(use.Name, "result"), use.Type)
		}
	}
	return nil
}
