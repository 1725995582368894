package attach

import (
	"fmt"
	"strconv"
	"strings"

	"btc/loader/manifest"
	"btc/loader/report"
)

// Fill puts the values of parameters into the attach points that have some. The
// manifest must be valid; it is changed, and valid afterwards.
func Fill(m *manifest.Manifest, params []string) error {
	for i := range m.Programs {
		p := &m.Programs[i]
		if len(p.Attach.Fill) == 0 {
			continue
		}
		if err := fill(p, params); err != nil {
			return &report.Fault{Script: &m.Script, Pos: p.Pos, Text: fmt.Sprintf("%s: %v", p.Attach.Text, err)}
		}
	}
	return m.Validate()
}

// counts are the numbers of parts that the kinds of probes take after the kind.
var counts = map[string]struct{ least, most int }{
	"kprobe": {1, 2}, "kretprobe": {1, 2}, "uprobe": {2, 2}, "uretprobe": {2, 2}, "usdt": {2, 3}, "tracepoint": {2, 2},
	"profile": {1, 2}, "interval": {1, 2}, "software": {1, 2}, "hardware": {1, 2}, "watchpoint": {3, 3},
}

func fill(p *manifest.Program, params []string) error {
	a := &p.Attach
	var parts []string
	for _, text := range a.Fill {
		if !strings.Contains(text, "$") {
			parts = append(parts, text)
			continue
		}
		text, err := substitute(text, params)
		if err != nil {
			return err
		}
		parts = append(parts, strings.Split(text, ":")...) // ':' separates in values, too
	}
	n := len(parts)
	if want := counts[p.Kind]; n < want.least || n > want.most {
		return fmt.Errorf("%s probe type requires %d to %d arguments, found %d", p.Kind, want.least, want.most, n)
	}
	text := p.Kind + ":" + strings.Join(parts, ":")
	last := parts[n-1]
	var err error
	switch p.Kind {
	case "kprobe", "kretprobe":
		if n > 1 {
			a.Target = parts[0]
		}
		err = place(a, last)
		if err == nil && a.Addr != 0 {
			err = fmt.Errorf("an address cannot be given as a parameter")
		}
	case "uprobe", "uretprobe":
		a.Target = parts[0]
		err = place(a, last)
	case "usdt":
		a.Target, a.Name = parts[0], strings.Join(parts[1:], ":")
	case "tracepoint":
		a.Target, a.Name = parts[0], last
	case "profile", "interval":
		err = fillTimer(a, parts)
	case "software", "hardware":
		a.Target = parts[0]
		if n > 1 {
			a.Count, err = parseNumber(last)
		}
	case "watchpoint":
		err = fillWatch(a, parts)
	default:
		err = fmt.Errorf("parameters cannot stand in this kind of probe")
	}
	a.Text, a.Fill = text, nil
	return err
}

// substitute replaces "$N" in a part.
func substitute(text string, params []string) (string, error) {
	var b strings.Builder
	for {
		head, rest, found := strings.Cut(text, "$")
		b.WriteString(head)
		if !found {
			return b.String(), nil
		}
		n := 0
		for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
			n++
		}
		number, err := strconv.Atoi(rest[:n])
		switch {
		case err != nil || number == 0:
			b.WriteByte('$')
		case number > len(params) || params[number-1] == "":
			return "", fmt.Errorf("parameter $%d is not given", number)
		default:
			b.WriteString(params[number-1])
		}
		text = rest[n:]
	}
}

// place reads "name", "name+offset" or an address.
func place(a *manifest.Attach, text string) error {
	if addr, err := strconv.ParseUint(text, 0, 64); err == nil && addr != 0 {
		a.Addr = addr
		return nil
	}
	a.Name = text
	if i := strings.LastIndexByte(text, '+'); i > 0 {
		if n, err := strconv.ParseUint(text[i+1:], 0, 32); err == nil {
			a.Name, a.Offset = text[:i], n
		}
	}
	return nil
}

// units are the durations in nanoseconds that a number may have.
var units = []struct {
	suffix string
	ns     uint64
}{{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}, {"d", 86400e9}}

// fillTimer reads "unit:count" or a duration.
func fillTimer(a *manifest.Attach, parts []string) (err error) {
	if len(parts) == 2 {
		a.Unit = parts[0]
		a.Count, err = parseNumber(parts[1])
		if err == nil && a.Count == 0 {
			err = fmt.Errorf("a rate or period of 0")
		}
		return err
	}
	text, scale := parts[0], uint64(1)
	for _, u := range units {
		if digits, ok := strings.CutSuffix(text, u.suffix); ok && strings.Trim(digits, "0123456789_e") == "" {
			text, scale = digits, u.ns
			break
		}
	}
	n, err := parseNumber(text)
	if err != nil {
		return err
	}
	a.Unit, a.Count = "us", n*scale/1000
	if n > 1<<62/scale || a.Count == 0 {
		return fmt.Errorf("%s is no period of 1us or more", parts[0])
	}
	return nil
}

// watchModes are what processors can watch.
var watchModes = map[string]bool{"w": true, "rw": true, "wr": true, "x": true}

func fillWatch(a *manifest.Attach, parts []string) (err error) {
	if a.Addr, err = strconv.ParseUint(parts[0], 0, 64); err != nil || a.Addr == 0 {
		return fmt.Errorf("invalid address %s", parts[0])
	}
	length, err := strconv.Atoi(parts[1])
	if err != nil || length != 1 && length != 2 && length != 4 && length != 8 {
		return fmt.Errorf("watchpoint length must be one of (1,2,4,8)")
	}
	if a.Len, a.Mode = length, parts[2]; !watchModes[a.Mode] {
		return fmt.Errorf("watchpoint mode must be one of w, rw, x")
	}
	return nil
}

// parseNumber reads a number as the language writes them: 99, 1e6, 1_000, 0x10.
func parseNumber(text string) (uint64, error) {
	s := strings.ReplaceAll(text, "_", "")
	bad := fmt.Errorf("%q is not a number", text)
	if mant, exp, ok := strings.Cut(s, "e"); ok && !strings.HasPrefix(s, "0x") {
		m, err := strconv.ParseUint(mant, 10, 32)
		n, err2 := strconv.ParseUint(exp, 10, 5)
		if err != nil || err2 != nil || n > 9 {
			return 0, bad
		}
		for range n {
			m *= 10
		}
		return m, nil
	}
	n, err := strconv.ParseUint(s, 0, 48)
	if err != nil {
		return 0, bad
	}
	return n, nil
}
