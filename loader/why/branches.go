// SPDX-License-Identifier: Apache-2.0

package why

import (
	"slices"
	"strconv"
	"strings"

	"btc/internal/manifest"
)

// Branch is an if statement or a while loop whose body stores to maps or prints.
type Branch struct {
	Text    string // if (condition)
	Line    int
	Outer   int  // index of the branch around it, -1: none
	Counted bool // the counts are known
	True    uint64
	False   uint64
	Tests   []Test
	Effects []string // as in manifest.Branch
}

// stopped returns the outermost branch around the body of one, or itself, that was false each time; nil if there is none.
func (c *Clause) stopped(i int) (by *Branch) {
	for ; i >= 0; i = c.Branches[i].Outer {
		if b := &c.Branches[i]; b.Counted && b.True == 0 && b.False > 0 {
			by = b
		}
	}
	return by
}

// lacks reports whether a clause cannot have had an effect: it has it only in branches that were never true. The first of them is
// at, -1 if it has no code for it.
func (c *Clause) lacks(effect string) (at int, lacks bool) {
	at = -1
	for i := range c.Branches {
		if !slices.Contains(c.Branches[i].Effects, effect) {
			continue
		}
		if c.stopped(i) == nil {
			return at, false
		}
		if at < 0 {
			at = i
		}
	}
	return at, !slices.Contains(c.Effects, effect)
}

// idle finds the first effect that a clause has only in branches that were never true, if no other clause can have stored to the
// map. Clauses that say nothing of what is traced are left out.
func (r *Run) idle(c *Clause) *Finding {
	if c.Own || c.Timer {
		return nil
	}
	for i := range c.Branches {
		var idle []string
		for _, effect := range c.Branches[i].Effects {
			at, lacks := c.lacks(effect)
			if !lacks || at != i {
				continue
			}
			if effect == manifest.EffectPrint {
				idle = append(idle, "the clause printed nothing")
			} else if r.lacks(effect) {
				idle = append(idle, "nothing was stored in "+effect)
			}
		}
		if len(idle) == 0 {
			continue
		}
		b, seen := c.stopped(i), ""
		for j := range b.Tests {
			if t := &b.Tests[j]; t.False > 0 { // the last one
				seen = "; " + t.text()
				if text := t.seen(); len(b.Tests) == 1 && text != "" {
					seen = "; seen instead: " + text
				} else if len(b.Tests) == 1 {
					seen = ""
				}
			}
		}
		return &Finding{branchFalse, []string{"{idle}", strings.Join(idle, ", "), "{if}", b.Text, "{line}", strconv.Itoa(b.Line), "{n}", times(b.False), "{seen}", seen}}
	}
	return nil
}

// lacks reports whether no clause can have stored to a map.
func (r *Run) lacks(name string) bool {
	for _, c := range r.Clauses {
		if _, lacks := c.lacks(name); !lacks && (!c.Counted || c.Fired > 0) {
			return false
		}
	}
	return true
}

// text says how often a test was false.
func (t *Test) text() string {
	text := t.String() + " was false " + times(t.False)
	if seen := t.seen(); seen != "" {
		text += "; seen instead: " + seen
	}
	return text
}
