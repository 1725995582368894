// SPDX-License-Identifier: Apache-2.0

package run

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/load"
	"btc/loader/output"
	"btc/loader/resolve"
	"btc/loader/rewrite"
	"btc/loader/why"
)

// reasons are the reports of Options.Why.
type reasons struct {
	requested atomic.Bool
	last      time.Time // when something was printed last
	silent    bool      // the silence was reported
	// Files of probes that a process had mapped during the run; looks counts how often that was looked at.
	mapped map[string]bool
	others map[string]string // other files of the same name, which the process of -c had mapped
	looks  int
	look   *look // at the mappings of all processes, in progress
	ran    bool  // the program of -c ran when that was looked at first, just after it was executed
	seen   bool  // it ran at a later time
	next   time.Time
	// host has what the host knew of clauses before their probes were detached.
	host map[*manifest.Program]hostFacts
}

// hostFacts is what the host knows of why an attach point does not fire.
type hostFacts struct {
	facts []why.Fact
	ruled []string
}

// lookInterval and laterInterval are how often the mappings of processes are looked at: first, and after firstLooks.
const (
	lookInterval  = 100 * time.Millisecond
	laterInterval = 5 * time.Second
	firstLooks    = 20
)

// look reads which files the traced processes have mapped, nil for all of the host. This may take long, so events are read meanwhile.
type look struct {
	stop  atomic.Bool
	done  chan struct{}
	found []string      // once done is closed
	took  time.Duration // the same
}

func (l *look) read(paths []string, pids []int) {
	begun := time.Now()
	l.found = why.Mapped(paths, pids, &l.stop)
	l.took = time.Since(begun)
	close(l.done)
}

// watchFiles notes which files of probes processes have mapped: a process of -c may end before the report. The mappings of
// this one are read at once, those of all in the background, for at most a tenth of the time.
func (s *session) watchFiles(now time.Time) {
	r := &s.reasons
	if r.look != nil {
		select {
		case <-r.look.done:
			r.endLook()
		default:
			return
		}
	}
	if now.Before(r.next) {
		return
	}
	if r.next = now.Add(lookInterval); r.looks >= firstLooks {
		r.next = now.Add(laterInterval)
	}
	r.looks++
	paths := s.unmapped()
	if s.child != nil {
		program, err := os.Stat(s.child.Path)
		if ran, other := os.Stat(fmt.Sprintf("/proc/%d/exe", s.child.PID)); err == nil && other == nil && os.SameFile(ran, program) {
			r.ran, r.seen = true, r.ran
		}
		var found []string
		for _, path := range paths {
			same, other := why.MappedBy(path, s.child.PID)
			if file, err := os.Stat(path); same || err == nil && program != nil && os.SameFile(file, program) {
				found = append(found, path)
			} else if other != "" {
				if r.others == nil {
					r.others = map[string]string{}
				}
				r.others[path] = other
			}
		}
		r.found(found)
		if !s.opts.FollowForks { // links are limited to the process
			return
		}
		paths = s.unmapped()
	}
	if len(paths) > 0 {
		r.look = &look{done: make(chan struct{})}
		pids := s.opts.PIDs
		if s.opts.FollowForks {
			pids = nil
		}
		go r.look.read(paths, pids)
	}
}

