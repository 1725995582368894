// SPDX-License-Identifier: Apache-2.0

// Package policy reads and enforces the host's policy: what its operator permits users to do with
// objects. The policy is one file at a fixed path, which only root can write. It limits what a run
// may do, and no option, object or environment variable can extend that. If the file cannot be
// read, trusted or parsed, that is an error and nothing runs.
package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/internal/signature"
	"btc/internal/spell"
	"btc/loader/permit"
)

// Path is the path of the policy file. It is a constant, so that nothing at run time can select
// another file.
const Path = "/etc/btrun/policy.json"

// maxBytes bounds the size of the file.
const maxBytes = 1 << 20

// Policy is the content of the file. A nil Policy permits everything.
type Policy struct {
	lines  map[string]int // line of each key
	probes []pattern      // nil: all
	// signers are the keys by one of which an object must be signed; nil: it need not be signed.
	signers []signature.Key
	grants  *permit.Grants // nil: all
	others  map[permit.Permission][]string
	budget  float64
	memory  uint64
	time    time.Duration
	noRaw   bool
}

// file is the JSON object. A missing key limits nothing.
type file struct {
	Probes      []string `json:"probes"`
	Allow       []string `json:"allow"`
	Signers     []string `json:"signers"`
	Budget      *string  `json:"budget"`
	MaxMemory   *string  `json:"max_memory"`
	MaxDuration *string  `json:"max_duration"`
	RawStacks   *bool    `json:"raw_stacks"`
}

// parse parses a policy file.
func parse(data []byte) (*Policy, error) {
	var f file
	lines, at, err := manifest.DecodeStrict(data, &f)
	if e, ok := err.(*manifest.FormatError); ok {
		text := e.Text
		if e.Path != "" && e.Path != "." {
			text = e.Path + ": " + text
		}
		return nil, fmt.Errorf("%s:%d: %s", Path, at, text)
	}
	p := &Policy{lines: lines}
	fail := func(key string, err error) (*Policy, error) {
		return nil, fmt.Errorf("%s: %s: %w", p.At(key), key, err)
	}
	for _, text := range f.Probes {
		x, err := parsePattern(text)
		if err != nil {
			return fail("probes", err)
		}
		p.probes = append(p.probes, x)
	}
	if f.Probes != nil && p.probes == nil {
		p.probes = []pattern{}
	}
	if f.Signers != nil {
		p.signers = []signature.Key{}
	}
	for _, text := range f.Signers {
		if err := p.trust(text); err != nil {
			return fail("signers", err)
		}
	}
	if f.Allow != nil {
		if err := p.allow(f.Allow); err != nil {
			return fail("allow", err)
		}
	}
	if f.Budget != nil {
		if p.budget, err = ParseBudget(*f.Budget); err != nil {
			return fail("budget", err)
		}
	}
	if f.MaxMemory != nil {
		if p.memory, err = permit.ParseSize(*f.MaxMemory); err != nil {
			return fail("max_memory", err)
		}
	}
	if f.MaxDuration != nil {
		if p.time, err = time.ParseDuration(*f.MaxDuration); err != nil || p.time < time.Millisecond {
			return fail("max_duration",
				fmt.Errorf("%q is not a time of at least 1ms, such as 30s or 10m", *f.MaxDuration))
		}
	}
	p.noRaw = f.RawStacks != nil && !*f.RawStacks
	return p, nil
}

// RawStacks reports whether programs may copy the stacks of processes to the loader.
func (p *Policy) RawStacks() bool { return p == nil || !p.noRaw }

// allow parses the permissions.
func (p *Policy) allow(names []string) error {
	p.grants, p.others = &permit.Grants{}, map[permit.Permission][]string{}
	for _, text := range names {
		name, path, hasPath := strings.Cut(text, "=")
		of := permit.Permission(name)
		if !slices.Contains(permit.OfPolicy, of) {
			if err := p.grants.Allow(text); err != nil {
				return unknownPermission(name, err)
			}
			if hasPath && !strings.HasPrefix(path, "/") {
				return fmt.Errorf("%q: the path is not absolute", text)
			}
			continue
		}
		switch {
		case of == permit.Output && !strings.HasPrefix(path, "/"):
			return fmt.Errorf("%q: expected output=DIR with an absolute path", text)
		case of != permit.Output && hasPath:
			return fmt.Errorf("%s does not take a value", name)
		case of == permit.Unsafe:
			p.grants.All = true
		}
		p.others[of] = append(p.others[of], path)
	}
	return nil
}

