// SPDX-License-Identifier: Apache-2.0

package tty

import (
	"fmt"

	"btc/internal/blocks"
)

// Key is a key that controls a live view.
type Key byte

// The keys. A letter, a digit or a sign is itself.
const (
	NoKey Key = iota
	Up
	Down
	PageUp
	PageDown
	Home
	End
	BackTab
	Resized // not a key: the window has another size
	Tab     = Key('\t')
	suspend = Key(0x1a) // Ctrl-Z
)

// Section is a part of a view: the lines of a map.
type Section struct {
	Name  string
	Lines []blocks.Line
}

// Pager chooses what of a view is on the screen: all sections or one of them, from a line on.
type Pager struct {
	chosen string // name of the section; "": all
	skip   int    // number of lines before those on the screen
	help   bool
	room   int // rows of the last view, without the head
}

// help explains the keys.
const help = `q            end the run
space        stop updating, and go on
tab          the next map alone, then all
s            order of the elements
r            rates per second
up, down     scroll; page up, page down,
             home and end as well
h            this help`

// Press acts on a key, and reports whether it is one of the pager's.
func (p *Pager) Press(key Key, sections []Section) bool {
	switch key {
	case Tab, BackTab:
		at, step := 0, 1 // 0: all
		for i := range sections {
			if sections[i].Name == p.chosen {
				at = i + 1
			}
		}
		if key == BackTab {
			step = len(sections)
		}
		p.chosen, p.skip = "", 0
		if at = (at + step) % (len(sections) + 1); at > 0 {
			p.chosen = sections[at-1].Name
		}
	case Up:
		p.skip--
	case Down:
		p.skip++
	case PageUp:
		p.skip -= max(p.room-1, 1)
	case PageDown:
		p.skip += max(p.room-1, 1)
	case Home:
		p.skip = 0
	case End:
		p.skip = 1 << 30
	case 'h', '?':
		p.help, p.skip = !p.help, 0
	case Resized:
	default:
		return false
	}
	p.skip = max(p.skip, 0)
	return true
}

// View returns the lines of a view of so many rows: the head, and below it as many lines of the sections as fit. The last line says
// how many more there are. In the head, what the user has chosen follows the time, and the rest comes last: it may be cut off.
func (p *Pager) View(head []byte, rest string, sections []Section, rows int) []blocks.Line {
	var all []blocks.Line
	for i := range sections {
		s := &sections[i]
		if p.chosen == s.Name {
			head = fmt.Appendf(head, "%s (%d of %d), ", s.Name, i+1, len(sections))
		} else if p.chosen != "" {
			continue
		}
		all = append(all, s.Lines...)
	}
	if len(all) == 0 && p.chosen != "" {
		head = append(append(head, p.chosen...), " (empty), "...)
	}
	if p.help {
		all = blocks.Split([]byte(help))
	}
	p.room = max(rows-1, 1)
	p.skip = max(min(p.skip, len(all)-p.room), 0)
	if p.skip > 0 {
		head = fmt.Appendf(head, "from line %d of %d, ", p.skip+1, len(all))
	}
	lines := []blocks.Line{{Text: append(head, rest...)}}
	if rows < 2 && len(all) > 0 {
		lines = nil // the first line of the maps says more than the head
	}
	room := min(p.room, len(all)-p.skip)
	lines = append(lines, all[p.skip:p.skip+room]...)
	if n := len(all) - p.skip - room; n > 0 && room > 1 {
		lines[len(lines)-1] = blocks.Line{Text: fmt.Appendf(nil, "... and %d more lines", n+1)}
	}
	return lines
}
