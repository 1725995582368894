// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/tidwall/gjson"

	"btc/fleet/fan"
	"btc/fleet/merge"
	"btc/internal/safefile"
	"btc/loader/format"
	"btc/loader/render"
)

// fanView shows the output of hosts during a run, and on a terminal the progress.
type fanView struct {
	out     io.Writer // events
	err     io.Writer // messages
	json    bool      // events are printed as json2
	metrics bool      // events are omitted
	timeout time.Duration

	mu     sync.Mutex
	shown  bool // the progress line is on the screen
	counts fan.Counts
	began  time.Time
	ticker *time.Ticker // nil: not a terminal
	done   chan struct{}

	parts    map[string][]byte // by host: an incomplete line
	messages map[string]int    // number of hosts that have sent a message
	first    map[string]string // the first of these hosts
	sent     map[string]int    // by host: number of messages that no other host sent before
	warned   map[string]int    // by host: number of diagnostics of the script
	lost     uint64            // lost events of all hosts
	leftOut  bool              // the warning has been printed
}

func newFanView(out io.Writer, asJSON, metrics bool) *fanView {
	v := &fanView{
		out: out, err: onTerminal(os.Stderr), json: asJSON, metrics: metrics, began: time.Now(),
		parts: map[string][]byte{}, messages: map[string]int{}, first: map[string]string{}, sent: map[string]int{},
		warned: map[string]int{}, done: make(chan struct{}),
	}
	if !isTerminal(os.Stderr) || os.Getenv("TERM") == "dumb" {
		return v
	}
	ticker := time.NewTicker(time.Second)
	v.ticker = ticker
	go func() {
		for {
			select {
			case <-ticker.C:
				v.mu.Lock()
				v.draw()
				v.mu.Unlock()
			case <-v.done:
				return
			}
		}
	}()
	return v
}

// below makes a live view show the messages above itself. It shows the progress as well.
func (v *fanView) below(w *fanWatch) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.erase()
	v.err = w.messages(v.err)
	if v.ticker != nil {
		v.ticker.Stop()
		v.ticker = nil
	}
}

// draw shows the progress line.
func (v *fanView) draw() {
	if v.ticker == nil {
		return
	}
	c, took := v.counts, time.Since(v.began).Round(time.Second)
	text := fmt.Sprintf("%d of %d hosts done", c.Done, c.All)
	if c.Bad > 0 {
		text += fmt.Sprintf(" (%d failed)", c.Bad)
	}
	text += fmt.Sprintf(", %d running, %d connecting, %d waiting, %s", c.Running, c.Connecting, c.Waiting, took)
	fmt.Fprintf(os.Stderr, "\r\x1b[K%s", text)
	v.shown = true
}

// erase removes the progress line, so that other output can be written.
func (v *fanView) erase() {
	if v.shown {
		fmt.Fprint(os.Stderr, "\r\x1b[K")
		v.shown = false
	}
}

func (v *fanView) progress(c fan.Counts) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.counts = c
	v.draw()
}

// logLine writes a line of btc's own.
func (v *fanView) logLine(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.erase()
	fmt.Fprintln(v.err, text)
}

// lostEvents returns the number of events that all hosts have lost.
func (v *fanView) lostEvents() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.lost
}

// Limits on messages, so that one host cannot use up the room for those of others: the number of different ones of a
// host, the number of all after which a host has fewer, and that of diagnostics of the script.
const (
	hostMessages     = 100
	maxMessages      = 1000
	hostMessagesLate = 10
	hostDiagnostics  = 10_000
	maxDiagnostic    = 64 << 10 // bytes
)

// message shows a line of a host's error output. A line that other hosts have sent before is only
// counted.
func (v *fanView) message(h fan.Host, line string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	most := hostMessages
	if len(v.messages) >= maxMessages {
		most = hostMessagesLate
	}
	if v.messages[line] == 0 && !v.admit(h, v.sent, most) {
		return
	}
	v.messages[line]++
	if v.messages[line] == 1 {
		v.erase()
		v.first[line] = h.Name
		fmt.Fprintf(v.err, "%s: %s\n", h.Name, line)
	}
}

// admit counts a line of a host, and reports whether it is to be shown. The first one that is not is reported.
func (v *fanView) admit(h fan.Host, count map[string]int, most int) bool {
	if count[h.Name]++; count[h.Name] == most+1 {
		v.erase()
		fmt.Fprintf(v.err, "%s: btc does not show more of its messages\n", h.Name)
	}
	return count[h.Name] <= most
}

// event shows a line of a host's json2 output.
func (v *fanView) event(h fan.Host, line []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	kind := gjson.GetBytes(line, "type").Str
	if kind == "lost_events" {
		n := gjson.GetBytes(line, "count").Uint()
		v.lost += min(n, math.MaxUint64-v.lost)
	}
	if v.metrics {
		if !v.leftOut && kind != "lost_events" {
			v.leftOut = true
			v.erase()
			fmt.Fprintln(v.err, "btc: warning: the script's printed output is not part of metrics")
		}
		return
	}
	v.erase()
	if v.json {
		v.out.Write(withHost(line, kind, h.Name))
		return
	}
	switch kind {
	case "printf", "time", "cat", "join", "syscall":
		v.print(h, []byte(gjson.GetBytes(line, "data").Str+map[string]string{"join": "\n"}[kind]))
	case "value":
		v.print(h, []byte(merge.PrintedValue(line)+"\n"))
	case "map":
		text, err := merge.AppendLine(nil, line, render.Top{})
		if err != nil {
			text = fmt.Appendf(nil, "%v\n", err)
		}
		v.print(h, text)
	case "errorf", "warnf", "helper_error", "runtime_error":
		severity := "ERROR"
		if kind == "warnf" || kind == "helper_error" {
			severity = "WARNING"
		}
		if !v.admit(h, v.warned, hostDiagnostics) {
			return
		}
		get := func(name string) string { return gjson.GetBytes(line, name).String() }
		text := fmt.Sprintf("%s:%s:%s: %s: %s", get("filename"), get("line"), get("col"), severity, get("msg"))
		for line := range strings.Lines(strings.ToValidUTF8(text[:min(len(text), maxDiagnostic)], "")) {
			fmt.Fprintf(v.err, "%s: %s\n", h.Name, strings.TrimSuffix(line, "\n"))
		}
	}
}

