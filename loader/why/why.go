// SPDX-License-Identifier: Apache-2.0

// Package why explains why a script prints nothing: from what is known of each clause of a run, it finds the first cause,
// in one sentence with what to do.
//
// It takes counts and facts about the host (Clause), and returns text. All sentences are in one table (Causes). A sentence says only what the counts or the host show.
package why

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Run is what is known of a run.
type Run struct {
	Took    time.Duration
	Clauses []*Clause
	// LostEvents is the number of events that did not fit in the ring buffer.
	LostEvents uint64
}

// Clause is what is known of a clause.
type Clause struct {
	Probe  string // attach points as in the script
	Line   int
	Sites  int           // where it is attached
	Own    bool          // btrun runs it: begin, end, self
	Timer  bool          // interval: it says nothing of what is traced
	Took   time.Duration // of a timer: how long the run took
	Error  string        // why an attach point is not attached
	Refuse int           // functions that the kernel refuses
	Filter string        // the options that filter its events; "": none

	Counted bool // the counts below are known
	Reached uint64
	Fired   uint64
	Tested  bool // False is known
	Unknown bool // a part of the clause is not counted
	False   uint64
	// Predicate is its source.
	Predicate string
	Tests     []Test
	Branches  []Branch
	Effects   []string // as in manifest.Clause
	Early     []Early
	Reads     []Read
	Lookups   []Lookup
	Dropped   []Dropped
	Host      []Fact // why the host does not run it
	Ruled     []string
	File32    string // the file of its probes, if that is a 32-bit program
}

// Passed returns how often the body ran, as far as that is known.
func (c *Clause) Passed() uint64 {
	if !c.Tested || c.False > c.Fired {
		return c.Fired
	}
	return c.Fired - c.False
}

// Test is an operand of a predicate.
type Test struct {
	Left, Op, Right string
	Builtin, Kind   string // as in manifest.Test
	Size            int
	Signed          bool
	Number          int64
	Literal         string
	False           uint64
	Seen            []Value
	// Process is what the host knows of a process ID that pid is compared with.
	Process Fact
}

func (t *Test) String() string { return strings.TrimSpace(t.Left + " " + t.Op + " " + t.Right) }

// Value is a value that a test was false for.
type Value struct {
	Text   string // as a literal of the script
	Number uint64 // of an integer
	N      uint64 // how often it was sampled
}

// Early is a position at which the body ended before its last statement.
type Early struct {
	Line int
	N    uint64
}

// Read is a read of memory that failed.
type Read struct {
	Text    string // the expression, or its line
	Line    int
	N       uint64
	Errno   string
	Address uint64
	User    bool // the script reads user memory
	Hidden  bool // the address is not shown
}

// Lookup is an element of a map that the clause reads.
type Lookup struct {
	Text, Map  string
	N, Missing uint64
	// Stores are the clauses that store to the map.
	Stores []*Clause
}

// Dropped are keys of a map that had no room.
type Dropped struct {
	Map string
	N   uint64
	Max uint32
}

// Fact is something about the host. Row is its row of Causes; the others are values in its sentence.
type Fact struct {
	Row   string
	Name  string
	Other string
	Dir   string // sys_enter or sys_exit
	PID   int
}

// First returns the first cause, by the order of the table, and its clause: nil for one of the whole run.
func (r *Run) First() (text string, of *Clause) {
	f, of, others := r.Cause()
	switch {
	case f == nil:
		return "", nil
	case others:
		return "other clauses ran, but " + f.Sentence(), of
	}
	return f.Sentence(), of
}

// Cause returns what First has the sentence of; nil if there is none. others means that clauses have done their work, and what is
// missing may be that of another one.
func (r *Run) Cause() (found *Finding, of *Clause, others bool) {
	if r.LostEvents > 0 {
		return &Finding{"events-lost", []string{"{n}", count(r.LostEvents, "event")}}, nil, false
	}
	partial := false
	for _, c := range r.Clauses {
		partial = partial || c.Counted && !c.Own && !c.Timer && c.Passed() > 0 && !r.feeds(c)
	}
	if found, of = r.first(func(row *Cause, _ *Clause) bool { return !partial || row.Partial }); found != nil || !partial {
		return found, of, false
	}
	found, of = r.first(func(_ *Cause, c *Clause) bool { return c.Counted && !c.Own && c.Passed() == 0 })
	return found, of, true
}

// first finds the first cause, of the rows and clauses that count.
func (r *Run) first(counts func(row *Cause, c *Clause) bool) (found *Finding, of *Clause) {
	for i := range Causes {
		for _, c := range r.Clauses {
			if !counts(&Causes[i], c) {
				continue
			}
			for _, f := range c.Findings() {
				if f.Row == Causes[i].Name {
					return &f, c
				}
			}
			if Causes[i].Name == branchFalse {
				if f := r.idle(c); f != nil {
					return f, c
				}
			}
		}
	}
	return nil, nil
}

// feeds reports whether a clause stores elements of maps for other clauses, none of which has run its body: the output is theirs.
func (r *Run) feeds(c *Clause) (feeds bool) {
	for _, o := range r.Clauses {
		for i := range o.Lookups {
			if o == c || !slices.Contains(o.Lookups[i].Stores, c) {
				continue
			}
			if !o.Counted || o.Passed() > 0 {
				return false
			}
			feeds = true
		}
	}
	return feeds
}