// unmapped returns the files of probes that no process was seen to map.
func (s *session) unmapped() (paths []string) {
	for i := range s.expansion.Plans {
		path := s.siteOf(&s.expansion.Plans[i]).Path
		if path != "" && !s.reasons.mapped[path] && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// found notes files that processes have mapped.
func (r *reasons) found(paths []string) {
	if r.mapped == nil {
		r.mapped = map[string]bool{}
	}
	for _, path := range paths {
		r.mapped[path] = true
	}
}

// endLook waits for a look, which is stopped if it is in progress.
func (r *reasons) endLook() {
	if r.look == nil {
		return
	}
	r.look.stop.Store(true)
	<-r.look.done
	r.found(r.look.found)
	if next := time.Now().Add(9 * r.look.took); next.After(r.next) {
		r.next = next
	}
	r.look = nil
}

// holdFacts collects the facts about the host before the probes are detached, which changes semaphores.
func (s *session) holdFacts() {
	if !s.opts.Why || s.loaded == nil || s.loaded.Cover == nil {
		return
	}
	s.watchFiles(time.Now())
	s.reasons.endLook() // the facts are of all processes
	s.reasons.host = map[*manifest.Program]hostFacts{}
	fired := s.fired()
	s.eachPlan(func(p *resolve.Plan) {
		if !fired[p.Prog.Clause] {
			facts, ruled := why.Facts(s.siteOf(p))
			s.reasons.host[p.Prog] = hostFacts{facts, ruled}
		}
	})
}

// fired returns the clauses that have fired, as far as that is counted.
func (s *session) fired() map[int]bool {
	all := map[int]bool{}
	counts, _ := s.loaded.Cover.Counts() // without them the facts of every clause are collected
	for x, words := range counts {
		if (x.Kind == rewrite.Fired || x.Kind == rewrite.Reached) && words[0] > 0 {
			all[x.Clause] = true
		}
	}
	return all
}

// eachPlan calls f for the plan of each program.
func (s *session) eachPlan(f func(p *resolve.Plan)) {
	for i := range s.expansion.Plans {
		plan := &s.expansion.Plans[i]
		f(plan)
		for j := range plan.Joined {
			f(&plan.Joined[j])
		}
	}
}

// HostFacts returns what the host knows of why attach points of the script would not fire, a sentence each.
func (x *Session) HostFacts() (all []string) {
	s := x.s()
	s.eachPlan(func(p *resolve.Plan) {
		site := s.siteOf(p)
		facts, _ := why.Facts(site)
		for i := range facts {
			if s.opts.Command != "" && facts[i].Row != why.OtherArch && facts[i].Row != why.Blacklisted && site.Path != "" {
				continue // the command may map the file
			}
			if other := facts[i].Dir + "_" + facts[i].Other; facts[i].Row == why.OtherCall && slices.ContainsFunc(s.manifest.Programs, func(x manifest.Program) bool { return x.Attach.Name == other }) {
				continue // the script traces the other call as well
			}
			if text := facts[i].Sentence(p.Prog.Attach.Text); !slices.Contains(all, text) {
				all = append(all, text)
			}
		}
	})
	return all
}

// checkWhy reports if that was requested, or if nothing was printed for the time of Options.Silence.
func (s *session) checkWhy(now time.Time) {
	if !s.opts.Why {
		return
	}
	r := &s.reasons
	requested := r.requested.Load() && r.requested.Swap(false)
	if r.last.IsZero() {
		r.last = now
	}
	s.watchFiles(now)
	if s.opts.Silence > 0 && !r.silent && now.Sub(r.last) >= s.opts.Silence {
		r.silent, requested = true, true
	}
	if requested {
		s.explain()
	}
}

// heard notes that something is printed.
func (r *reasons) heard() {
	r.last, r.silent = time.Now(), false
}

// explain writes the report.
func (s *session) explain() {
	if !s.opts.Why || s.loaded == nil || s.loaded.Cover == nil {
		return
	}
	x, err := s.whyRun()
	if err != nil {
		s.msg.line("WARNING: " + err.Error())
		return
	}
	report := &output.Explanation{Report: x.Text(s.manifest.Script.File)}
	if f, of, _ := x.Cause(); f != nil {
		report.Cause = f.Row
		report.Sentence, _ = x.First()
		if of != nil {
			report.Line = of.Line
		}
	}
	for _, line := range report.Report {
		s.msg.ofSink(line)
	}
	s.front.later(0, manifest.Pos{}, func(w *writer) {
		if e, ok := w.sink.(output.Explainer); ok {
			e.Explained(report)
			w.Out.Idle()
		}
	})
}

// whyRun collects what is known of the run.
func (s *session) whyRun() (*why.Run, error) {
	counts, err := s.loaded.Cover.Counts()
	if err != nil {
		return nil, err
	}
	r := &why.Run{Took: time.Since(s.started)}
	byClause := map[int]*why.Clause{}
	for i := range s.manifest.Programs {
		mp := &s.manifest.Programs[i]
		c := byClause[mp.Clause]
		if c == nil {
			c = &why.Clause{Line: mp.Pos.Line, Own: mp.Kind == probe.Begin || mp.Kind == probe.End || mp.Kind == probe.Self, Timer: true, Took: r.Took}
			byClause[mp.Clause] = c
			r.Clauses = append(r.Clauses, c)
		} else {
			c.Probe += ","
		}
		c.Probe += mp.Attach.Text
		c.Timer = c.Timer && mp.Kind == probe.Interval
	}
	s.whySites(byClause)
	for clause, c := range byClause {
		covered := s.loaded.Cover.Clause(clause)
		c.Counted = covered.Programs > 0 && covered.Missed == 0
		c.Tested = c.Counted && covered.Tested != rewrite.Unknown
		c.Filter = s.filterText()
		c.Unknown = !c.Counted
	}
	for x, words := range counts {
		c := byClause[x.Clause]
		if c == nil {
			continue
		}
		switch x.Kind {
		case rewrite.Reached:
			c.Reached = words[0]
		case rewrite.Fired:
			c.Fired = words[0]
		case rewrite.Early:
			if i := slices.IndexFunc(c.Early, func(e why.Early) bool { return e.Line == x.Line }); i >= 0 {
				c.Early[i].N += words[0]
			} else {
				c.Early = append(c.Early, why.Early{Line: x.Line, N: words[0]})
			}
		case rewrite.ReadFailed:
			if words[0] > 0 {
				c.Reads = append(c.Reads, why.Read{
					Text: s.expressionAt(x.Line, x.Col), Line: x.Line, N: words[0], Errno: errnoName(int64(words[1])), Address: words[2], User: x.User,
				})
			}
		case rewrite.False:
			c.False += words[0]
		}
	}
	for i := range s.manifest.Clauses {
		m := &s.manifest.Clauses[i]
		if c := byClause[m.Number]; c != nil {
			s.whyClause(c, m, counts, byClause)
		}
	}
	for _, c := range r.Clauses {
		sort.Slice(c.Reads, func(i, j int) bool { return c.Reads[i].N > c.Reads[j].N })
		sort.Slice(c.Early, func(i, j int) bool { return c.Early[i].Line < c.Early[j].Line })
		c.Early = slices.DeleteFunc(c.Early, func(e why.Early) bool { return e.N == 0 })
	}
	s.whyLosses(r)
	s.whyHost(r, byClause)
	if s.opts.Policy != nil {
		r.Withhold(s.opts.Policy.Signed())
	}
	return r, nil
}

// whySites sets where the clauses are attached.
func (s *session) whySites(byClause map[int]*why.Clause) {
	at := 0
	for i := range s.expansion.Plans {
		plan := &s.expansion.Plans[i]
		clauses := []*why.Clause{byClause[plan.Prog.Clause]}
		for j := range plan.Joined {
			clauses = append(clauses, byClause[plan.Joined[j].Prog.Clause])
		}
		at++
		for _, c := range clauses {
			if c != nil && plan.Strategy == resolve.Virtual {
				c.Sites++
			}
		}
	}
	for _, p := range s.links.points {
		for i := range s.expansion.Plans {
			plan := &s.expansion.Plans[i]
			if plan.Prog.Attach.Text != p.Probe {
				continue
			}
			for _, prog := range append([]resolve.Plan{*plan}, plan.Joined...) {
				c := byClause[prog.Prog.Clause]
				if c == nil || c.Sites > 0 {
					continue
				}
				c.Sites, c.Refuse = p.Sites/(1+len(plan.Joined)), len(p.Refused)
				if p.Err != nil {
					c.Error = firstLine(p.Err.Error())
				}
			}
		}
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// filterText names the options that filter the events of programs.
func (s *session) filterText() string {
	var all []string
	if len(s.opts.PIDs) > 0 || s.child != nil {
		all = append(all, map[bool]string{true: "-p", false: "-c"}[len(s.opts.PIDs) > 0])
	}
	switch {
	case len(s.opts.Containers) > 0 || len(s.opts.Pods) > 0:
		all = append(all, "--container")
	case len(s.opts.Cgroups) > 0:
		all = append(all, "--cgroup")
	}
	return strings.Join(all, " and ")
}

// whyClause sets what the manifest describes of a clause.
func (s *session) whyClause(c *why.Clause, m *manifest.Clause, counts map[rewrite.Counter][]uint64, byClause map[int]*why.Clause) {
	c.Tested = c.Tested && m.Predicate != nil
	never := c.Tested && s.loaded.Cover.Clause(m.Number).Tested == rewrite.Never
	if m.Predicate != nil {
		c.Predicate = s.sourceOf(m.Predicate)
	}
	if never {
		c.False = c.Fired
	}
	samples := s.loaded.Cover.Samples()
	for i := range m.Tests {
		out := why.Test{}
		whyTest(&out, m.Number, rewrite.False, &m.Tests[i], counts, samples)
		if never && len(m.Tests) == 1 {
			out.False = c.Fired
		}
		if t := &m.Tests[i]; (t.Builtin == "pid" || t.Builtin == "tid") && t.Op == "==" && t.Kind == "int" && out.False > 0 {
			out.Process = why.Process(t.Number, t.Builtin == "tid")
		}
		c.Tests = append(c.Tests, out)
	}
	s.whyBranches(c, m, counts, samples)
	for i := range m.Reads {
		r := &m.Reads[i]
		words := counts[rewrite.Counter{Kind: rewrite.Lookups, Clause: m.Number, Line: r.Span.Line, Col: r.Span.Col}]
		l := why.Lookup{Text: s.sourceOf(&r.Span), Map: r.Map}
		if words != nil {
			l.N, l.Missing = words[0], words[1]
		}
		for j := range s.manifest.Clauses {
			if o := &s.manifest.Clauses[j]; slices.Contains(o.Stores, r.Map) {
				l.Stores = append(l.Stores, byClause[o.Number])
			}
		}
		c.Lookups = append(c.Lookups, l)
	}
}

// whyTest sets what is known of a test. kind is that of its counter.
func whyTest(out *why.Test, clause int, kind rewrite.CounterKind, t *manifest.Test, counts map[rewrite.Counter][]uint64, samples []load.Sample) {
	out.Left, out.Op, out.Right, out.Builtin, out.Kind, out.Size, out.Signed = t.Left, t.Op, t.Right, t.Builtin, t.Kind, t.Size, t.Signed
	out.Number, out.Literal = t.Number, t.Literal
	out.False = firstWord(counts, kind, clause, t.Span.Line, t.Span.Col)
	for j := range samples {
		if x := &samples[j]; x.SampleOf == (load.SampleOf{Clause: clause, Test: t.Span}) {
			v := valueOf(t, x)
			if k := slices.IndexFunc(out.Seen, func(o why.Value) bool { return o.Text == v.Text }); k >= 0 {
				out.Seen[k].N += v.N
			} else {
				out.Seen = append(out.Seen, v)
			}
		}
	}
}

// firstWord returns the first word of a counter.
func firstWord(counts map[rewrite.Counter][]uint64, kind rewrite.CounterKind, clause, line, col int) uint64 {
	if words := counts[rewrite.Counter{Kind: kind, Clause: clause, Line: line, Col: col}]; words != nil {
		return words[0]
	}
	return 0
}

// whyBranches sets what is known of the if statements and while loops of a clause.
func (s *session) whyBranches(c *why.Clause, m *manifest.Clause, counts map[rewrite.Counter][]uint64, samples []load.Sample) {
	c.Effects, c.Branches = m.Effects, make([]why.Branch, len(m.Branches))
	covered := s.loaded.Cover.Clause(m.Number)
	if len(m.Branches) > rewrite.MaxBranches { // the others are not counted
		c.Branches, c.Unknown = c.Branches[:rewrite.MaxBranches], true
	}
	for i := range c.Branches {
		x, b := &m.Branches[i], &c.Branches[i]
		b.Text, b.Line, b.Outer, b.Effects = "if (", x.Cond.Line, -1, x.Effects
		if x.Loop {
			b.Text = "while ("
		}
		b.Text += s.sourceOf(&x.Cond) + ")"
		for j := range i {
			if x.Cond.Within(&m.Branches[j].Body) {
				b.Outer = j
			}
		}
		b.Counted = c.Counted && !covered.Uncounted[i]
		c.Unknown = c.Unknown || !b.Counted
		b.True = firstWord(counts, rewrite.True, m.Number, x.Cond.Line, x.Cond.Col)
		b.False = firstWord(counts, rewrite.Not, m.Number, x.Cond.Line, -x.Cond.Col)
		b.Tests = make([]why.Test, len(x.Tests))
		for j := range x.Tests {
			whyTest(&b.Tests[j], m.Number, rewrite.Not, &x.Tests[j], counts, samples)
			b.False += b.Tests[j].False
		}
	}
}

// valueOf formats a sampled value.
func valueOf(t *manifest.Test, x *load.Sample) why.Value {
	if rewrite.SampledText(t) {
		text, _, _ := bytes.Cut(x.Value[:], []byte{0})
		if t.Kind == "string" && t.Size > 0 && len(text) >= t.Size {
			text = text[:t.Size-1]
		}
		return why.Value{Text: strconv.Quote(string(text)), N: x.N}
	}
	n := binary.NativeEndian.Uint64(x.Value[:8])
	if t.Signed {
		if t.Size == 4 {
			return why.Value{Text: strconv.FormatInt(int64(int32(n)), 10), Number: n, N: x.N}
		}
		return why.Value{Text: strconv.FormatInt(int64(n), 10), Number: n, N: x.N}
	}
	return why.Value{Text: strconv.FormatUint(n, 10), Number: n, N: x.N}
}

// sourceOf returns a part of the script on one line.
func (s *session) sourceOf(at *manifest.Span) string {
	return cutLine(between(s.manifest.Script.Source, at))
}

// maxShown is the number of bytes that are shown of a part of the script.
const maxShown = 80

func cutLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown-3], "") + "..."
	}
	return text
}