// withHost adds the host to a line of json2, after the type. A host that the line names itself is dropped: it may be
// that of another one.
func withHost(line []byte, kind, host string) []byte {
	dst := format.AppendQuoted([]byte(`{"type": `), []byte(kind))
	dst = format.AppendQuoted(append(dst, `, "host": `...), []byte(host))
	if rest, found := bytes.CutPrefix(line, []byte(`{"type": "`+kind+`", `)); found && !gjson.GetBytes(line, "host").Exists() {
		return append(append(append(dst, ", "...), rest...), '\n')
	}
	gjson.ParseBytes(line).ForEach(func(key, value gjson.Result) bool {
		if key.Str != "type" && key.Str != "host" {
			dst = append(append(append(append(dst, ", "...), key.Raw...), ": "...), value.Raw...)
		}
		return true
	})
	return append(dst, "}\n"...)
}

// maxPart is the maximum size of an incomplete line that is buffered, in bytes.
const maxPart = 64 << 10

// print writes output with the host before each line. An incomplete line is buffered.
func (v *fanView) print(h fan.Host, text []byte) {
	text = append(v.parts[h.Name], text...)
	if len(text) > maxPart && bytes.IndexByte(text, '\n') < 0 {
		text = append(text, '\n')
	}
	end := bytes.LastIndexByte(text, '\n') + 1
	var b []byte
	for line := range bytes.Lines(text[:end]) {
		b = append(append(append(b, h.Name...), ": "...), line...)
	}
	if len(b) > 0 {
		v.out.Write(b)
	}
	if end == len(text) {
		delete(v.parts, h.Name)
	} else {
		v.parts[h.Name] = slices.Clone(text[end:])
	}
}

// end writes the buffered lines, in the order of the hosts' names, and how many hosts sent each message.
func (v *fanView) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	close(v.done)
	if v.ticker != nil {
		v.ticker.Stop()
	}
	v.erase()
	v.ticker = nil
	for _, host := range slices.Sorted(maps.Keys(v.parts)) {
		fmt.Fprintf(v.out, "%s: %s\n", host, v.parts[host])
	}
	for _, line := range slices.Sorted(maps.Keys(v.messages)) {
		if n := v.messages[line]; n > 1 {
			fmt.Fprintf(v.err, "btc: %s and %d other hosts: %s\n", v.first[line], n-1, line)
		}
	}
}

// The table lists up to sameReason hosts with the same reason one by one. If there are more, it names namedOfMany of
// them and the number of the others.
const (
	sameReason  = 10
	namedOfMany = 3
)

// writeResults writes the table of the hosts that failed or are late, and the number of hosts in
// the report. It returns how many failed.
func writeResults(f *os.File, results []fan.Result, lost uint64) int {
	w := onTerminal(f)
	same := map[string][]string{} // host names by state and reason
	counted, bad := 0, 0
	key := func(r *fan.Result) string { return string(r.State) + "\t" + oneLine(r.Reason) }
	for i := range results {
		r := &results[i]
		if r.Counted {
			counted++
		}
		if r.State != fan.OK {
			bad++
			same[key(r)] = append(same[key(r)], r.Host.Name)
		}
	}
	if bad > 0 {
		var b bytes.Buffer
		table := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
		fmt.Fprintln(table, "HOST\tRESULT\tREASON")
		for i := range results {
			r := &results[i]
			names := same[key(r)]
			if r.State == fan.OK || len(names) > sameReason && names[0] != r.Host.Name {
				continue
			}
			name := r.Host.Name
			if len(names) > sameReason {
				name = fmt.Sprintf("%s and %d more", strings.Join(names[:namedOfMany], ", "), len(names)-namedOfMany)
			}
			fmt.Fprintf(table, "%s\t%s\n", name, key(r))
		}
		table.Flush()
		w.Write(b.Bytes())
	}
	text := fmt.Sprintf("btc: %d of %d hosts in the report", counted, len(results))
	if bad > 0 {
		text += fmt.Sprintf(", %d failed", bad)
	}
	if lost > 0 {
		text += fmt.Sprintf(", %d events lost", lost)
	}
	fmt.Fprintln(w, text)
	return bad
}

// oneLine formats a reason as a cell of the table.
func oneLine(text string) string {
	text, _, more := strings.Cut(strings.TrimSpace(text), "\n")
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	if more {
		text += " ..."
	}
	return text
}

// writeFailed writes the names of the hosts that are not in the report.
func writeFailed(path string, results []fan.Result) error {
	var b strings.Builder
	for i := range results {
		if r := &results[i]; r.State != fan.OK {
			fmt.Fprintf(&b, "%s\t# %s: %s\n", r.Host.Name, r.State, oneLine(r.Reason))
		}
	}
	return safefile.Write(path, []byte(b.String()), 0o644)
}
