// SPDX-License-Identifier: Apache-2.0

package snippet

import (
	"fmt"
	"strings"
)

// Message is an error, a warning or a note with its position in a source, in the form that both
// programs show:
//
//	x.bt:3:12: error[E0201]: Unknown identifier: 'foo'
//	 3 | begin { print(foo); }
//	   |               ^~~
//	   = hint: ...
type Message struct {
	File      string
	Line, Col int    // 1-based; Line is 0 if there is no position
	EndCol    int    // just past the last marked byte
	Severity  string // error, warning, note
	Code      string // may be ""
	Text      string
	Source    *string // the line at the position; nil: not shown
	Color     bool    // color the message for a terminal
}

// colors are the SGR codes of severities and of the marker.
var colors = map[string]string{"error": "1;31", "warning": "1;33", "note": "1;36", "marker": "1;32"}

func (m *Message) paint(kind, text string) string {
	if !m.Color {
		return text
	}
	return "\x1b[" + colors[kind] + "m" + text + "\x1b[0m"
}

// Head returns the first line, without the newline.
func (m *Message) Head() string {
	what := m.Severity
	if m.Code != "" {
		what += "[" + m.Code + "]"
	}
	what = m.paint(m.Severity, what) + ": " + m.Text
	if m.Line == 0 {
		return what
	}
	return fmt.Sprintf("%s:%d:%d: %s", m.File, m.Line, m.Col, what)
}

// String returns the message with its source line. Each line ends with a newline.
func (m *Message) String() string {
	text := m.Head() + "\n"
	if m.Source == nil {
		return text
	}
	shown := Mark(*m.Source, m.Col-1, m.EndCol-1)
	number := fmt.Sprintf(" %d ", m.Line)
	marker := m.paint("marker", "^"+strings.Repeat("~", max(shown.Width, 1)-1))
	return text + strings.TrimRight(number+"| "+shown.Text, " ") + "\n" +
		m.margin() + "| " + strings.Repeat(" ", shown.Column) + marker + "\n"
}

// margin returns as many spaces as the number of the source line has digits.
func (m *Message) margin() string {
	if m.Source == nil {
		return " "
	}
	return strings.Repeat(" ", len(fmt.Sprint(m.Line))+2)
}

// Note returns a line with additional information.
func (m *Message) Note(text string) string { return m.margin() + "| " + text + "\n" }

// Hint returns a line that says what to do.
func (m *Message) Hint(text string) string { return m.margin() + "= hint: " + text + "\n" }
