// SPDX-License-Identifier: Apache-2.0

package why

import (
	"strconv"
	"strings"
)

// Finding is a cause that applies to a clause, and the values for its sentence: names and values in turn.
type Finding struct {
	Row    string
	values []string
}

// Sentence returns the sentence of a finding.
func (f *Finding) Sentence() string {
	for i := range Causes {
		if Causes[i].Name == f.Row {
			return strings.NewReplacer(f.values...).Replace(Causes[i].Sentence)
		}
	}
	return ""
}

// Sentence returns the sentence of a fact about an attach point of a script that does not run yet.
func (x *Fact) Sentence(text string) string {
	fires := "does not fire now"
	switch x.Row {
	case OtherSymbols, OtherCall, NoCall, Inlined:
		fires = "may miss calls"
	}
	f := Finding{x.Row, append(x.values(), "{probe}", text, "{fires}", fires)}
	return f.Sentence()
}

// finder collects the findings of a clause.
type finder struct {
	*Clause
	all []Finding
}

// add adds a finding with the values of placeholders.
func (f *finder) add(row string, values ...string) {
	f.all = append(f.all, Finding{row, append(values, "{probe}", f.Probe, "{fires}", "never fired")})
}

// Findings returns the causes that apply to a clause.
func (c *Clause) Findings() []Finding {
	f := &finder{Clause: c}
	if c.Error != "" && c.Sites == 0 {
		f.add("not-attached", "{error}", c.Error)
	}
	for _, d := range c.Dropped {
		if d.N > 0 {
			f.add("map-full", "{map}", d.Map, "{n}", times(d.N), "{max}", number(uint64(d.Max)), "{more}", strconv.Itoa(4*int(d.Max)))
		}
	}
	if !c.Counted {
		return f.all
	}
	runs := c.Passed()
	if runs == 0 {
		runs = c.Fired
	}
	for i := range c.Reads {
		if r := &c.Reads[i]; r.N > 0 && r.N*10 >= runs { // one of ten
			f.read(r)
		}
	}
	for i := range c.Lookups {
		f.lookup(&c.Lookups[i])
	}
	var early uint64
	var lines []string
	for _, e := range c.Early {
		early += e.N
		lines = append(lines, strconv.Itoa(e.Line))
	}
	if early > 0 && early >= c.Passed() {
		f.add("early-return", "{n}", times(early), "{line}", strings.Join(lines, ", "))
	}
	switch {
	case c.Fired == 0 && c.Reached == 0:
		f.silent()
	case c.Fired == 0:
		if c.Filter != "" {
			f.add("filtered", "{n}", times(c.Reached), "{filter}", c.Filter)
		}
	case c.Tested && c.Passed() == 0:
		f.predicate()
	}
	return f.all
}

// silent finds why a clause has not fired.
func (f *finder) silent() {
	if f.Own || f.Sites == 0 {
		return
	}
	if f.Timer {
		f.add("interval", "{took}", round(f.Took))
		return
	}
	for i := range f.Host {
		x := &f.Host[i]
		f.add(x.Row, x.values()...)
	}
	ruled := ""
	for _, text := range f.Ruled {
		ruled += "; " + text
	}
	f.add("never-fired", "{ruled}", ruled)
}

func (x *Fact) values() []string {
	return []string{"{name}", x.Name, "{other}", x.Other, "{dir}", x.Dir, "{pid}", strconv.Itoa(x.PID)}
}

func (f *finder) read(r *Read) {
	row := "no-memory"
	switch kernel := r.Address>>63 != 0; {
	case r.Address < 4096:
		row = "null-pointer"
	case !r.User && r.Address>>56 == 0:
		row = "user-address"
	case r.User && kernel:
		row = "kernel-address"
	case r.User && r.Address>>56 == 0:
		row = "not-resident"
	}
	what := "a null pointer; test the pointer before"
	if r.Address != 0 {
		what = "a member of a null pointer, or a number that is not an address; test the pointer before, or use the number itself"
	}
	later := "read it at the exit of the call, when the kernel has read it"
	if strings.HasPrefix(f.Probe, "u") { // uprobe, usdt
		later = "read it later, when the program has used it"
	}
	f.add(row, "{read}", r.Text, "{n}", times(r.N), "{errno}", r.Errno, "{address}", r.number(), "{what}", what, "{later}", later)
}

// lookup finds why an element is never found.
func (f *finder) lookup(l *Lookup) {
	if l.N == 0 || l.Missing < l.N {
		return
	}
	row, of := "never-stored", &Clause{}
	if len(l.Stores) > 0 {
		row, of = "entry-never-fired", l.Stores[0]
	}
	for _, s := range l.Stores {
		if at, lacks := s.lacks(l.Map); lacks && at >= 0 {
			return // the condition is the cause
		}
		switch {
		case s == f.Clause || !s.Counted:
			return // it may store them later, or have done so
		case s.Passed() > 0:
			row, of = "other-key", s
		case s.Fired > 0 && row != "other-key":
			row, of = "entry-predicate", s
		}
	}
	f.add(row, "{lookup}", l.Text, "{n}", count(l.N, "lookup"), "{map}", l.Map, "{entry}", of.Probe, "{line}", strconv.Itoa(of.Line), "{ran}", times(of.Passed()))
}

