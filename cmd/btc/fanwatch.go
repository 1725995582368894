// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"btc/fleet/fan"
	"btc/fleet/merge"
	"btc/internal/blocks"
	"btc/internal/color"
	"btc/internal/manifest"
	"btc/internal/quit"
	"btc/loader/format"
	"btc/loader/output"
	"btc/loader/render"
	"btc/loader/run/tty"
	"btc/loader/run/view"
)

// fanWatch is the live view of a fan: the merged maps of all hosts, redrawn while the hosts run.
type fanWatch struct {
	screen   *tty.Screen
	snapshot func() (runs *merge.Runs, up []bool)
	top      render.Top
	base     *manifest.Manifest
	every    time.Duration
	env      format.Env

	mu   sync.Mutex // guards view
	view *view.View
	done chan struct{}
	wait sync.WaitGroup
}

// watches reports whether the merged maps are shown while the hosts run: as text, on a terminal, with --every and --top.
func (r *fanRun) watches() bool {
	return r.btrun.Every > 0 && r.report.top > 0 && r.report.file == "" && r.report.form == output.Text.Name &&
		isTerminal(os.Stdout) && os.Getenv("TERM") != "dumb"
}

// watch shows the merged maps of a fan, whose hosts are up with a snapshot that is not older than fresh, until its end. The key q
// calls stop.
func (r *fanRun) watch(f *fan.Fan, fresh time.Duration, stop func()) *fanWatch {
	w := &fanWatch{
		screen:   tty.New(os.Stdout, color.Wanted("auto", true, os.Getenv)),
		snapshot: func() (*merge.Runs, []bool) { return f.Snapshot(fresh) },
		top:      r.report.shown(), base: r.base, every: r.btrun.Every, done: make(chan struct{}),
	}
	w.view = view.New(w.screen, w.every, w.top.Order, r.btrun.Rate, blocks.Possible(os.Getenv))
	w.view.ByName(func(m *manifest.Map, el *render.Element) string {
		if m.Scalar() {
			return ""
		}
		return string(w.env.Append(nil, format.Value{Layout: render.KeyLayout(m), Bytes: el.Key}))
	})
	if isTerminal(os.Stdin) {
		w.view.Listen(os.Stdin, func(key tty.Key) {
			if key == 'q' {
				stop()
				return
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.view.Press(key, &w.env) {
				w.view.Draw(&w.env)
			}
		})
	}
	quit.Before(func() {
		w.view.Close()
		w.screen.Leave()
	})
	w.wait.Go(func() {
		tick := time.NewTicker(w.every)
		defer tick.Stop()
		for {
			w.look()
			select {
			case <-w.done:
				return
			case <-tick.C:
			}
		}
	})
	return w
}

// look shows what the hosts have sent last.
func (w *fanWatch) look() {
	runs, up := w.snapshot()
	runs.Top = w.top
	merged, maps := runs.Maps(w.base)
	var all []*output.Map
	for i := range maps {
		all = append(all, &maps[i])
	}
	n := 0
	for _, is := range up {
		if is {
			n++
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.view.Note = fmt.Sprintf("%d of %d hosts, ", n, len(up))
	w.view.Add(time.Now(), merged, all)
	w.view.Draw(&w.env)
}

// out and messages are the outputs of the run: both are shown above the view.
func (w *fanWatch) out() io.Writer { return format.Terminal(w.screen) }

func (w *fanWatch) messages(to io.Writer) io.Writer { return w.screen.Messages(to) }

// end removes the view. A nil receiver has none.
func (w *fanWatch) end() {
	if w == nil {
		return
	}
	w.view.Close()
	close(w.done)
	w.wait.Wait()
	w.screen.Leave()
}
