// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yuin/goldmark"
)

var references = regexp.MustCompile(`(?:href|src)="([^"]+)"`)

var ids = regexp.MustCompile(`\sid="([^"]+)"`)

// TestRender checks that each page of the rendered site has a title and can be reached from the first
// one, and that each link leads to an existing file and section.
func TestRender(t *testing.T) {
	out := filepath.Join(t.TempDir(), "site")
	pages := rendered(t, out)
	links := 0
	to := map[string][]string{} // the pages that a page links to
	for page, text := range pages {
		if strings.Contains(text, "<title> ") || !strings.Contains(text, "<h1") {
			t.Errorf("%s: no title", page)
		}
		for _, m := range references.FindAllStringSubmatch(text, -1) {
			u, err := url.Parse(m[1])
			if err != nil {
				t.Errorf("%s: %v", page, err)
				continue
			}
			if u.Scheme != "" {
				continue
			}
			links++
			target := page
			if u.Path != "" {
				target = filepath.Join(filepath.Dir(page), u.Path)
			}
			if _, err := os.Stat(filepath.Join(out, target)); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			}
			if !slices.Contains(sections(pages[target]), u.Fragment) {
				t.Errorf("%s links to nonexistent section %s", page, m[1])
			}
			to[page] = append(to[page], target)
		}
	}
	reached := map[string]bool{}
	var visit func(page string)
	visit = func(page string) {
		if !reached[page] {
			reached[page] = true
			for _, next := range to[page] {
				visit(next)
			}
		}
	}
	visit("index.html")
	for page := range pages {
		if !reached[page] {
			t.Errorf("no link leads to %s", page)
		}
	}
	if len(pages) < 50 || links < 400 {
		t.Errorf("%d pages with %d links", len(pages), links)
	}
}

// sections returns the ids in a page, and "" for its beginning.
func sections(page string) []string {
	all := []string{""}
	for _, m := range ids.FindAllStringSubmatch(page, -1) {
		all = append(all, m[1])
	}
	return all
}

