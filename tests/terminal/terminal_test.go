// SPDX-License-Identifier: Apache-2.0

// Package terminal runs both programs in a real terminal, tmux, and checks its screen: the live view,
// the progress of a slow attach, the hint on how to stop, colours and signals.
package terminal

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"btc/loader/kerneltypes"
)

// terminal is a tmux server with one window of 80 columns and 24 rows in which a shell runs.
type terminal struct {
	t    *testing.T
	name string // name of the server's socket
	dir  string
	bin  string
}

func open(t *testing.T) *terminal {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root")
	}
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("skipped: no tmux")
	}
	if _, err := os.Stat(kerneltypes.Path); err != nil {
		t.Skip("skipped: this kernel has no BTF")
	}
	w := &terminal{t, fmt.Sprintf("btc-test-%d", os.Getpid()), t.TempDir(), programs(t)}
	env := fmt.Sprintf("export PATH='%s':$PATH PS1='> ' LC_ALL=C.UTF-8; unset NO_COLOR BPFTRACE_COLOR; exec sh", w.bin)
	config := filepath.Join(w.dir, "tmux.conf")
	if err := os.WriteFile(config, []byte("set-option -g history-limit 100000\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	w.tmux("-f", config, "new-session", "-d", "-x", "80", "-y", "24", "-c", w.dir, env)
	t.Cleanup(func() { exec.Command("tmux", "-L", w.name, "kill-server").Run() })
	w.until(`(?m)^>`)
	return w
}

func programs(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	cmd := exec.Command("go", "build", "-o", bin, "btc/cmd/btc", "btc/cmd/btrun")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

func (w *terminal) tmux(args ...string) string {
	w.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-L", w.name}, args...)...).CombinedOutput()
	if err != nil {
		w.t.Fatalf("tmux %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// types types a line and the Enter key.
func (w *terminal) types(line string) {
	w.t.Helper()
	w.tmux("send-keys", "-l", line)
	w.tmux("send-keys", "Enter")
}

// script writes a script to the shell's directory.
func (w *terminal) script(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// screen returns the contents of the terminal, and history also what has scrolled out of it. With -e,
// they include colours as escape sequences.
func (w *terminal) screen(args ...string) string {
	w.t.Helper()
	return w.tmux(append([]string{"capture-pane", "-p"}, args...)...)
}

func (w *terminal) history(args ...string) string { return w.screen(append(args, "-S", "-")...) }

// until waits until the history matches a pattern, and returns it.
func (w *terminal) until(pattern string, args ...string) string {
	w.t.Helper()
	re := regexp.MustCompile(pattern)
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		text := w.history(args...)
		if re.MatchString(text) {
			return text
		}
		if time.Now().After(end) {
			w.t.Fatalf("no match of %s on the terminal:\n%s", pattern, text)
		}
	}
}

// clear clears the screen and the history.
func (w *terminal) clear() {
	w.types("clear")
	for end := time.Now().Add(time.Minute); strings.TrimRight(w.screen(), " \n") != ">"; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("the screen is not cleared:\n%s", w.screen())
		}
	}
	w.tmux("clear-history")
}

// TestLiveView checks that the output of the script scrolls above the view without being lost or
// overwritten, and that at the end the view is removed and the maps are printed.
func TestLiveView(t *testing.T) {
	w := open(t)
	w.script("live.bt", `interval:ms:20 { @n++; printf("line %d\n", @n); @busy[@n % 3] = count(); }
interval:ms:290 { printf("begun, "); }
interval:ms:310 { errorf("a message\n"); }
end { printf("the last line\n"); }
`)
	w.types("btc run --no-warnings --top 2 --every 100ms live.bt")
	view := regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d   every 100ms, q: end, h: help\n@busy\[\d\]: \d+[ ▁-█]*\n@busy\[\d\]: \d+[ ▁-█]*\n\n*@n: \d+[ ▁-█]*\n`)
	seen := false
	for end := time.Now().Add(time.Minute); !seen && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		seen = view.MatchString(w.screen())
	}
	if !seen {
		t.Errorf("live view not found:\n%s", w.screen())
	}
	w.until(`(?s)line 50\n.*(begun, .*){5}`)
	w.until(`(?s)(a message.*){5}`)
	w.tmux("send-keys", "C-c")
	text := w.until(`the last line\n(?s).*@n: \d+\n>`)
	lines := regexp.MustCompile(`line (\d+)\n`).FindAllStringSubmatch(text, -1)
	if len(lines) < 50 {
		t.Errorf("%d lines of the script, want at least 50:\n%s", len(lines), text)
	}
	for i, l := range lines {
		if l[1] != fmt.Sprint(i+1) {
			t.Fatalf("line %d = %q:\n%s", i+1, l[0], text)
		}
	}
	if n := strings.Count(text, "every 100ms, q: end, h: help"); n != 0 {
		t.Errorf("%d views left on the screen, want 0:\n%s", n, text)
	}
}

// TestLongView checks that a view with more lines than the terminal is cut off, and that one that
// becomes shorter leaves nothing behind.
func TestLongView(t *testing.T) {
	w := open(t)
	w.script("long.bt", `interval:ms:10 { @n++; if (@n < 200) { @[@n] = count(); } else { clear(@); } }
interval:ms:100 { @line++; printf("line %d is longer than the terminal is wide, %080d\n", @line, @n); }
`)
	w.types("btc run --no-warnings --top 100 --every 100ms long.bt")
	w.until(`\.\.\. and \d+ more lines\n`)
	w.tmux("resize-window", "-x", "60", "-y", "15")
	// tmux reports the new size to the program after a quarter of a second or more, so some frames of
	// the old size remain. Count from the first one of the new size.
	w.until(`(?m)^\d\d:\d\d:\d\d   every 100ms, q: end, h: help\n(@.*\n){1,13}\.\.\. and \d+ more lines\n*$`)
	views := func() int { return strings.Count(w.history(), "every 100ms") }
	line := regexp.MustCompile(`(?m)^line (\d+) is`)
	all := line.FindAllStringSubmatch(w.history(), -1)
	last, err := strconv.Atoi(all[len(all)-1][1])
	if err != nil {
		t.Fatal(err)
	}
	before := views()
	w.until(fmt.Sprintf(`(?m)^line %d is`, last+20))
	if n := views() - before; n > 2 {
		t.Errorf("%d views left on the screen in 20 lines:\n%s", n, w.history())
	}
	w.tmux("send-keys", "C-c")
	w.until(`@n: \d+\n>`)
}

// TestSizes checks that in a window of any size the output of the script is whole, and nothing of the view is left, with names
// that are wide or hold tabs.
func TestSizes(t *testing.T) {
	w := open(t)
	w.script("sizes.bt", `interval:ms:30 { @n++; printf("line %d\n", @n); @by["中文字符很宽", "a\tb"] = count(); }
interval:ms:100 { printf("."); printf("."); printf("\n"); }
`)
	for i, size := range [][2]string{{"9", "2"}, {"12", "4"}, {"30", "1"}, {"200", "60"}} {
		w.tmux("resize-window", "-x", size[0], "-y", size[1])
		end := fmt.Sprintf("end-%d-", i)
		w.types("btc run --no-warnings --top 5 --every 100ms --timeout 2s sizes.bt; echo " + end + "$?")
		text := w.until(`(?s)@n: \d+\s.*`+end+`\d`, "-J")
		text = text[strings.LastIndex(text, "echo "+end):]
		lines := regexp.MustCompile(`line (\d+)\n`).FindAllStringSubmatch(text, -1)
		if len(lines) < 10 {
			t.Errorf("%v: %d lines of the script are there:\n%s", size, len(lines), text)
		}
		for i, l := range lines {
			if l[1] != fmt.Sprint(i+1) {
				t.Errorf("%v: line %d is %q:\n%s", size, i+1, l[0], text)
				break
			}
		}
		if regexp.MustCompile(`(?m)^\d\d:\d\d:`).MatchString(text) || strings.Count(text, "@by") > 1 {
			t.Errorf("%v: the view was left:\n%s", size, text)
		}
	}
}

// TestBlocks checks the sparklines and heat maps of the live view: they fit in a window of any size, one that is resized too, they
// have colours only if the user has not disabled them, nothing of them is left, and they are absent where the terminal or a pipe
// cannot show them.
func TestBlocks(t *testing.T) {
	w := open(t)
	w.script("blocks.bt", `interval:ms:20 { @n[@i % 3] = count(); @i++; @h = lhist(@i % 40, 0, 40, 10); @t = tseries(@i % 7, 100ms, 30); }
`)
	const run = "btc run --no-warnings -q --top 5 --every 100ms "
	all := []string{`@n\[\d\]: +\d+ +[▁-█]{4}`, `\[0, 10\) +\d+ \| [ ░▒▓█]{4}`, `\d \| [ ▁-█]{4}`, `each column is 100ms`}
	shown := func(patterns []string, args ...string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			text := w.screen(args...)
			missing := ""
			for _, p := range patterns {
				if !regexp.MustCompile(p).MatchString(text) {
					missing = p
				}
			}
			if missing == "" {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("no match of %s:\n%s", missing, text)
			}
		}
	}
	for i, size := range [][2]string{{"80", "24"}, {"40", "10"}, {"200", "50"}} {
		w.tmux("resize-window", "-x", size[0], "-y", size[1])
		w.clear()
		w.types(run + "blocks.bt")
		patterns := all
		if size[1] == "10" {
			patterns = all[1:2]
		}
		shown(patterns)
		if i == 2 { // lines of 200 columns wrap in the smaller window
			shown([]string{`[▁-█]{60}`})
			w.tmux("resize-window", "-x", "60", "-y", "20")
			shown([]string{`^\n*\d\d:\d\d:\d\d   every`})
		}
		w.tmux("send-keys", "C-c")
		text := w.until(`@t:\n(?s).*\n>`)
		if i == 2 { // rows that have scrolled out of a window that became smaller cannot be erased
			text = w.screen()
		}
		if regexp.MustCompile(`[▁-█░▒▓]`).MatchString(text) || strings.Contains(text, "every 100ms, ") {
			t.Errorf("%v: the view was left:\n%s", size, text)
		}
	}
	w.tmux("resize-window", "-x", "80", "-y", "24")
	for line, colours := range map[string]bool{run: true, "NO_COLOR=1 " + run: false, run + "--color never ": false} {
		w.clear()
		w.types(line + "blocks.bt")
		shown(all[2:])
		shown([]string{`\[0, 10\) +\d+ \| +(\x1b\[3\dm)?[▒▓█]`}, "-e")
		if text := w.screen("-e"); strings.Contains(text, "\x1b[3") != colours {
			t.Errorf("%s: coloured = %t, want %t\n%q", line, !colours, colours, text)
		}
		w.tmux("send-keys", "C-c")
		w.until(`@t:\n(?s).*\n>`)
	}
	for _, line := range []string{"LC_ALL=C " + run + "--timeout 2s blocks.bt", "TERM=dumb " + run + "--timeout 2s blocks.bt", run + "--timeout 2s blocks.bt | cat"} {
		w.clear()
		w.types(line + "; echo end")
		if text := w.until(`(?m)^end`); regexp.MustCompile(`[▁-█░▒▓]`).MatchString(text) || strings.Count(text, "@@@@") < 3 {
			t.Errorf("%s:\n%s", line, text)
		}
	}
}

// TestReplay checks that btc replay draws the maps over time at the end, if the terminal can show that, and only there.
func TestReplay(t *testing.T) {
	w := open(t)
	w.script("blocks.bt", `interval:ms:20 { @n[@i % 3] = count(); @i++; @h = lhist(@i % 40, 0, 40, 10); @p = lhist(@i % 40, 0, 40, 20); }
interval:ms:300 { print(@p); clear(@p); }
`)
	w.types("btc run --no-warnings -q --every 200ms --timeout 3100ms --record run.jsonl blocks.bt > printed.txt; echo recorded")
	w.until(`(?m)^recorded`)
	for line, drawn := range map[string]bool{
		"btc replay run.jsonl":          true,
		"LC_ALL=C btc replay run.jsonl": false,
		"btc replay run.jsonl | cat":    false,
		"btc replay -f json run.jsonl":  false,
	} {
		w.clear()
		w.types(line + "; echo end")
		text := w.until(`(?m)^end`)
		if got := regexp.MustCompile(`[▁-█░▒▓]`).MatchString(text); got != drawn {
			t.Errorf("%s: drawn = %t:\n%s", line, got, text)
		}
		for _, want := range []string{`@n\[0\]: \d+ +[▁-█]{4}`, `\n@h:\n\[30, 40\) +\d+ \| [ ░▒▓█]{4}`, `\n@p:\n\[20, 40\) +\d+ \| [ ░▒▓█]{4}`} {
			if drawn && !regexp.MustCompile(want).MatchString(text) {
				t.Errorf("%s: no match of %s:\n%s", line, want, text)
			}
		}
	}
	w.types("btc replay run.jsonl > replayed.txt; cmp printed.txt replayed.txt && echo same")
	w.until(`(?m)^same`)
}

// TestProgress checks that a slow attach shows its progress and removes it at the end.
func TestProgress(t *testing.T) {
	w := open(t)
	const script = `tracepoint:xfs:*,tracepoint:btrfs:*,tracepoint:kvm*:* { @ = count(); } begin { exit() }`
	w.types("btc compile -o long.o -e 'config = { max_probes = 4000 } " + script + "'; echo compiled")
	w.until(`(?m)^compiled`)
	w.clear()
	begin := time.Now()
	w.types("btrun --no-warnings long.o")
	shown := ""
	re := regexp.MustCompile(`(?m)^\w+ing( \d+ of)? \d+ probes \(\d+ s\)`)
	for time.Since(begin) < time.Minute && !strings.Contains(w.history(), "Attached ") &&
		!strings.Contains(w.history(), "rror") {
		if m := re.FindString(w.screen()); m != "" {
			shown = m
		}
		time.Sleep(50 * time.Millisecond)
	}
	took := time.Since(begin)
	text := w.until(`(?s)(Attached|rror).*\n>`)
	if !strings.Contains(text, "Attached ") {
		t.Skipf("skipped: cannot attach on this kernel:\n%s", text)
	}
	if took < 4*time.Second && shown == "" {
		t.Skipf("skipped: attaching took only %v", took)
	}
	if shown == "" || re.MatchString(text) {
		t.Errorf("attaching took %v, progress %q, remaining output:\n%s", took, shown, text)
	}
}

// TestColours checks that the terminal gets a dim line on how to stop, and coloured messages, unless
// TERM is dumb or the user has disabled colours.
func TestColours(t *testing.T) {
	w := open(t)
	w.script("wrong.bt", "begin { nosuch(); }\n")
	w.script("end.bt", "begin { @x = 1; } interval:ms:300 { exit(); }\n")
	const dim, red = "\x1b[2m", "\x1b[1m\x1b[31m"
	for _, c := range []struct {
		line    string
		colours bool
	}{
		{"btc wrong.bt", true},
		{"btc compile wrong.bt -o x.o", true},
		{"NO_COLOR=1 btc wrong.bt", false},
		{"TERM=dumb btc wrong.bt", false},
		{"btc --color never wrong.bt", false},
		{"NO_COLOR=1 btc --color always wrong.bt", true},
		{"BPFTRACE_COLOR=never btc wrong.bt", false},
	} {
		w.clear()
		w.types(c.line)
		text := w.until(`nosuch\(\)(?s).*\n[^ ]*>`, "-e")
		if strings.Contains(text, red) != c.colours {
			t.Errorf("%s: coloured = %v, want %v\n%q", c.line, !c.colours, c.colours, text)
		}
	}
	for _, c := range []struct {
		line string
		dim  bool
		want string // regular expression; "": no such line
	}{
		{"btc end.bt", true, `Ctrl-C ends the run and prints the maps`},
		{"NO_COLOR=1 btc end.bt", false, `Ctrl-C ends the run and prints the maps`},
		{"btc --timeout 9s end.bt", true, `ends after 9s; Ctrl-C ends the run earlier and prints the maps`},
		{"btc -c 'sleep 0.2' end.bt", true, `ends with the command; Ctrl-C `},
		{"btc -q end.bt", false, ``},
		{"btc -f json end.bt", false, ``},
		{"btc end.bt 2>/dev/null", false, ``},
	} {
		w.clear()
		w.types(c.line)
		text := w.until(`@x"?: 1(?s).*\n[^ ]*>`, "-e")
		switch {
		case c.want == "" && strings.Contains(text, "Ctrl-C"):
			t.Errorf("%s: unexpected line on how to stop:\n%s", c.line, text)
		case c.want != "" && !regexp.MustCompile(c.want).MatchString(text):
			t.Errorf("%s: no match of %s:\n%s", c.line, c.want, text)
		case strings.Contains(text, dim) != c.dim:
			t.Errorf("%s: dim line = %v, want %v\n%q", c.line, !c.dim, c.dim, text)
		}
	}
}

// TestSignals checks Ctrl-C, a closed terminal and SIGUSR1.
func TestSignals(t *testing.T) {
	w := open(t)
	w.script("sleep.bt", "begin { @x = 7; printf(\"begun\\n\"); } interval:s:100 { }\n")
	w.types("btc -q sleep.bt & echo pid $!")
	w.until(`begun`)
	w.types("kill -USR1 $!")
	w.until(`@x: 7`)
	w.types("kill -HUP $!; wait $!; echo status $?")
	if text := w.until(`status \d+`); strings.Count(text, "@x: 7") != 2 || !strings.Contains(text, "status 0") {
		t.Errorf("after SIGUSR1 and SIGHUP:\n%s", text)
	}
	w.clear()
	w.types("btc -q sleep.bt; echo status $?")
	w.until(`begun`)
	w.tmux("send-keys", "C-c")
	if text := w.until(`status \d+`); !strings.Contains(text, "@x: 7") || !strings.Contains(text, "status 0") {
		t.Errorf("after Ctrl-C:\n%s", text)
	}
	w.clear()
	w.types("btc -q -o kept sleep.bt")
	kept := filepath.Join(w.dir, "kept")
	holds := func(want string) bool {
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			if b, _ := os.ReadFile(kept); strings.Contains(string(b), want) {
				return true
			}
		}
		return false
	}
	if !holds("begun") {
		t.Fatal("run did not start")
	}
	w.tmux("kill-session") // as if the window were closed or the connection lost
	if !holds("@x: 7") {
		t.Error("maps not printed after the terminal was closed")
	}
}

// TestKeys checks the keys of the live view: every map can be seen on a terminal of any size, the view stops and goes on, the
// order changes, and q ends the run as Ctrl-C does. Then, and while the run is stopped, the terminal is as it was.
func TestKeys(t *testing.T) {
	w := open(t)
	w.script("keys.bt", `interval:ms:4 { @i++; @first[@i % 4] = count(); @long[@i % 30] = count(); @sum = sum(@i); @zoo = hist(@i); }
interval:s:1 { printf("second\n"); }
`)
	press := func(keys ...string) {
		t.Helper()
		w.tmux(append([]string{"send-keys"}, keys...)...)
	}
	seen := func(pattern string) string {
		t.Helper()
		re := regexp.MustCompile(pattern)
		for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			text := w.screen()
			if re.MatchString(text) {
				return text
			}
			if time.Now().After(end) {
				t.Fatalf("no match of %s on the terminal:\n%s", pattern, text)
			}
		}
	}
	terminal := func() string {
		t.Helper()
		out, err := exec.Command("stty", "-a", "-F", strings.TrimSpace(w.tmux("display-message", "-p", "#{pane_tty}"))).CombinedOutput()
		if err != nil {
			t.Fatalf("stty: %v\n%s", err, out)
		}
		_, modes, _ := strings.Cut(string(out), "\n") // the first line has the size
		return modes
	}
	before := terminal()
	for _, size := range [][2]string{{"80", "24"}, {"40", "10"}, {"200", "50"}} {
		w.tmux("resize-window", "-x", size[0], "-y", size[1])
		w.clear()
		w.types("btc run --no-warnings --top 30 --rate --every 100ms keys.bt")
		seen(`every 100ms, q: end, h: help`)
		if now := terminal(); now == before {
			t.Error("the terminal is not changed while keys are read")
		}
		press("Tab")
		seen(`@first \(1 of 5\).*\n@first\[\d\]: \d+  \d\S*/s`)
		press("Tab", "Tab")
		seen(`@long \(3 of 5\)`)
		press("End")
		if size[1] != "50" {
			seen(`@long \(3 of 5\), from line \d+`)
		}
		press("s")
		seen(`order: key, @long \(3 of 5\)(?s:.*)@long\[29\]`)
		press("Home")
		seen(`@long \(3 of 5\).*\n@long\[0\]: (?s:.*)@long\[1\]: `)
		press("r", "Space")
		stopped := seen(`paused(?s:.*)@long\[0\]: \d+( [ ▁-█]*)?\n`)
		w.until(`(?s)second.*second`)
		later := w.screen()
		counts := regexp.MustCompile(`(?m)^@long.*$`)
		if a, b := counts.FindString(stopped), counts.FindString(later); a != b {
			t.Errorf("while the view is paused, %q becomes %q", a, b)
		}
		press("Space", "BTab", "BTab", "BTab", "BTab")
		seen(`@zoo \(5 of 5\)`)
		press("h")
		seen(`q +end the run`)
		press("h", "C-z")
		w.until(`(?i)stopped`)
		if now := terminal(); now != before {
			t.Errorf("while the run is stopped, the terminal is\n%s\nbefore it was\n%s", now, before)
		}
		w.types("fg")
		seen(`@zoo \(5 of 5\)`)
		press("q")
		w.until(`(?m)^@sum: \d+$`)
		w.types("echo over")
		text := w.until(`(?m)^over$`)
		if strings.Contains(text, "q: end, h: help") || !strings.Contains(text, "@sum: ") {
			t.Errorf("the view is left, or the maps are not printed:\n%s", text)
		}
		if now := terminal(); now != before {
			t.Errorf("at the end the terminal is\n%s\nbefore it was\n%s", now, before)
		}
	}
}

// TestNoKeys: a traced command has the terminal for itself.
func TestNoKeys(t *testing.T) {
	w := open(t)
	w.script("keys.bt", `interval:ms:20 { @i++; }`)
	w.types(`btc run --no-warnings --top 5 --every 100ms -c 'sh -c "read x; echo $x > got"' keys.bt; echo got $(cat got)`)
	w.until(`every 100ms, Ctrl-C ends`)
	w.types("quick q")
	w.until(`@i: \d+\ngot quick q\n`)
}

// TestFanLive checks that btc fan with --every and --top shows the merged maps while its hosts run, with the same keys as a run, and
// the report at the end. The hosts are this machine, through a program in the place of ssh.
func TestFanLive(t *testing.T) {
	w := open(t)
	w.script("live.bt", `interval:ms:20 { @n[1] = count(); @long[1] = count(); }
interval:ms:500 { printf("half\n"); }
`)
	if err := os.WriteFile(filepath.Join(w.bin, "ssh"), []byte("#!/bin/sh\nfor command; do :; done\nexec sh -c \"$command\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	w.types("btc fan --host one,two --no-warnings --every 200ms --top 5 --rate live.bt")
	w.until(`2 of 2 hosts, every 200ms, q: end, h: help\n@long\[1\]: \d+  \d\S*/s`)
	w.until(`(?m)^one: half\n(?s:.*)^two: half\n|^two: half\n(?s:.*)^one: half\n`)
	w.tmux("send-keys", "Tab", "Tab")
	w.until(`@n \(2 of 2\), 2 of 2 hosts`)
	w.tmux("send-keys", "q")
	text := w.until(`btc: 2 of 2 hosts in the report\n`)
	if !regexp.MustCompile(`(?m)^@n\[1\]: \d+$`).MatchString(text) || strings.Contains(text, "q: end") {
		t.Errorf("no report, or the view is left:\n%s", text)
	}
}
