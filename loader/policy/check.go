// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"btc/internal/arch"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/internal/safefile"
	"btc/loader/diag"
	"btc/loader/object"
	"btc/loader/permit"
	"btc/loader/resolve"
	"btc/loader/sites"
)

// Limits are the options of a run that a policy limits.
type Limits struct {
	Allow     *permit.Grants
	Budget    float64       // share of one CPU; 0: not set
	MaxMemory uint64        // bytes; 0: not set
	Timeout   time.Duration // 0: not set
	Command   string        // the command of -c
	Files     []string      // files that options read
}

// Apply applies the policy to the options of a run. An option that exceeds what the policy permits
// is an error; an option that is not set gets the maximum.
func (p *Policy) Apply(l *Limits) error {
	if p == nil {
		return nil
	}
	if p.grants != nil {
		if err := l.Allow.Limit(p.grants, p.At("allow")); err != nil {
			return err
		}
	}
	if l.Command != "" && !p.permits(permit.Command) {
		return p.lacks(permit.Command, "-c")
	}
	for _, path := range l.Files {
		if path != "" && !p.permits(permit.Read) {
			return p.lacks(permit.Read, "reading "+path)
		}
	}
	if p.budget > 0 {
		if l.Budget > p.budget {
			return p.more("budget", FormatBudget(l.Budget), FormatBudget(p.budget))
		}
		if l.Budget == 0 {
			l.Budget = p.budget
		}
	}
	if p.time > 0 {
		if l.Timeout > p.time {
			return p.more("timeout", l.Timeout.String(), p.time.String())
		}
		if l.Timeout == 0 {
			l.Timeout = p.time
		}
	}
	if p.memory > 0 && (l.MaxMemory == 0 || l.MaxMemory > p.memory) {
		l.MaxMemory = p.memory
	}
	return nil
}

// Memory returns an error if a requested limit of the maps, in bytes, exceeds the policy's.
func (p *Policy) Memory(requested uint64) error {
	if p != nil && p.memory > 0 && requested > p.memory {
		return p.more("max-memory", permit.Size(requested), permit.Size(p.memory))
	}
	return nil
}

// keys maps options to keys of the file with other names.
var keys = map[string]string{"timeout": "max_duration", "max-memory": "max_memory"}

// more returns the error for an option whose value is too large.
func (p *Policy) more(option, requested, most string) error {
	key := option
	if k := keys[option]; k != "" {
		key = k
	}
	at := p.At(key)
	return permit.LimitedAt(at, "--"+option+" "+requested+notHere+": "+at+" permits at most "+most)
}

// lacks returns the error for an option that needs a permission of the policy.
func (p *Policy) lacks(of permit.Permission, what string) error {
	at := p.At("allow")
	return permit.LimitedAt(at, what+notHere+": "+unlisted(at, of))
}

const notHere = " is not permitted on this host"

func unlisted(at string, of permit.Permission) string {
	return fmt.Sprintf("\"allow\" in %s does not list %q", at, of)
}

// permits reports whether the policy grants a permission.
func (p *Policy) permits(of permit.Permission) bool {
	return p == nil || p.grants == nil || len(p.others[of]) > 0
}

