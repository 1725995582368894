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

// Absence is how a run treats a program whose attach point does not exist on a kernel.
type Absence int

// Absences.
const (
	Fatal    Absence = iota // the run ends with an error
	Warned                  // the program is skipped with a warning
	Silently                // the program is skipped
)

// Mode returns the script's missing_probes for a program: error, warn or ignore.
func Mode(p *manifest.Program) string { return cmp.Or(p.Attach.Missing, "error") }

// Searched reports whether a program reads the name of its probe. As in bpftrace, its attach points are then looked
// up like patterns: a missing one is not an error if its clause has another. A USDT probe is not searched, because
// its arguments need the number of the attach point.
func Searched(p *manifest.Program) bool { return p.UsesID && p.Kind != probe.USDT }

// Clauses maps the numbers of clauses whose attach points were looked up to the results.
type Clauses map[int]*Clause

// Clause is the result of looking up a clause's attach points.
type Clause struct {
	First   *manifest.Program
	Missing []string // missing patterns, and names looked up like patterns
	Kept    bool     // the clause has an attach point
	Mode    string   // for a clause without one: error or warn; set by Unmatched
}

func (c Clauses) of(p *manifest.Program) *Clause {
	l := c[p.Clause]
	if l == nil {
		l = &Clause{First: p}
		c[p.Clause] = l
	}
	return l
}

// Retain records that an attach point exists.
func (c Clauses) Retain(p *manifest.Program) { c.of(p).Kept = true }

// Drop records that the attach point of p does not exist; text is the message. pattern means a pattern without a
// match; foreign that this architecture cannot have it.
func (c Clauses) Drop(p *manifest.Program, text string, pattern, foreign bool) Absence {
	mode := Mode(p)
	switch {
	case mode == "ignore", pattern, mode == "error" && Searched(p):
		l := c.of(p)
		if pattern || mode == "error" {
			l.Missing = append(l.Missing, text)
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

// Unmatched lists, in order, the clauses that have no attach point, unless the script ignores that.
func (c Clauses) Unmatched(m *manifest.Manifest) []*Clause {
	var all []*Clause
	for _, n := range slices.Sorted(maps.Keys(c)) {
		l := c[n]
		// Matches of patterns have their own modes.
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
	Type string // C type without qualifiers
	Size int    // bytes
	// Class is how the value is passed if it is neither an integer, an enum nor a pointer: struct, union or float.
	Class string
}

// Prototype is the prototype of a kernel function or raw tracepoint.
type Prototype struct {
	Params []Param
	Result string // type of the return value
	// ResultClass is the Class of the return value.
	ResultClass string
	// ResultBits is the width of an integer result, negative if it is signed; else 0.
	ResultBits int
	// Variadic: it has more parameters, which are not in Params.
	Variadic bool
}

// maxTrampolineArgs is MAX_BPF_FUNC_ARGS of the kernel, and maxByValue the size of the largest struct that it
// passes to fentry by value (btf_distill_func_proto).
const (
	maxTrampolineArgs = 12
	maxByValue        = 16
)

// entersPrograms are functions that the kernel calls to enter a BPF program from a trampoline: a program there would enter itself
// without end. Kernels refuse them (btf_id_deny of kernel/bpf/verifier.c, 5.14), __rcu_read_lock and __rcu_read_unlock only
// since 6.4: before, such a program was accepted.
var entersPrograms = []string{"__rcu_read_lock", "__rcu_read_unlock", "migrate_disable", "migrate_enable", "preempt_count_add", "preempt_count_sub", "rcu_read_unlock_strict"}

// Trampoline returns why no kernel can, or may, enter a function with fentry or fexit, or "".
func Trampoline(name string, proto *Prototype) string {
	text := ""
	switch {
	case slices.Contains(entersPrograms, name):
		text = "the kernel itself calls it to enter a program"
	case proto.Variadic:
		text = "it is variadic"
	case len(proto.Params) > maxTrampolineArgs:
		text = fmt.Sprintf("it has %d arguments", len(proto.Params))
	case proto.ResultClass != "":
		text = "it returns a " + proto.ResultClass
	}
	for _, p := range proto.Params {
		if p.Class == "union" || p.Class == "float" || p.Size > maxByValue {
			text = "it passes a " + cmp.Or(p.Class, "value of more than 16 bytes")
		}
	}
	if text != "" {
		text = "this kernel cannot enter " + name + " with fentry or fexit: " + text
	}
	return text
}

// Arguments checks the arguments that a program reads against a prototype: each must be at the same position with the
// same name or type. Prototypes change between kernels, and a number instead of a pointer must not go unnoticed.
func Arguments(p *manifest.Program, proto Prototype) error {
	for _, use := range p.Args {
		slot, found := 0, false
		for _, param := range proto.Params {
			if use.Name != "" && param.Name == use.Name {
				if slot != use.Slot {
					return fmt.Errorf("on this kernel argument %[2]s of %[1]s is number %[3]d, but the object reads number %[4]d:"+
						" compile the script for this kernel (--target)", p.Attach.Name, use.Name, slot, use.Slot)
				}
				found = true
			} else if slot == use.Slot && param.Type == use.Type {
				found = true
			}
			slot += max(1, (param.Size+7)/8)
		}
		if use.Name == "" {
			found = slot == use.Slot && (proto.Result == use.Type || fits(use.Bits, proto.ResultBits))
		}
		if !found {
			return fmt.Errorf("on this kernel %s has other arguments: %s of type %s is not where the object reads it;"+
				" compile the script for this kernel (--target)", p.Attach.Name, cmp.Or(use.Name, "result"), use.Type)
		}
	}
	return nil
}

// fits reports whether a program can read an integer result of a number of bits where the kernel's has another
// number, both negative for signed ones: it reads the lower half of a long, and Narrowed tells it to read an int.
func fits(was, here int) bool {
	was, here = max(was, -was), max(here, -here)
	return was != 0 && was == here || min(was, here) == 32 && max(was, here) == 64
}

// Narrowed returns the number of bits of a result, negative if it is signed, that has 32 bits on the kernel and 64 in
// the object, and else 0. cut reports the reverse: larger results lose their upper half.
func Narrowed(p *manifest.Program, proto *Prototype) (bits int, cut bool) {
	for _, use := range p.Args {
		switch here := proto.ResultBits; {
		case use.Name != "" || use.Bits == 0 || here == 0:
		case use.Bits%64 == 0 && here%64 != 0:
			return here, false
		case use.Bits%64 != 0 && here%64 == 0:
			return 0, true
		}
	}
	return 0, false
}
