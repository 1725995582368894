// SPDX-License-Identifier: Apache-2.0

package sites

import (
	"fmt"
	"strings"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/diag"
)

// Substitute substitutes the values of parameters in attach points. The manifest must be valid; it is modified, and valid
// afterwards.
func Substitute(m *manifest.Manifest, params []string) error {
	for i := range m.Programs {
		p := &m.Programs[i]
		if len(p.Attach.Substitute) == 0 {
			continue
		}
		if err := fill(p, params); err != nil {
			return &diag.Error{Script: &m.Script, Pos: p.Pos, Text: fmt.Sprintf("%s: %v", p.Attach.Text, err)}
		}
	}
	return m.Validate()
}

func fill(p *manifest.Program, params []string) error {
	t := probe.Lookup(p.Kind)
	if !t.Parameters {
		return fmt.Errorf("this kind of probe cannot have parameters")
	}
	var parts []probe.Part
	for _, text := range p.Attach.Substitute {
		if !strings.Contains(text, "$") {
			parts = append(parts, probe.Part{Text: text, Wildcard: probe.IsPattern(text)})
			continue
		}
		value, err := probe.Substitute(text, params)
		if err != nil {
			return err
		}
		parts = append(parts, probe.Split(value)...) // a ':' in a value separates parts
	}
	point, err := t.Parse(parts)
	if err != nil {
		given := p.Kind
		for _, part := range parts {
			given += ":" + part.Text
		}
		return fmt.Errorf("with these parameters the attach point is %s: %w", given, err)
	}
	if t.Space == probe.KernelSpace && point.Addr != 0 {
		return fmt.Errorf("an address cannot be given as a parameter")
	}
	p.Attach.Set(t, &point)
	p.Attach.Substitute = nil
	return nil
}
