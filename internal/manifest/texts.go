// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"fmt"
	"slices"
	"strings"
)

// TextParams is the required feature of files in which string parameters are parts of the
// manifest itself: Global.TextFrom, Event.FormatFrom, Layout.FormatFrom.
const TextParams = "text-params"

// Kinds whose format a parameter may give: of layouts and of events.
var (
	loadFormats  = set("timestamp cgroup_path")
	eventFormats = set("time join skboutput")
)

// textParam checks the global of a string parameter.
func (c *checker) textParam(m *Manifest, path place, global string) {
	if global != "" && m.stringParam(global) == nil {
		c.fail(path, "no string parameter has the global %q", clip(global))
	}
}

func (m *Manifest) stringParam(global string) *Param {
	i := slices.IndexFunc(m.Params, func(p Param) bool { return p.Global == global && p.Type == "string" })
	if i < 0 {
		return nil
	}
	return &m.Params[i]
}

// SubstituteStrings puts the values of string parameters, as ParseParams returns them, where the manifest
// refers to them. The manifest must be valid; it is changed, and refers to none afterwards. The error is one
// of the construct at a position.
func SubstituteStrings(m *Manifest, values map[string][]byte) (Pos, error) {
	texts := map[string]string{} // one copy of a value, however many layouts refer to it
	value := func(global string) string {
		text, ok := texts[global]
		if !ok {
			text, _, _ = strings.Cut(string(values[global]), "\x00")
			texts[global] = text
		}
		return text
	}
	missing := func(what, global string) error {
		return fmt.Errorf("%s() needs the value of parameter %s, which is not given", what,
			paramName(m.stringParam(global)))
	}
	for i := range m.Globals {
		g := &m.Globals[i]
		if g.TextFrom == "" {
			continue
		}
		text := value(g.TextFrom)
		pos := Pos{}
		if g.Pos != nil {
			pos = *g.Pos
		}
		what := strings.TrimSuffix(string(g.Host), "_code")
		switch {
		case text == "":
			return pos, missing(what, g.TextFrom)
		case g.Host != HostCgroupID && strings.ContainsAny(text, " \t\n\f\r"):
			return pos, fmt.Errorf("%s() expects a string that is a valid symbol (%q provided)", what, text)
		case strings.HasPrefix(g.Text, " "):
			g.Text = text + g.Text
		default:
			g.Text += text
		}
		g.TextFrom = ""
	}
	for i := range m.Events {
		e := &m.Events[i]
		if e.FormatFrom == "" {
			continue
		}
		e.Format = value(e.FormatFrom)
		if e.Format == "" && e.Kind == "skboutput" {
			return e.Pos, missing(e.Kind, e.FormatFrom)
		}
		e.FormatFrom = ""
	}
	m.EachLayout(func(l *Layout, _ Pos) {
		if l.FormatFrom != "" {
			l.Format, l.FormatFrom = value(l.FormatFrom), ""
		}
	})
	return Pos{}, nil
}

// paramName returns a parameter as the user gives it.
func paramName(p *Param) string {
	if strings.HasPrefix(p.Name, "$") {
		return p.Name
	}
	return "--" + p.Name
}

// TextOf describes a text that is not filled in yet: the name of its parameter is in it.
func (m *Manifest) TextOf(text, from string) string {
	if p := m.stringParam(from); p != nil {
		return text + paramName(p)
	}
	return text
}