// Output returns an error if the policy does not permit writing a file that an option names. It
// must be below a directory that the policy names, and no user but root may be able to place a
// symbolic link in its path.
func (p *Policy) Output(path string) error {
	if path == "" || p == nil || p.grants == nil {
		return nil
	}
	if !p.permits(permit.Output) {
		return p.lacks(permit.Output, "writing "+path)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	dir, err := trusted(filepath.Dir(abs) + "/.") // the directory itself, too
	if err != nil {
		return fmt.Errorf("writing %s is not permitted on this host: %w", path, err)
	}
	if fi, err := os.Lstat(abs); err == nil && !fi.Mode().IsRegular() {
		return fmt.Errorf("writing %s is not permitted on this host: %w", path, safefile.ErrNotRegular)
	}
	for _, root := range p.others[permit.Output] {
		if rel, err := filepath.Rel(filepath.Clean(root), dir); err == nil && filepath.IsLocal(rel) {
			return nil
		}
	}
	return fmt.Errorf("writing %s is not permitted on this host: %s permits files below %s", path, p.At("allow"),
		strings.Join(p.others[permit.Output], ", "))
}

// Results checks that the result of reloads may be written to a file: below /run/btrun, where the unit has it, or where
// Output permits it.
func (p *Policy) Results(path string) error {
	if abs, err := filepath.Abs(path); err == nil && path != "" {
		if dir, err := trusted(filepath.Dir(abs) + "/."); err == nil && (dir == "/run/btrun" || strings.HasPrefix(dir, "/run/btrun/")) {
			return nil
		}
	}
	return p.Output(path)
}

// MemoryFrom returns the line that limits the maps, or "" if there is none.
func (p *Policy) MemoryFrom() string {
	if p == nil || p.memory == 0 {
		return ""
	}
	return p.At("max_memory")
}

// Object checks the probes of an object as far as that is possible without asking the kernel. The
// attach points must have their parameters filled in. Sites checks the rest.
func (p *Policy) Object(o *object.Object) error {
	if p == nil {
		return nil
	}
	m := o.Manifest
	for i := range m.Programs {
		x := &m.Programs[i]
		if v := p.verdict(x); v == refused || v == byMatch && !p.mayMatch(x) {
			return p.refusal(&m.Script, x, x.Attach.Attaches(x.Kind))
		}
	}
	if e := p.printsFile(m); e != nil {
		return &diag.Error{
			Script: &m.Script, Pos: e.Pos, Text: "cat()" + notHere,
			Hint: unlisted(p.At("allow"), permit.Read), Cause: permit.LimitedAt(p.At("allow"), ""),
		}
	}
	return nil
}

// printsFile returns an event that prints a file although the policy does not permit it; nil if
// there is none.
func (p *Policy) printsFile(m *manifest.Manifest) *manifest.Event {
	if p.permits(permit.Read) {
		return nil
	}
	for i := range m.Events {
		if m.Events[i].Kind == "cat" {
			return &m.Events[i]
		}
	}
	return nil
}

// Verdicts on an attach point.
type verdict int

const (
	permitted verdict = iota
	refused
	byMatch // depends on its matches
)

// ofLoader reports whether the loader itself runs programs of a kind. They observe nothing of the
// host.
func ofLoader(kind string) bool {
	t := probe.Lookup(kind)
	return t != nil && t.Runner != probe.Kernel
}

// verdict checks an attach point by its text.
func (p *Policy) verdict(x *manifest.Program) verdict {
	if p.probes == nil || ofLoader(x.Kind) {
		return permitted
	}
	v := refused
	for i := range p.probes {
		switch y := &p.probes[i]; {
		case y.kind != x.Kind:
		case y.parts == nil:
			return permitted
		default:
			v = byMatch
		}
	}
	return v
}

// Sites returns an error if the policy does not permit one of the attach sites of a run. It
// replaces the paths of user programs by the checked paths, without symbolic links.
func (p *Policy) Sites(m *manifest.Manifest, e *sites.Expansion) error {
	if p == nil || p.probes == nil {
		return nil
	}
	for i := range e.Plans {
		plan := &e.Plans[i]
		if p.verdict(plan.Prog) == permitted {
			continue
		}
		for j := range plan.Matches {
			x := &plan.Matches[j]
			if x.Path != "" {
				real, err := checkedPath(x)
				if err != nil {
					return p.refusal(&m.Script, plan.Prog, fmt.Sprintf("%s:%s (%v)", plan.Prog.Kind, x.Path, err))
				}
				x.Path = real
			}
			if s := siteOf(plan.Prog, x); !p.site(&s) {
				return p.refusal(&m.Script, plan.Prog, s.text())
			}
		}
	}
	return nil
}

// checkedPath returns the path of the file that a match is attached to, without symbolic links. Where others than root
// can create files, a hard link could give another user's program the path of a permitted one.
func checkedPath(m *resolve.Match) (string, error) {
	if m.File == nil {
		return realPath(m.Path)
	}
	path, err := safefile.PathOf(m.File)
	if err != nil || safefile.OfRoot(path) {
		return path, err
	}
	var file, dir unix.Stat_t
	if err := unix.Fstat(int(m.File.Fd()), &file); err != nil {
		return "", err
	}
	if err := unix.Lstat(filepath.Dir(path), &dir); err != nil {
		return "", err
	}
	if file.Nlink > 1 && (file.Uid != dir.Uid || dir.Mode&0o022 != 0) {
		return "", errors.New("it has other hard links, and may not belong to who created this one")
	}
	return path, nil
}

// realPath resolves the symbolic links in a path. A file reached through a magic link of /proc,
// such as one in another mount namespace, has no such path.
func realPath(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	real, err := safefile.Resolve("/", abs)
	return filepath.Clean(real), err
}

// site is what a program is attached to.
type site struct {
	kind   string
	group  string   // module or category
	names  []string // name of a function, event or iterator, for the kernel and in the language; empty: an address
	path   string   // file of a user program
	offset bool     // not at the start of the function
}

// siteOf describes a match as the loader attaches to it. It never uses the match's text, which an
// object can choose.
func siteOf(x *manifest.Program, m *resolve.Match) site {
	s := site{kind: x.Kind, group: m.Group, path: m.Path, offset: x.Attach.Offset != 0 || x.Attach.Name == ""}
	if m.Name != "" {
		s.names = []string{m.Name}
	}
	switch x.Kind {
	case probe.Software, probe.Hardware:
		s.names = []string{resolve.EventName(&x.Attach)}
	case probe.Kprobe, probe.Kretprobe, probe.Fentry, probe.Fexit:
		// The kernel has another name for the function of a system call.
		if name := x.Attach.Name; name != m.Name && arch.Host().SyscallFunc(name) == m.Name {
			s.names = append(s.names, name)
		}
		s.offset = s.offset || m.Offset != 0
	}
	return s
}

// text formats the site as an attach point.
func (s *site) text() string {
	var all []string
	for _, part := range append([]string{s.kind, s.path, s.group}, strings.Join(s.names, " or ")) {
		if part != "" {
			all = append(all, part)
		}
	}
	return strings.Join(all, ":")
}

// Listed reports whether the policy permits the attach point in a line of a listing.
func (p *Policy) Listed(text string) bool {
	kind, rest, _ := strings.Cut(text, ":")
	if p == nil || p.probes == nil || ofLoader(kind) {
		return true
	}
	words := strings.Split(rest, ":")
	s := site{kind: kind}
	switch t := probe.Lookup(kind); {
	case t == nil:
		return false
	case t.Space == probe.UserSpace:
		real, err := realPath(words[0])
		if err != nil {
			real = "" // only an entry for the whole kind covers it
		}
		s.path, words = real, words[1:]
	case kind == probe.Software || kind == probe.Hardware:
		words = words[:1]
	case len(words) > 1:
		s.group, words = words[0], words[1:]
	}
	s.names = []string{strings.Join(words, ":")}
	return p.site(&s)
}

// ProbesAt returns the file and line of the list of permitted probes.
func (p *Policy) ProbesAt() string { return p.At("probes") }

// Describe says what the policy means for a run of an object without options: what it refuses, one
// line each, and the limits that it sets. memory is the size of the maps, in bytes.
func (p *Policy) Describe(o *object.Object, memory uint64) (refuses, limits []string) {
	refuses, limits = []string{}, []string{}
	if p == nil {
		return refuses, limits
	}
	if _, err := p.Verify(o, nil); err != nil {
		refuses = append(refuses, "it: "+err.Error())
	}
	m := o.Manifest
	for i := range m.Programs {
		x := &m.Programs[i]
		text := x.Attach.Attaches(x.Kind)
		switch v := p.verdict(x); {
		case v == refused || v == byMatch && !p.mayMatch(x):
			refuses = append(refuses, fmt.Sprintf("%s: %s permits %s", text, p.At("probes"), p.probesText()))
		case v == byMatch && patterned(x):
			limits = append(limits, fmt.Sprintf("%s: only what %s permits: %s", text, p.At("probes"), p.probesText()))
		}
	}
	if p.grants != nil {
		for _, a := range permit.Actions(o) {
			text := fmt.Sprintf("%s: %s permits %s", a.What, p.At("allow"), p.grants.String())
			switch {
			case p.grants.Covers(&a):
			case a.OnHost:
				limits = append(limits, "what "+text)
			default:
				refuses = append(refuses, "the object "+text)
			}
		}
	}
	if e := p.printsFile(m); e != nil {
		refuses = append(refuses,
			fmt.Sprintf("cat(): \"allow\" in %s does not list %q", p.At("allow"), permit.Read))
	}
	if p.memory > 0 {
		text := fmt.Sprintf("maps of at most %s (%s)", permit.Size(p.memory), p.At("max_memory"))
		if memory > p.memory {
			refuses = append(
				refuses,
				fmt.Sprintf("maps of %s: %s permits %s", permit.Size(memory), p.At("max_memory"),
					permit.Size(p.memory)),
			)
		} else {
			limits = append(limits, text)
		}
	}
	if p.budget > 0 {
		limits = append(limits, fmt.Sprintf("--budget %s (%s)", FormatBudget(p.budget), p.At("budget")))
	}
	if p.time > 0 {
		limits = append(limits, fmt.Sprintf("--timeout %s (%s)", p.time, p.At("max_duration")))
	}
	return refuses, limits
}

// patterned reports whether the matches of an attach point depend on the host or on a parameter.
func patterned(x *manifest.Program) bool {
	return len(x.Attach.Substitute) > 0 || probe.IsPattern(x.Attach.Target) || probe.IsPattern(x.Attach.Name)
}

// mayMatch reports whether an attach point whose verdict depends on its sites may have a permitted
// one.
func (p *Policy) mayMatch(x *manifest.Program) bool {
	if patterned(x) {
		return true
	}
	a := &x.Attach
	m := resolve.Match{Group: a.Target, Name: a.Name}
	if t := probe.Lookup(x.Kind); t.Space == probe.UserSpace {
		real, err := realPath(a.Target)
		if err != nil { // found by name, or not on this host
			return true
		}
		m.Path = real
	} else if a.Target == "" {
		return slices.ContainsFunc(p.probes, func(y pattern) bool {
			if y.kind != x.Kind {
				return false
			}
			if y.parts != nil { // only the host knows the module
				y.parts = y.parts[len(y.parts)-1:]
			}
			s := siteOf(x, &m)
			return y.covers(&s)
		})
	}
	s := siteOf(x, &m)
	return p.site(&s)
}

// site reports whether the policy permits a site.
func (p *Policy) site(s *site) bool {
	return slices.ContainsFunc(p.probes, func(x pattern) bool { return x.kind == s.kind && x.covers(s) })
}

// covers reports whether a pattern of the site's kind matches it.
func (x *pattern) covers(s *site) bool {
	if x.parts == nil {
		return true
	}
	last := x.parts[len(x.parts)-1]
	named := func(pattern string) bool {
		// A function's name permits its entry and return, but no offset in it.
		return pattern == "*" ||
			!s.offset && slices.ContainsFunc(s.names, func(name string) bool {
				return !strings.ContainsAny(name, "+: ") && probe.Glob(pattern, name)
			})
	}
	switch s.kind {
	case probe.USDT:
		return probe.Glob(x.parts[0], s.path)
	case probe.Uprobe, probe.Uretprobe:
		return probe.Glob(x.parts[0], s.path) && (len(x.parts) == 1 || named(last))
	case probe.Software, probe.Hardware, probe.Iter:
		return slices.ContainsFunc(s.names, func(name string) bool { return probe.Glob(last, name) })
	}
	return named(last) && (len(x.parts) == 1 || probe.Glob(x.parts[0], s.group))
}

// refusal returns the error for an attach point.
func (p *Policy) refusal(script *manifest.Script, x *manifest.Program, what string) error {
	return &diag.Error{
		Script: script, Pos: x.Pos, Text: what + notHere,
		Hint:  p.At("probes") + " permits " + p.probesText(),
		Cause: permit.LimitedAt(p.At("probes"), ""),
	}
}

// probesText lists what the policy permits.
func (p *Policy) probesText() string {
	if len(p.probes) == 0 {
		return "no probes"
	}
	var all []string
	for i := range p.probes {
		all = append(all, p.probes[i].text)
	}
	return strings.Join(all, ", ")
}
