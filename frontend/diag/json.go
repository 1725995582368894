// SPDX-License-Identifier: Apache-2.0

package diag

import (
	"encoding/json"
	"io"
	"strings"
	"unicode/utf8"
)

// Message is a diagnostic for programs: editors, code hosts. Lines and columns start at 1, and columns count bytes, as in the
// rendering; the end is after the last byte. Lines and columns are 0 if the diagnostic has no position in a source.
type Message struct {
	File      string            `json:"file,omitempty"`
	Line      int               `json:"line,omitempty"`
	Column    int               `json:"column,omitempty"`
	EndLine   int               `json:"end_line,omitempty"`
	EndColumn int               `json:"end_column,omitempty"`
	Severity  string            `json:"severity"`
	Code      Code              `json:"code,omitempty"`
	Text      string            `json:"message"`
	Hints     []string          `json:"hints,omitempty"`
	Related   []RelatedLocation `json:"related,omitempty"`

	columns [2]int // Column and EndColumn in code points, for SARIF
}

// RelatedLocation is a further position of a Message.
type RelatedLocation struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Text   string `json:"message"`
}

// Messages returns the list, sorted by position, with all that the rendering shows except lines of the source. script is the file
// of those without a position: code hosts refuse a log with a result that has no file.
func Messages(l *List, script string, noWarnings bool) []Message {
	var all []Message
	for _, d := range l.Sorted() {
		if noWarnings && d.Severity() == Warning {
			continue
		}
		m := Message{File: script, Severity: d.Severity().String(), Code: d.Code, Text: d.text()}
		if d.Span.Valid() {
			start, end := d.Span.Pos(), d.Span.EndPos()
			m.File, m.Line, m.Column, m.EndLine, m.EndColumn = d.Span.File.Name, start.Line, start.Col, end.Line, end.Col
			m.columns = [2]int{codePoints(d.Span.File, start), codePoints(d.Span.File, end)}
		}
		if !d.Span.Private() {
			m.Hints = d.Hints
		}
		add := func(at Span, text string) {
			if at.Valid() {
				p := at.Pos()
				m.Related = append(m.Related, RelatedLocation{at.File.Name, p.Line, p.Col, text})
			}
		}
		for _, r := range d.Related {
			add(r.Span, r.Message)
		}
		for _, s := range d.Expanded {
			add(s, "expanded from")
		}
		for _, e := range d.Span.Entries() {
			add(e.At, e.How)
		}
		all = append(all, m)
	}
	return all
}

// codePoints returns the column of a position, counted in code points.
func codePoints(s *Source, p Position) int {
	line := s.Text[s.LineStart(p.Line):]
	return utf8.RuneCountInString(line[:min(p.Col-1, len(line))]) + 1
}

// WriteJSON writes messages as JSON objects, one per line.
func WriteJSON(w io.Writer, messages []Message) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, m := range messages {
		if err := enc.Encode(m); err != nil {
			return err
		}
	}
	return nil
}

// The parts of SARIF 2.1.0 that WriteSARIF writes.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool       sarifTool     `json:"tool"`
		ColumnKind string        `json:"columnKind"`
		Results    []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifRule struct {
		ID               string    `json:"id"`
		ShortDescription sarifText `json:"shortDescription"`
		FullDescription  sarifText `json:"fullDescription"`
	}
	sarifResult struct {
		RuleID           string          `json:"ruleId,omitempty"`
		Level            string          `json:"level"`
		Message          sarifText       `json:"message"`
		Locations        []sarifLocation `json:"locations,omitempty"`
		RelatedLocations []sarifLocation `json:"relatedLocations,omitempty"`
	}
	sarifLocation struct {
		Physical sarifPhysical `json:"physicalLocation"`
		Message  *sarifText    `json:"message,omitempty"`
	}
	sarifPhysical struct {
		Artifact struct {
			URI string `json:"uri"`
		} `json:"artifactLocation"`
		Region *sarifRegion `json:"region,omitempty"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn,omitempty"`
		EndLine     int `json:"endLine,omitempty"`
		EndColumn   int `json:"endColumn,omitempty"`
	}
)

// WriteSARIF writes messages as a SARIF 2.1.0 log, which code hosts show at the lines of a change. Columns count code points.
// Rules are the codes that occur, with their explanations; messages of other severities than "error" are warnings.
func WriteSARIF(w io.Writer, version string, messages []Message) error {
	driver := sarifDriver{Name: "btc", Version: version, Rules: []sarifRule{}}
	results := []sarifResult{}
	rules := map[Code]bool{}
	for _, m := range messages {
		r := sarifResult{RuleID: string(m.Code), Level: "warning", Message: sarifText{strings.Join(append([]string{m.Text}, m.Hints...), "\n")}}
		if m.Severity == Error.String() {
			r.Level = "error"
		}
		if info, ok := Explain(m.Code); ok && !rules[m.Code] {
			rules[m.Code] = true
			driver.Rules = append(driver.Rules, sarifRule{string(m.Code), sarifText{info.Title}, sarifText{info.Explanation}})
		}
		if m.File != "" {
			at := location(m.File)
			if m.Line > 0 {
				at.Physical.Region = &sarifRegion{m.Line, m.columns[0], m.EndLine, m.columns[1]}
			}
			r.Locations = []sarifLocation{at}
		}
		for _, other := range m.Related {
			at := location(other.File)
			at.Physical.Region, at.Message = &sarifRegion{StartLine: other.Line}, &sarifText{other.Text}
			r.RelatedLocations = append(r.RelatedLocations, at)
		}
		results = append(results, r)
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(sarifLog{
		Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0",
		Runs: []sarifRun{{Tool: sarifTool{driver}, ColumnKind: "unicodeCodePoints", Results: results}},
	})
}

// location returns a location in a file without a region. A relative path is a relative reference, as a URI escapes it.
func location(file string) (l sarifLocation) {
	l.Physical.Artifact.URI = uri(file)
	return l
}

// uri returns a path as a URI reference: bytes that a path of a URI may not have are escaped.
func uri(path string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	if strings.HasPrefix(path, "/") {
		b.WriteString("file://")
	}
	for i := range len(path) {
		c := path[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-._~/", c) >= 0:
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}
