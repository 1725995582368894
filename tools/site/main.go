// SPDX-License-Identifier: Apache-2.0

// Command site renders README.md and the pages of docs to static HTML.
//
// It is run by "make site" from the top of the repository and writes to build/site, which it
// makes anew. Links between pages lead to the rendered pages. The other files of docs (images,
// schemas) and the scripts of examples are copied.
//
// It is our own 130 lines around goldmark: a generator (mkdocs, Hugo) would be a program outside of go.mod, with a theme
// that needs scripts, and a configuration for the links, which must lead to files in the repository and to pages here.
package main

import (
	"bytes"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
)

func main() {
	out := "build/site"
	if len(os.Args) > 1 {
		out = os.Args[1]
	}
	if err := render(".", out); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

// page is the frame of each page.
var page = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src 'self' file:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Title}} - btc</title>
<style>
:root { color-scheme: light dark; }
body { font: 16px/1.55 system-ui, sans-serif; margin: 0 auto; max-width: 54rem; padding: 0 1rem 4rem; }
nav { border-bottom: 1px solid #8886; padding: .8rem 0; }
nav a { margin-right: 1.2rem; white-space: nowrap; }
h1, h2, h3 { line-height: 1.25; margin-top: 2rem; }
pre, code { font: 14px/1.45 ui-monospace, monospace; }
pre { background: #8881; border-radius: 4px; overflow-x: auto; padding: .7rem 1rem; }
td:first-child code { white-space: nowrap; }
:not(pre) > code { background: #8881; border-radius: 3px; overflow-wrap: anywhere; padding: 0 .2em; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { border: 1px solid #8886; padding: .3rem .6rem; text-align: left; vertical-align: top; }
img { max-width: 100%; }
details { margin: 1rem 0; }
details ul { columns: 14rem; margin: .4rem 0; padding-left: 1.2rem; }
details li.level3 { list-style: none; margin-left: .6rem; }
@media (max-width: 40rem) {
nav a { display: inline-block; padding: .3rem 0; }
th, td { padding: .25rem .4rem; }
td:first-child code { overflow-wrap: anywhere; white-space: normal; }
td:first-child { min-width: 6rem; }
td:not(:first-child) { min-width: 9rem; }
}
</style>
<nav>
<a href="{{.Root}}index.html">btc</a>
<a href="{{.Root}}docs/tutorial.html">Tutorial</a>
<a href="{{.Root}}docs/README.html">Documentation</a>
<a href="{{.Root}}docs/tools/README.html">Tools</a>
<a href="{{.Root}}docs/language.html">Language</a>
<a href="{{.Root}}docs/reference/options.html">Options</a></nav>
<main>
{{.Body}}
</main>
</html>
`))

var (
	heading = regexp.MustCompile(`(?s)<h([23]) id="([^"]+)">(.*?)</h[23]>`)
	title   = regexp.MustCompile(`(?m)^# (.+)$`)
	link    = regexp.MustCompile(`href="([^":]+?)\.md(#[^"]*)?"`)
	remote  = regexp.MustCompile(`src="(?:[A-Za-z][-+.A-Za-z0-9]*:|//)[^"]*"`)
	script  = regexp.MustCompile(`(?s)<script\b.*?</script>\n?`)
	table   = regexp.MustCompile(`(?s)<table>.*?</table>`)
)

// render writes the pages of the repository at root to out.
func render(root, out string) error {
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	files := []string{"README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", "NOTICE"}
	for _, dir := range []string{"docs", "examples"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				rel, _ := filepath.Rel(root, path)
				files = append(files, rel)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	md := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return err
		}
		to := filepath.Join(out, file)
		if filepath.Ext(file) == ".md" {
			to = strings.TrimSuffix(to, ".md") + ".html"
			if file == "README.md" {
				to = filepath.Join(out, "index.html")
			}
			if text, err = html(md, file, text); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
		if filepath.Ext(file) == ".svg" { // an image of a page cannot run its script, and none runs on its own either
			text = script.ReplaceAll(text, nil)
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// contents lists the sections of a page that has several.
func contents(page string) string {
	sections := heading.FindAllStringSubmatch(page, -1)
	if len(sections) < 4 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n<details><summary>On this page</summary>\n<ul>\n")
	for _, s := range sections {
		fmt.Fprintf(&b, "<li class=\"level%s\"><a href=\"#%s\">%s</a></li>\n", s[1], s[2], s[3])
	}
	b.WriteString("</ul>\n</details>")
	return b.String()
}

// html renders one page; file is its path in the repository.
func html(md goldmark.Markdown, file string, text []byte) ([]byte, error) {
	var body, b bytes.Buffer
	if err := md.Convert(text, &body); err != nil {
		return nil, err
	}
	content := link.ReplaceAllString(body.String(), `href="$1.html$2"`)
	if m := remote.FindString(content); m != "" {
		return nil, fmt.Errorf("%s is not in the repository: a page loads nothing from other hosts", m)
	}
	content = strings.Replace(content, "</h1>", "</h1>"+contents(content), 1)
	content = table.ReplaceAllString(content, `<div class="wide">$0</div>`)
	name := file
	if m := title.FindSubmatch(text); m != nil {
		name = string(m[1])
	}
	err := page.Execute(&b, map[string]any{
		"Title": name,
		"Root":  strings.Repeat("../", strings.Count(file, "/")),
		"Body":  template.HTML(content), //nolint:gosec // the repository's own pages
	})
	return b.Bytes(), err
}
