// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"btc/btrace"
	"btc/internal/safefile"
	"btc/loader/diag"
)

// reloader reads the object and its parameters again on SIGUSR2 (--reload), and replaces those of the run.
type reloader struct {
	args    *arguments
	session *btrace.Session
	manager *notifier
	results *documentFile // of --reload=FILE; nil: none
	count   int           // reloads that have ended
}

// startReloader makes a run reload.
func startReloader(o *arguments, s *btrace.Session, manager *notifier, g *guard) error {
	r := &reloader{args: o, session: s, manager: manager}
	if o.Results != "" {
		var err error
		if r.results, err = createDocument(o.Results); err != nil {
			return fmt.Errorf("--reload: %w", err)
		}
	}
	r.write("")
	go r.serve(g.reloads, g.over)
	return nil
}

// serve reloads for each signal, or once for several that come during a reload, until over is closed.
func (r *reloader) serve(signals <-chan os.Signal, over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case <-signals:
		}
		r.write(loading)
		r.manager.reloading()
		err := r.reload()
		r.count++
		text, status := "\n", "The object was read again."
		if err != nil {
			text = diag.Printable(err.Error()) + "\n"
			status = "The last reload failed."
			fmt.Fprintf(shown(r.args, r.args.Report.Err), "btrun: reload: %s", text)
		}
		r.manager.send("READY=1\nSTATUS=" + status)
		r.write(text)
	}
}

func (r *reloader) reload() error {
	now, err := parseArgs(r.args.line, r.args.bundle)
	if err != nil {
		return err
	}
	object, err := r.args.openObject()
	if err != nil {
		return err
	}
	return r.session.Reload(object, now.Args, now.Params)
}

// loading is the second line of the file of --reload during a reload. Otherwise it is why the last one failed, or empty.
const loading = "..."

// write writes the number of reloads that have ended, and a text, to the file of --reload.
func (r *reloader) write(text string) {
	if r.results == nil {
		return
	}
	fmt.Fprintf(r.results, "%d\n%s", r.count, text)
	if err := r.results.Replace(); err != nil {
		fmt.Fprintf(r.args.Report.Err, "btrun: %v\n", err)
	}
}

// requestReload makes the process of --request-reload reload, and waits for the result.
func requestReload(o *arguments) error {
	count, text, err := readResult(o.Results)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("process %d does not run with --reload=%s, or has not attached its probes yet", o.Request, o.Results)
	}
	if err != nil {
		return err
	}
	until := count + 1
	if text == loading { // perhaps of the files of before
		until++
	}
	for err := unix.Kill(o.Request, unix.SIGUSR2); ; err = unix.Kill(o.Request, 0) {
		if err != nil {
			return fmt.Errorf("process %d: %w", o.Request, err)
		}
		time.Sleep(20 * time.Millisecond)
		if count, text, err = readResult(o.Results); err != nil {
			return fmt.Errorf("process %d has ended: %w", o.Request, err)
		}
		if count >= until && text != loading {
			break
		}
	}
	if text != "" {
		return errors.New("the object was not replaced: " + text)
	}
	return nil
}

// readResult reads the file of --reload.
func readResult(path string) (count int, text string, err error) {
	b, err := safefile.Read(path, 64<<10)
	if err != nil {
		return 0, "", err
	}
	first, text, _ := strings.Cut(string(b), "\n")
	if count, err = strconv.Atoi(first); err != nil {
		return 0, "", fmt.Errorf("%s was not written by btrun --reload", path)
	}
	return count, strings.TrimSuffix(text, "\n"), nil
}

// fileParameters returns the words of the last line PARAMETERS=... of a file for EnvironmentFile of systemd.exec(5); a
// file that does not exist has none. The line is read as the unit with $PARAMETERS would read it: the value may be in
// quotes, and then words in it may.
func fileParameters(path string) ([]string, error) {
	b, err := safefile.Read(path, 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text := "\n" + string(b)
	const key = "\nPARAMETERS="
	at := strings.LastIndex(text, key)
	if at < 0 {
		return nil, nil
	}
	value, _, _ := strings.Cut(text[at+len(key):], "\n")
	if value = strings.TrimSpace(value); value != "" && (value[0] == '"' || value[0] == '\'') {
		var parts []string
		parts, err = words(value)
		value = strings.Join(parts, " ")
	}
	all, e := words(value)
	if err == nil {
		err = e
	}
	if err != nil {
		return nil, fmt.Errorf("%s: PARAMETERS: %w", path, err)
	}
	return all, nil
}

// words splits a text at spaces outside of quotes. A backslash outside of single quotes takes the next byte as it is.
func words(text string) (all []string, err error) {
	word, quote := "", byte(0)
	begun := false
	for i := 0; i <= len(text); i++ {
		c := byte(' ')
		if i < len(text) {
			c = text[i]
		} else if quote != 0 {
			return nil, errors.New("a quote is not closed")
		}
		switch {
		case quote == 0 && c <= ' ':
			if begun {
				all = append(all, word)
			}
			word, begun = "", false
			continue
		case c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case c == '\\' && quote != '\'' && i+1 < len(text):
			i++
			word += text[i : i+1]
		default:
			word += text[i : i+1]
		}
		begun = true
	}
	return all, nil
}