// unknownPermission extends the error for an unknown name by the names that only a policy has.
func unknownPermission(name string, err error) error {
	known := slices.Clone(permit.OfPolicy)
	for _, x := range permit.All {
		if string(x.Name) == name {
			return err
		}
		known = append(known, x.Name)
	}
	var names []string
	for _, x := range known {
		names = append(names, string(x))
	}
	return unknown("permission", name, names)
}

// unknown returns the error for an unknown name.
func unknown(what, name string, names []string) error {
	if near := spell.Nearest(name, names); near != "" {
		return fmt.Errorf("unknown %s %q; did you mean %s?", what, name, near)
	}
	return fmt.Errorf("unknown %s %q (known: %s)", what, name, strings.Join(names, ", "))
}

// At returns the file and the line of a key.
func (p *Policy) At(key string) string { return Path + ":" + strconv.Itoa(p.lines[key]) }

// The smallest and the largest budget, as shares of one CPU.
const (
	maxBudget = 1024
	minBudget = 0.00001
)

// ParseBudget parses a share of one CPU, such as 1% or 0.5%. It returns 1 for 100%, one CPU.
func ParseBudget(text string) (float64, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	plain := strings.Trim(number, "0123456789") // no signs or exponents
	share, err := strconv.ParseFloat(number, 64)
	share /= 100
	if !percent || err != nil || plain != "" && plain != "." || share < minBudget || share > maxBudget {
		return 0, fmt.Errorf("%q is not a share of one CPU such as 1%% or 0.5%%", text)
	}
	return share, nil
}

// FormatBudget formats a share of one CPU, such as 0.5%.
func FormatBudget(share float64) string { return strconv.FormatFloat(share*100, 'g', 3, 64) + "%" }

// pattern is an entry of "probes": a probe kind, optionally with a pattern of attach sites.
type pattern struct {
	text  string
	kind  string
	parts []string // nil: the whole kind
}

// parts is the minimum and maximum number of parts that follow the kind in a pattern.
var parts = map[string][2]int{
	// The kernel looks up kprobe functions by name and ignores the module of the attach point.
	probe.Kprobe:        {1, 1},
	probe.Kretprobe:     {1, 1},
	probe.Fentry:        {1, 2},
	probe.Fexit:         {1, 2},
	probe.RawTracepoint: {1, 2},
	probe.Tracepoint:    {2, 2},
	probe.Uprobe:        {1, 2},
	probe.Uretprobe:     {1, 2},
	probe.USDT:          {1, 1},
	probe.Software:      {1, 1},
	probe.Hardware:      {1, 1},
	probe.Iter:          {1, 1},
}

func parsePattern(text string) (pattern, error) {
	word, rest, has := strings.Cut(text, ":")
	t := probe.Find(word)
	if t == nil {
		return pattern{}, unknown("kind of probe", word, probe.Kinds())
	}
	x := pattern{text: text, kind: t.Kind}
	if !has {
		return x, nil
	}
	x.parts = strings.Split(rest, ":")
	n, ok := parts[t.Kind]
	switch {
	case !ok:
		return x, fmt.Errorf("%q: %s is permitted as a whole or not at all: write only %s", text, t.Kind, t.Kind)
	case len(x.parts) < n[0] || len(x.parts) > n[1] || slices.Contains(x.parts, ""):
		return x, fmt.Errorf("%q is not a pattern of attach points", text)
	case t.Space == probe.UserSpace && !strings.HasPrefix(x.parts[0], "/"):
		return x, fmt.Errorf("%q: the path of the file is not absolute", text)
	}
	return x, nil
}