// Text formats the report, a line each.
func (r *Run) Text(file string) []string {
	lines := []string{fmt.Sprintf("why: after %s", round(r.Took))}
	for _, c := range r.Clauses {
		if c.Own && len(c.Reads) == 0 && len(c.Dropped) == 0 {
			continue
		}
		lines = append(lines, c.lines(file)...)
	}
	if r.LostEvents > 0 {
		lines = append(lines, "  lost: "+count(r.LostEvents, "event"))
	}
	text, of := r.First()
	switch {
	case text == "":
		lines = append(lines, "why: no cause found"+r.uncounted())
	case of == nil:
		lines = append(lines, "why: "+text)
	default:
		lines = append(lines, fmt.Sprintf("why: %s:%d: %s", file, of.Line, text))
	}
	return lines
}

func (c *Clause) lines(file string) []string {
	head := fmt.Sprintf("%s:%d: %s: ", file, c.Line, c.Probe)
	if c.Error != "" {
		head += "not attached: " + c.Error
		return []string{head}
	}
	head += "attached to " + count(uint64(c.Sites), "site")
	if c.Refuse > 0 {
		head += fmt.Sprintf(" (the kernel refuses %d)", c.Refuse)
	}
	if !c.Counted {
		return []string{head + ", not counted"}
	}
	head += ", fired " + times(c.Fired)
	if c.Filter != "" && c.Reached > c.Fired {
		head += fmt.Sprintf(" (%s more rejected by %s)", number(c.Reached-c.Fired), c.Filter)
	}
	lines := []string{head}
	if c.Predicate != "" && !c.Tested {
		lines = append(lines, "  predicate: not counted")
	}
	if c.Tested {
		lines = append(lines, fmt.Sprintf("  predicate: true %s, false %s", times(c.Passed()), times(c.False)))
		lines = append(lines, testLines(c.Tests)...)
	}
	for i := range c.Branches {
		if b := &c.Branches[i]; b.True+b.False > 0 {
			lines = append(lines, fmt.Sprintf("  line %d: %s: true %s, false %s", b.Line, b.Text, times(b.True), times(b.False)))
			lines = append(lines, testLines(b.Tests)...)
		}
	}
	for _, e := range c.Early {
		lines = append(lines, fmt.Sprintf("  returned early at line %d: %s", e.Line, times(e.N)))
	}
	for i := range c.Reads {
		r := &c.Reads[i]
		lines = append(lines, fmt.Sprintf("  line %d: %s: read failed %s: %s, %s", r.Line, r.Text, times(r.N), r.Errno, address(r)))
	}
	for _, l := range c.Lookups {
		if l.N == 0 {
			continue
		}
		lines = append(lines, fmt.Sprintf("  %s: looked up %s, found nothing %s", l.Text, times(l.N), times(l.Missing)))
	}
	for _, d := range c.Dropped {
		lines = append(lines, fmt.Sprintf("  %s: full, no room for a key %s", d.Map, times(d.N)))
	}
	return lines
}

func testLines(tests []Test) (lines []string) {
	for i := range tests {
		if t := &tests[i]; t.False > 0 {
			lines = append(lines, "    "+t.text())
		}
	}
	return lines
}

// uncounted names the clauses of which a part is not counted.
func (r *Run) uncounted() string {
	var all []string
	for _, c := range r.Clauses {
		if c.Unknown || c.Predicate != "" && !c.Tested {
			all = append(all, strconv.Itoa(c.Line))
		}
	}
	if len(all) == 0 {
		return ""
	}
	return "; not everything could be counted of the clauses in line " + strings.Join(all, ", ")
}

// maxSeen is the number of values that are shown of a test.
const maxSeen = 3

// seen lists the commonest values.
func (t *Test) seen() string {
	var all []string
	for _, v := range t.Seen[:min(len(t.Seen), maxSeen)] {
		all = append(all, fmt.Sprintf("%s (%s)", v.Text, number(v.N)))
	}
	return strings.Join(all, ", ")
}

func address(r *Read) string {
	kind := "user"
	switch {
	case r.Address < 4096:
		kind = "null"
	case r.Address>>63 != 0:
		kind = "kernel"
	case r.Address>>56 != 0:
		kind = "invalid"
	}
	return kind + " address " + r.number()
}

func (r *Read) number() string {
	if r.Hidden {
		return "0x..."
	}
	return fmt.Sprintf("%#x", r.Address)
}

// Withhold removes what a user may not learn where a policy limits objects: what was found in the files of processes, and, if
// others have signed the object (signed), what it does not print: values of its tests and addresses that it reads.
func (r *Run) Withhold(signed bool) {
	for _, c := range r.Clauses {
		c.Ruled = nil
		c.Host = slices.DeleteFunc(c.Host, func(f Fact) bool {
			return f.Row != KprobesOff && f.Row != FtraceOff && f.Row != OtherSymbols && f.Row != Blacklisted && f.Row != OtherCall && f.Row != NoCall && f.Row != NotTraceable
		})
		c.File32 = ""
		for i := range c.Tests {
			c.Tests[i].Process = Fact{}
			if signed {
				c.Tests[i].Seen = nil
			}
		}
		for i := range c.Branches {
			for j := range c.Branches[i].Tests {
				if signed {
					c.Branches[i].Tests[j].Seen = nil
				}
			}
		}
		for i := range c.Reads {
			c.Reads[i].Hidden = signed
		}
	}
}

func round(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
}

// number formats a number with separators.
func number(n uint64) string {
	text := strconv.FormatUint(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func count(n uint64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return number(n) + " " + what + "s"
}

func times(n uint64) string { return count(n, "time") }
