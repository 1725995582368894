// SPDX-License-Identifier: Apache-2.0

package flamegraph

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"btc/tests/tier"
)

// browsers are the names of a browser that can run without a screen.
var browsers = []string{"chromium-headless-shell", "chromium", "google-chrome", "chrome"}

// actions use the picture as a person does, and append what they see to it.
const actions = `
var log = document.createElementNS("http://www.w3.org/2000/svg", "desc");
function box(name) {
	return Array.from(document.querySelectorAll("#boxes g")).find(function (g) { return g.getAttribute("aria-label").indexOf(name + " (") === 0; });
}
function state(what) {
	log.textContent += "\n" + what + ":" + Array.from(document.querySelectorAll("#boxes g")).map(function (g) {
		var r = g.querySelector("rect"), t = g.querySelector("text");
		return g.classList.contains("off") ? "-" : [t ? t.textContent : "", Math.round(r.getAttribute("x")), Math.round(r.getAttribute("width")), g.getAttribute("class") || ""].join(",").replace(/,$/, "");
	}).join(" ") + " | " + document.querySelector("#details").textContent + "|" + document.querySelector("#matched").textContent + "|" + document.querySelector("#reset").getAttribute("class");
}
function send(to, type) { to.dispatchEvent(new MouseEvent(type, {bubbles: true})); }
function find(text) { var i = document.querySelector("#tools input"); i.value = text; i.dispatchEvent(new Event("input")); }
state("start");
send(box("read").querySelector("rect"), "mouseover"); state("hover");
send(box("read").querySelector("rect"), "mouseout");
send(box("read").querySelector("rect"), "click"); state("zoom");
send(document.querySelector("#reset"), "click"); state("reset");
find("^(read|sys_)"); state("search");
find("("); state("invalid");
find(""); state("none");
document.documentElement.appendChild(log);
`

// TestBrowser uses zoom, search and details in a real browser.
func TestBrowser(t *testing.T) {
	tier.Real.Need(t, "starts a browser")
	browser := ""
	for _, name := range browsers {
		if path, err := exec.LookPath(name); err == nil && browser == "" {
			browser = path
		}
	}
	if browser == "" {
		t.Skipf("skipped: none of %s is installed", strings.Join(browsers, ", "))
	}
	p := fold(samples, "x;main;read;sys_read_[k] 30", "x;main;small_[i] 10", "y;(hostile <b> 70", "y;main 10")
	svg := draw(t, p, Options{})
	want := `start:all,10,1180 x,10,393 main,10,393 read,10,295 sys_read,10,295 small,305,98 y,403,787 (hostile <b>,403,688 main,1092,98 |  ||button
hover:all,10,1180 x,10,393 main,10,393 read,10,295 sys_read,10,295 small,305,98 y,403,787 (hostile <b>,403,688 main,1092,98 | read (30 samples, 25.00%)||button
zoom:all,10,1180,faded x,10,1180,faded main,10,1180,faded read,10,1180 sys_read,10,1180 - - - - |  ||button on
reset:all,10,1180 x,10,393 main,10,393 read,10,295 sys_read,10,295 small,305,98 y,403,787 (hostile <b>,403,688 main,1092,98 |  ||button
search:all,10,1180 x,10,393 main,10,393 read,10,295,hit sys_read,10,295,hit small,305,98 y,403,787 (hostile <b>,403,688 main,1092,98 |  |Matched: 25.0%|button
invalid:all,10,1180 x,10,393 main,10,393 read,10,295 sys_read,10,295 small,305,98 y,403,787 (hostile <b>,403,688,hit main,1092,98 |  |Matched: 58.3%|button
none:all,10,1180 x,10,393 main,10,393 read,10,295 sys_read,10,295 small,305,98 y,403,787 (hostile <b>,403,688 main,1092,98 |  ||button`
	got, console := inBrowser(t, browser, strings.Replace(svg, "</svg>", "<script><![CDATA["+actions+"]]></script></svg>", 1))
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if strings.Contains(console, "CONSOLE") {
		t.Errorf("messages on the console: %s", console)
	}
}

// TestBrowserReportsErrors checks that inBrowser sees errors of a script.
func TestBrowserReportsErrors(t *testing.T) {
	tier.Real.Need(t, "starts a browser")
	for _, name := range browsers {
		if path, err := exec.LookPath(name); err == nil {
			svg := draw(t, fold(samples, "x;main 1"), Options{})
			if _, console := inBrowser(t, path, strings.Replace(svg, "</svg>", `<script>nothing.at.all()</script></svg>`, 1)); !strings.Contains(console, "CONSOLE") {
				t.Errorf("no error in %q", console)
			}
			return
		}
	}
	t.Skipf("skipped: none of %s is installed", strings.Join(browsers, ", "))
}

// inBrowser opens a picture, and returns the text of its element desc and what the browser wrote to its console.
func inBrowser(t *testing.T, browser, svg string) (desc, console string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "x.svg")
	if err := os.WriteFile(file, []byte(svg), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--user-data-dir="+filepath.Join(dir, "profile"),
		"--enable-logging=stderr", "--virtual-time-budget=2000", "--dump-dom", "file://"+file)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", browser, err, errs.String())
	}
	m := regexp.MustCompile(`(?s)<desc>\n?(.*?)</desc>`).FindStringSubmatch(out.String())
	if m != nil {
		desc = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(m[1])
	}
	return desc, errs.String()
}