func between(source string, at *manifest.Span) string {
	var out strings.Builder
	n := 0
	for line := range strings.Lines(source) {
		n++
		if n < at.Line || n > at.EndLine {
			continue
		}
		from, to := 0, len(line)
		if n == at.Line {
			from = min(max(at.Col-1, 0), len(line))
		}
		if n == at.EndLine {
			to = min(max(at.EndCol-1, from), len(line))
		}
		out.WriteString(line[from:max(to, from)])
	}
	return out.String()
}

// expressionAt returns the expression at a position: the source up to where its brackets are closed.
func (s *session) expressionAt(line, col int) string {
	text := between(s.manifest.Script.Source, &manifest.Span{Line: line, Col: col, EndLine: line, EndCol: 1 << 20})
	depth := 0
	for i, r := range text {
		switch r {
		case '(', '[':
			depth++
		case ')', ']':
			if depth--; depth < 0 {
				return cutLine(text[:i])
			}
			if depth == 0 && !strings.HasPrefix(text[i+1:], "->") && !strings.HasPrefix(text[i+1:], ".") {
				return cutLine(text[:i+1])
			}
		case ' ', ';', '}', ',', '/', '=', '<', '!':
			if depth == 0 && i > 0 {
				return cutLine(text[:i])
			}
		}
	}
	return cutLine(text)
}