// rendered renders the site and returns its pages by path.
func rendered(t *testing.T, out string) map[string]string {
	t.Helper()
	if err := render("../..", out); err != nil {
		t.Fatal(err)
	}
	pages := map[string]string{}
	err := filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".html" {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(out, path)
		pages[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// active is what a page may not have: scripts, handlers of events, and what loads something from elsewhere.
var active = regexp.MustCompile(`(?i)<(?:script|iframe|object|embed|form|link|base|audio|video|frame)\b|<[^>"]*(?:"[^"]*"[^>"]*)*\son[a-z]+\s*=|(?:href|src)\s*=\s*["']?\s*(?:javascript|vbscript|data):|` +
	`src\s*=\s*["']?(?:[a-z]+:|//)|srcset|url\(|@import|http-equiv="refresh"|xlink:href\s*=\s*"[^#]`)

// TestInactive checks that no page and no image of the site runs a script or loads something from another host, and that
// browsers are told so, too.
func TestInactive(t *testing.T) {
	out := filepath.Join(t.TempDir(), "site")
	pages := rendered(t, out)
	err := filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".svg" {
			return err
		}
		text, err := os.ReadFile(path)
		pages[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for page, text := range pages {
		if m := active.FindString(text); m != "" {
			t.Errorf("%s has %q", page, m)
		}
		if filepath.Ext(page) == ".html" && !strings.Contains(text, "content=\"default-src 'none'; ") {
			t.Errorf("%s: no policy", page)
		}
	}
}

// TestHostilePages renders pages with HTML, links and names that would run a script.
func TestHostilePages(t *testing.T) {
	const script = `<script>alert(1)</script>`
	texts := map[string]string{
		"html":  "# A" + script + "\n\n" + script + "\n\n<img src=x onerror=alert(1)>\n\ntext <b onclick=alert(1)>x</b> <iframe src=\"https://example.com\"></iframe>\n",
		"links": "# B\n\n[a](javascript:alert(1)) [b](JaVaScRiPt:alert(1)) [c](data:text/html,x) [d](vbscript:x) [e](x \"\\\" onmouseover=\\\"alert(1)\")\n\n<javascript:alert(1)>\n",
		"names": "# C `" + script + "` \"><img src=x onerror=alert(1)>\n\n## D" + script + "\n\n## E\n\n## F\n\n## G `\" onclick=\"alert(1)`\n\n| `" + script + "` | " + script + " |\n|---|---|\n| a | b |\n\n```\"><script>\n" + script + "\n```\n",
	}
	for name, text := range texts {
		root, out := t.TempDir(), filepath.Join(t.TempDir(), "site")
		for _, file := range []string{"README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", "NOTICE", "docs/" + name + `"><script>.md`, "examples/x.bt"} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := render(root, out); err != nil {
			t.Fatal(err)
		}
		page, err := os.ReadFile(filepath.Join(out, "index.html"))
		if err != nil {
			t.Fatal(err)
		}
		if m := active.FindString(string(page)); m != "" {
			t.Errorf("%s: %q in\n%s", name, m, page)
		}
	}
	for _, image := range []string{"https://example.com/x.png", "//example.com/x.png", "data:image/png;base64,AAAA"} {
		_, err := html(goldmark.New(), "x.md", []byte("# A\n\n![x]("+image+")\n"))
		if err == nil || !strings.Contains(err.Error(), "loads nothing from other hosts") {
			t.Errorf("%s: %v", image, err)
		}
	}
}

// measure opens each page in a frame of the size of a phone and of a desktop screen, and reports
// problems: pages wider than the frame, headings that are not shown, images that do not load.
const measure = `<!doctype html><body><iframe id="f" style="border:0"></iframe><pre id="out">` +
	`</pre><script>
const pages = PAGES, out = document.getElementById("out"), f = document.getElementById("f");
let n = 0;
const next = () => {
	if (n == pages.length * 2) { out.textContent += "measured " + n + "\n"; return; }
	f.style.width = n % 2 ? "1200px" : "390px"; f.style.height = "844px";
	f.onload = () => {
		const d = f.contentDocument, e = d.documentElement, page = pages[n >> 1] + " at " + f.style.width;
		if (e.scrollWidth > e.clientWidth) out.textContent += "wrong: " + page + " is " + e.scrollWidth + " wide\n";
		const h = d.querySelector("h1").getBoundingClientRect();
		if (h.height < 10 || h.top > 200) out.textContent += "wrong: " + page + ": the heading is not shown\n";
		for (const a of d.querySelectorAll("nav a")) {
			const r = a.getBoundingClientRect();
			if (r.right > e.clientWidth || r.height < 16) out.textContent += "wrong: " + page + ": " + a.textContent + "\n";
		}
		for (const i of d.images) if (!i.naturalWidth) out.textContent += "wrong: " + page + ": " + i.src + "\n";
		n++; next();
	};
	f.src = pages[n >> 1];
};
next();
</script>`

// TestBrowser opens every page in a headless browser, at the width of a phone and of a desktop screen.
func TestBrowser(t *testing.T) {
	browser := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			browser = path
		}
	}
	if browser == "" {
		t.Skip("skipped: no chromium")
	}
	out := filepath.Join(t.TempDir(), "site")
	list, err := json.Marshal(slices.Sorted(maps.Keys(rendered(t, out))))
	if err != nil {
		t.Fatal(err)
	}
	check := filepath.Join(out, "measure.html")
	if err := os.WriteFile(check, []byte(strings.Replace(measure, "PAGES", string(list), 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files",
		"--user-data-dir="+t.TempDir(), "--virtual-time-budget=600000", "--dump-dom", "file://"+check)
	text, err := cmd.Output()
	if err != nil {
		t.Skipf("skipped: cannot run %s: %v", browser, err)
	}
	if !strings.Contains(string(text), "measured ") {
		t.Errorf("no measurements of the pages:\n%s", text)
	}
	for line := range strings.Lines(string(text)) {
		if i := strings.Index(line, "wrong: "); i >= 0 && !strings.Contains(line, `"wrong: "`) {
			t.Error(strings.TrimSpace(line[i:]))
		}
	}
}
