// SPDX-License-Identifier: Apache-2.0

// Package document writes HTML files that need nothing else: one file with a style, a script and data, in the look of all reports.
//
// It takes these and writes the file. Its Content-Security-Policy allows the script and the style that are in it, and no connection.
// Data is in elements that no browser runs, from which the script reads it. The same input gives the same bytes.
package document

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"btc/internal/profile"
)

//go:embed base.css
var base string

//go:embed document.js
var script string

//go:embed document.html
var frame string

// Document is an HTML file.
type Document struct {
	Title   string
	Style   string // after the one that all have
	Script  string // that JavaScript returned
	Without string // what is shown if scripts are off
	Main    string // what the document shows, and the id of the element that has it
	Live    string // a path beside the document from which the script may read again; "": none

	Head  []Element // what the script reads first
	Parts []Element // after the script, which can show what is there
}

// Element is an element with data.
type Element []byte

// JavaScript returns a script with what all documents have before it, as one function, so that nothing of it is global.
func JavaScript(text string) string {
	return "\"use strict\";\n(function () {\n" + script + text + "})();\n"
}

// JSON returns an element with a value. json.Marshal escapes <, > and &, so that the value cannot end the element.
func JSON(id string, v any) (Element, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return Plain(id, text), nil
}

// Plain returns an element with JSON that json.Marshal wrote.
func Plain(id string, text []byte) Element {
	return fmt.Appendf(nil, "<script type=\"application/json\" id=\"%s\">%s</script>\n", id, text)
}

// Packed returns an element with data that is compressed with gzip.
func Packed(id string, data ...[]byte) (Element, error) {
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	for _, b := range data {
		if _, err := z.Write(b); err != nil {
			return nil, err
		}
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "<script type=\"application/gzip+base64\" id=\"%s\">%s</script>\n", id, base64.StdEncoding.EncodeToString(packed.Bytes())), nil
}

// Write writes the document.
func (d *Document) Write(w io.Writer) error {
	root, connect := "", ""
	if d.Live != "" {
		root, connect = fmt.Sprintf(` data-live="%s"`, escape(d.Live)), "; connect-src 'self'"
	}
	style := base + d.Style
	var head strings.Builder
	for _, e := range d.Head {
		head.Write(e)
	}
	out := bufio.NewWriterSize(w, 1<<16)
	before, after, _ := strings.Cut(frame, "{{parts}}")
	fill := strings.NewReplacer("{{title}}", escape(d.Title), "{{policy}}", policy(d.Script, style)+connect, "{{live}}", root, "{{style}}", style,
		"{{without}}", escape(d.Without), "{{main}}", d.Main, "{{data}}", head.String(), "{{script}}", d.Script)
	if _, err := fill.WriteString(out, before); err != nil {
		return err
	}
	for _, e := range d.Parts {
		if _, err := out.Write(e); err != nil {
			return err
		}
	}
	if _, err := out.WriteString(after); err != nil {
		return err
	}
	return out.Flush()
}

// policy returns a Content-Security-Policy: only the script and the style that are in the document.
func policy(script, style string) string {
	return fmt.Sprintf("default-src 'none'; script-src 'sha256-%s'; style-src 'sha256-%s'; img-src data:; base-uri 'none'; form-action 'none'", digest(script), digest(style))
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(sum[:])
}

var entities = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;")

func escape(text string) string { return entities.Replace(profile.Printable(text)) }