// predicate finds why a predicate was never true.
func (f *finder) predicate() {
	last := -1 // the events that were false there passed the operands of && before it
	for i := range f.Tests {
		if f.Tests[i].False > 0 {
			last = i
		}
	}
	for i := range f.Tests {
		if f.Tests[i].False > 0 {
			f.test(&f.Tests[i], i == last)
		}
	}
	f.add("predicate-part", "{predicate}", f.Predicate, "{n}", times(f.Fired))
}

// test finds why a test was false; only the last one is reported without a reason.
func (f *finder) test(t *Test, last bool) {
	seen := ""
	if text := t.seen(); text != "" {
		seen = "; seen instead: " + text
	}
	test := t.String()
	if strings.Contains(f.Predicate, "||") && !strings.Contains(f.Predicate, "&&") {
		test = f.Predicate // all of its operands were false
	}
	values := append(t.Process.values(), "{test}", test, "{n}", times(t.False), "{seen}", seen, "{left}", t.Left,
		"{size}", strconv.Itoa(t.Size), "{length}", strconv.Itoa(len(t.Literal)))
	equal := t.Op == "=="
	half, value := t.halfNegative()
	status := t.waitStatus()
	if status != "" {
		value = status
	}
	values = append(values, "{file32}", f.File32, "{value}", value, "{negative}", half)
	switch most, sign := t.most(); {
	case f.File32 != "" && argument(t.Left):
		f.add("32-bit-arguments", values...)
	case half != "":
		f.add("half-negative", values...)
	case status != "":
		f.add("wait-status", values...)
	case t.Process.Row != "" && equal:
		f.add(t.Process.Row, values...)
	case t.Builtin == "comm" && equal && len(t.Literal) > 15:
		f.add("comm-too-long", append(values, "{short}", strconv.Quote(t.Literal[:15]))...)
	case t.Kind == "string" && t.Builtin == "" && equal && t.Size > 0 && len(t.Literal) >= t.Size:
		f.add("string-cut", append(values, "{max}", strconv.Itoa(t.Size-1))...)
	case t.neverNegative():
		cast := "(int" + strconv.Itoa(8*t.Size) + ")" + t.Left
		if t.Size == 8 {
			cast += ", or (int32)" + t.Left + " if it is an int"
		}
		f.add("never-negative", append(values, "{cast}", cast)...)
	case t.Kind == "int" && equal && t.Size > 0 && t.Size < 8 && t.Number > most:
		f.add("out-of-range", append(values, "{max}", strconv.FormatInt(most, 10), "{sign}", sign)...)
	case !last:
	case seen == "":
		f.add("predicate-false", values...)
	case t.Builtin == "comm":
		f.add("predicate-comm", values...)
	default:
		f.add("predicate-seen", values...)
	}
}

// argument reports whether an operand is an argument of a function, in the register of the convention of the machine.
func argument(text string) bool {
	n, ok := strings.CutPrefix(text, "arg")
	_, err := strconv.ParseUint(n, 10, 8)
	return ok && err == nil
}

// halfNegative returns a value for which a comparison of an unsigned number of 8 bytes with a negative number was false, and
// which is a negative number if only its low 4 bytes count, as those of a function that returns int: that number, and the value.
func (t *Test) halfNegative() (negative, value string) {
	if t.Kind != "int" || t.Signed || t.Size != 8 || t.Builtin != "" {
		return "", ""
	}
	if !(t.Number < 0 && (t.Op == "==" || t.Op == "<=") || t.Op == "<" && t.Number <= 0) {
		return "", ""
	}
	for _, v := range t.Seen {
		if v.Number>>31 == 1 {
			return strconv.FormatInt(int64(int32(v.Number)), 10), v.Text
		}
	}
	return "", ""
}

// waitStatus returns the value of a test if it is the wait status of a process that has ended with the wanted exit status.
func (t *Test) waitStatus() string {
	if t.Kind == "int" && t.Op == "==" && t.Number > 0 && strings.HasSuffix(t.Left, "exit_code") {
		for _, v := range t.Seen {
			if v.Number == uint64(t.Number)<<8 {
				return v.Text
			}
		}
	}
	return ""
}

// most returns the largest number that the value of a test can be, and what kind of number it is.
func (t *Test) most() (most int64, kind string) {
	if t.Size <= 0 || t.Size >= 8 {
		return 0, ""
	}
	if t.Signed {
		return int64(1)<<(8*t.Size-1) - 1, "a signed"
	}
	return int64(1)<<(8*t.Size) - 1, "an unsigned"
}

// neverNegative reports whether a test is true for negative numbers only, and its value is unsigned. A process ID and the
// like is not expected to be negative.
func (t *Test) neverNegative() bool {
	if t.Kind != "int" || t.Signed || t.Size == 0 || t.Builtin != "" {
		return false
	}
	switch t.Op {
	case "==": // of 8 bytes, it may have the bits of the negative number
		return t.Number < 0 && t.Size < 8
	case "<=":
		return t.Number < 0
	case "<":
		return t.Number <= 0
	}
	return false
}