// errnoName returns the name of a helper's error.
func errnoName(result int64) string {
	switch n := -int64(int32(result)); n {
	case 1:
		return "EPERM"
	case 14:
		return "EFAULT"
	case 22:
		return "EINVAL"
	case 34:
		return "ERANGE"
	default:
		return fmt.Sprintf("error %d", n)
	}
}

// whyLosses sets what was lost.
func (s *session) whyLosses(r *why.Run) {
	counters := s.losses.read()
	for i, l := range s.manifest.Losses {
		if i >= len(counters) || counters[i] == 0 {
			continue
		}
		switch l.Kind {
		case "events":
			r.LostEvents += counters[i]
		case "map":
			var of *why.Clause
			pos := manifest.Pos{}
			if l.Pos != nil {
				pos = *l.Pos
			} else if m := s.manifest.Map(l.Map); m != nil && m.Update != nil {
				pos = *m.Update
			}
			for _, c := range r.Clauses { // the last one that begins before
				if c.Line <= pos.Line {
					of = c
				}
			}
			if of == nil {
				continue
			}
			most := uint32(0)
			if m := s.loaded.Maps[s.manifest.MapSymbol(l.Map)]; m != nil {
				most = m.MaxEntries()
			}
			of.Dropped = append(of.Dropped, why.Dropped{Map: l.Map, N: counters[i], Max: most})
		}
	}
}

