// SPDX-License-Identifier: Apache-2.0

// Package page writes a recording of a run as one HTML file that needs nothing else: flame graphs, histograms, heat maps, tables
// and the lines that the script printed, over time.
//
// It takes what the run reported, through a Builder, and writes the file. The page loads nothing and sends nothing, which its
// Content-Security-Policy enforces, and shows the data as text only. The same data gives the same bytes.
package page

import (
	"bufio"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"sync"

	"btc/internal/profile"
)

//go:embed page.css
var style string

//go:embed js
var sources embed.FS

// parts are the files of the script, in the order in which they depend on each other.
var parts = []string{"base", "data", "time", "tables", "flame", "cards", "page"}

// JavaScript returns the script of the page: one function, so that nothing of it is global.
var JavaScript = sync.OnceValue(func() string {
	text := "\"use strict\";\n(function () {\n"
	for _, name := range parts {
		part, err := sources.ReadFile("js/" + name + ".js")
		if err != nil {
			panic("BUG: " + err.Error())
		}
		text += string(part)
	}
	return text + "})();\n"
})

//go:embed page.html
var frame string

// Write writes the page of a recording. base is the recording to compare it with, or nil.
func Write(w io.Writer, d, base *Data) error { return write(w, d, base, false) }

// WriteLive writes the page of a run that goes on: it reads its data again from the path data beside it, and from nowhere else.
func WriteLive(w io.Writer, d *Data) error { return write(w, d, nil, true) }

func write(w io.Writer, d, base *Data, live bool) error {
	root, connect := "", ""
	if live {
		root, connect = ` data-live="data"`, "; connect-src 'self'"
	}
	out := bufio.NewWriterSize(w, 1<<16)
	title := d.Title()
	heads, parts := "", [][]byte(nil)
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
		heads += string(elements[0])
		parts = append(parts, elements[1:]...)
	}
	before, after, _ := strings.Cut(frame, "{{parts}}")
	fill := strings.NewReplacer("{{title}}", escape(title), "{{policy}}", policy()+connect, "{{live}}", root, "{{style}}", style, "{{data}}", heads, "{{script}}", JavaScript())
	if _, err := fill.WriteString(out, before); err != nil {
		return err
	}
	for _, part := range parts { // after the script, which shows what is there
		if _, err := out.Write(part); err != nil {
			return err
		}
	}
	if _, err := out.WriteString(after); err != nil {
		return err
	}
	return out.Flush()
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

// policy returns the page's Content-Security-Policy: only the script and the style that are in it.
func policy() string {
	return fmt.Sprintf("default-src 'none'; script-src 'sha256-%s'; style-src 'sha256-%s'; img-src data:; base-uri 'none'; form-action 'none'", digest(JavaScript()), digest(style))
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(sum[:])
}

var entities = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;")

func escape(text string) string { return entities.Replace(profile.Printable(text)) }
