// SPDX-License-Identifier: Apache-2.0

// Package page writes a recording of a run as one HTML file that needs nothing else: flame graphs, histograms, heat maps, tables
// and the lines that the script printed, over time.
//
// It takes what the run reported, through a Builder, and writes the file. The page loads nothing and sends nothing, which its
// Content-Security-Policy enforces, and shows the data as text only. The same data gives the same bytes.
package page

import (
	"embed"
	"io"
	"strings"
	"sync"

	"btc/internal/profile"
	"btc/report/document"
)

//go:embed page.css
var style string

//go:embed js
var sources embed.FS

// parts are the files of the script, in the order in which they depend on each other.
var parts = []string{"base", "data", "time", "tables", "flame", "cards", "page"}

// JavaScript returns the script of the page.
var JavaScript = sync.OnceValue(func() string {
	text := ""
	for _, name := range parts {
		part, err := sources.ReadFile("js/" + name + ".js")
		if err != nil {
			panic("BUG: " + err.Error())
		}
		text += string(part)
	}
	return document.JavaScript(text)
})

// Write writes the page of a recording. base is the recording to compare it with, or nil.
func Write(w io.Writer, d, base *Data) error { return write(w, d, base, false) }

// WriteLive writes the page of a run that goes on: it reads its data again from the path data beside it, and from nowhere else.
func WriteLive(w io.Writer, d *Data) error { return write(w, d, nil, true) }

func write(w io.Writer, d, base *Data, live bool) error {
	doc := document.Document{Title: d.Title(), Style: style, Script: JavaScript(), Without: "This report draws itself with a script of its own. Without it, btc replay prints the recording as text.", Main: "results"}
	if live {
		doc.Live = "data"
	}
	for _, x := range []struct {
		id   string
		data *Data
	}{{"data", d}, {"base", base}} {
		if x.data == nil {
			continue
		}
		elements, err := dataElements(x.id, x.data)
		if err != nil {
			return err
		}
		doc.Head = append(doc.Head, elements[0])
		doc.Parts = append(doc.Parts, elements[1:]...)
	}
	return doc.Write(w)
}

// Title is what the page calls itself: the name of the script, or its text if it has one line.
func (d *Data) Title() string {
	source := strings.TrimSpace(d.Script.Source)
	if file := d.Script.File; file != "" && file != "-" && !strings.HasPrefix(file, "<") && strings.HasSuffix(file, ".bt") {
		return profile.Printable(file[strings.LastIndexByte(file, '/')+1:])
	}
	if source != "" && !strings.Contains(source, "\n") && len(source) <= 240 {
		return profile.Printable(source)
	}
	return profile.Printable(d.File)
}