// whyHost collects facts about the host for clauses that did not run.
func (s *session) whyHost(r *why.Run, byClause map[int]*why.Clause) {
	s.eachPlan(func(p *resolve.Plan) {
		c := byClause[p.Prog.Clause]
		if c == nil || c.Own || !c.Counted {
			return
		}
		site := s.siteOf(p)
		if c.Fired > 0 || c.Reached > 0 {
			c.File32 = why.File32(site.Path)
		}
		syscalls := site.Kind == probe.Tracepoint && site.Group == "syscalls"
		for i := range c.Tests {
			if t := &c.Tests[i]; syscalls && t.Builtin == "comm" && t.Op == "==" && t.False > 0 {
				t.Process = why.Comm(t.Literal, site)
			}
		}
		if c.Fired > 0 || c.Reached > 0 || len(c.Host) > 0 || len(c.Ruled) > 0 {
			return
		}
		if held, ok := s.reasons.host[p.Prog]; ok {
			c.Host, c.Ruled = held.facts, held.ruled
		} else {
			c.Host, c.Ruled = why.Facts(site)
		}
	})
}

// siteOf describes the first attach site of a plan.
func (s *session) siteOf(p *resolve.Plan) *why.Site {
	site := &why.Site{Kind: p.Prog.Kind, PIDs: s.opts.PIDs}
	if len(p.Matches) > 0 {
		m := &p.Matches[0]
		site.Group, site.Path, site.Semaphore = m.Group, m.Path, m.Semaphore
		if m.BPF == 0 { // the lists of the kernel do not have functions of BPF programs
			site.Name = m.Name
		}
		if m.SameBuild {
			site.Calls = p.Prog.Attach.Calls
		}
	}
	site.Traced, site.Follow = s.opts.PIDs, s.opts.FollowForks
	if s.child != nil {
		site.PID = s.child.PID
		site.Traced = []int{site.PID}
		site.Command, site.Looked = s.child.Path, s.reasons.seen || s.reasons.ran && !strings.Contains(filepath.Base(site.Path), ".so")
	}
	site.Mapped, site.Other = s.reasons.mapped[site.Path], s.reasons.others[site.Path]
	return site
}
