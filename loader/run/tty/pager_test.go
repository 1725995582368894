// SPDX-License-Identifier: Apache-2.0

package tty

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"btc/internal/blocks"
)

// section returns a section with so many lines.
func section(name string, n int) Section {
	s := Section{Name: name}
	for i := range n {
		s.Lines = append(s.Lines, blocks.Line{Text: []byte(name + strconv.Itoa(i+1))})
	}
	return s
}

// seen returns what a pager shows on a screen with 5 rows, its lines separated by "/".
func seen(p *Pager, sections []Section) string {
	var all [][]byte
	for _, l := range p.View(nil, "h: help", sections, 5) {
		all = append(all, l.Text)
	}
	return string(bytes.Join(all, []byte("/")))
}

func TestPager(t *testing.T) {
	maps := []Section{section("@a", 2), section("@b", 7), section("@c", 1)}
	p := new(Pager)
	for i, x := range []struct {
		key  Key
		want string
	}{
		{Resized, "h: help/@a1/@a2/@b1/... and 7 more lines"},
		{Down, "from line 2 of 10, h: help/@a2/@b1/@b2/... and 6 more lines"},
		{PageDown, "from line 5 of 10, h: help/@b3/@b4/@b5/... and 3 more lines"},
		{End, "from line 7 of 10, h: help/@b5/@b6/@b7/@c1"},
		{Down, "from line 7 of 10, h: help/@b5/@b6/@b7/@c1"},
		{Up, "from line 6 of 10, h: help/@b4/@b5/@b6/... and 2 more lines"},
		{PageUp, "from line 3 of 10, h: help/@b1/@b2/@b3/... and 5 more lines"},
		{Home, "h: help/@a1/@a2/@b1/... and 7 more lines"},
		{Up, "h: help/@a1/@a2/@b1/... and 7 more lines"},
		{Tab, "@a (1 of 3), h: help/@a1/@a2"},
		{Tab, "@b (2 of 3), h: help/@b1/@b2/@b3/... and 4 more lines"},
		{Down, "@b (2 of 3), from line 2 of 7, h: help/@b2/@b3/@b4/... and 3 more lines"},
		{Tab, "@c (3 of 3), h: help/@c1"},
		{Tab, "h: help/@a1/@a2/@b1/... and 7 more lines"},
		{BackTab, "@c (3 of 3), h: help/@c1"},
		{'h', "@c (3 of 3), from line 1 of 8"},
		{'?', "@c (3 of 3), h: help/@c1"},
	} {
		if !p.Press(x.key, maps) {
			t.Errorf("step %d: no key of the pager", i)
		}
		got := seen(p, maps)
		if x.key == 'h' {
			if !strings.HasPrefix(got, "@c (3 of 3), h: help/q            end the run/space ") {
				t.Errorf("step %d: %q is not the help", i, got)
			}
			continue
		}
		if got != x.want {
			t.Errorf("step %d: %q, want %q", i, got, x.want)
		}
	}
	if got := seen(p, maps[:2]); got != "@c (empty), h: help" {
		t.Errorf("without the map: %q", got)
	}
	if got := seen(p, maps); got != "@c (3 of 3), h: help/@c1" {
		t.Errorf("with the map again: %q", got)
	}
	if p.Press('x', maps) {
		t.Error("x is a key of the pager")
	}
}

// TestEveryLine: with the keys alone, every line is reachable on a screen of any size, also if that is one row.
func TestEveryLine(t *testing.T) {
	maps := []Section{section("@a", 3), section("@b", 40)}
	for rows := 1; rows < 60; rows++ {
		for _, key := range []Key{Down, PageDown} {
			p := new(Pager)
			found := map[string]bool{}
			for range 60 {
				lines := p.View(nil, "", maps, rows)
				if len(lines) > rows {
					t.Fatalf("%d rows: %d lines", rows, len(lines))
				}
				for _, l := range lines {
					found[string(l.Text)] = true
				}
				p.Press(key, maps)
			}
			for _, s := range maps {
				for _, l := range s.Lines {
					if !found[string(l.Text)] {
						t.Errorf("%d rows, key %d: %s is not shown", rows, key, l.Text)
					}
				}
			}
		}
	}
}
