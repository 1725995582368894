// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"btc/btrace"
	"btc/internal/safefile"
	"btc/loader/diag"
	"btc/loader/policy"
)

// reloader reads the object and its parameters again on SIGUSR2 (--reload), and replaces those of the run.
type reloader struct {
	args    *arguments
	session *btrace.Session
	manager *notifier
	count   int // reloads that have ended

	mu      sync.Mutex
	results *documentFile // of --reload=FILE; nil: none, or the run has ended
}

// startReloader makes a run reload.
func startReloader(o *arguments, s *btrace.Session, manager *notifier, g *guard) (*reloader, error) {
	r := &reloader{args: o, session: s, manager: manager}
	if o.Results != "" {
		if !isReplaced(o.Results) {
			return nil, fmt.Errorf("--reload: %s: %w", o.Results, safefile.ErrNotRegular)
		}
		var err error
		if r.results, err = createDocument(o.Results); err != nil {
			return nil, fmt.Errorf("--reload: %w", err)
		}
	}
	r.write("")
	go r.serve(g.reloads, g.over)
	return r, nil
}

// end removes the file of --reload, whose process ID is soon that of another process.
func (r *reloader) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.results != nil {
		os.Remove(r.results.path)
		r.results = nil
	}
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
	now.scriptArgs(object.Params())
	return r.session.Reload(object, now.Args, now.Params)
}

// loading is the second line of the file of --reload during a reload. Otherwise it is why the last one failed, or empty.
const loading = "..."

// write writes the process ID, the number of reloads that have ended, and a text, to the file of --reload.
func (r *reloader) write(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.results == nil {
		return
	}
	fmt.Fprintf(r.results, "%d %d\n%s", os.Getpid(), r.count, text)
	if err := r.results.Replace(); err != nil {
		fmt.Fprintf(r.args.Report.Err, "btrun: %v\n", err)
	}
}

// requestReload makes the process of --request-reload reload, and waits for the result. It sends no signal to a process that
// has not written the file of --reload: SIGUSR2 ends most.
func requestReload(o *arguments) error {
	process, err := unix.PidfdOpen(o.Request, 0) // the ID is not used again before the file is read
	if err != nil {
		return fmt.Errorf("process %d: %w", o.Request, err)
	}
	defer unix.Close(process)
	result, err := readResult(o)
	if err != nil {
		return err
	}
	until := result.count + 1
	if result.text == loading { // perhaps of the files of before
		until++
	}
	for err := unix.PidfdSendSignal(process, unix.SIGUSR2, nil, 0); ; err = unix.PidfdSendSignal(process, 0, nil, 0) {
		if err != nil {
			return fmt.Errorf("process %d: %w", o.Request, err)
		}
		time.Sleep(20 * time.Millisecond)
		if result, err = readResult(o); err != nil {
			return fmt.Errorf("the run has ended: %w", err)
		}
		if result.count >= until && result.text != loading {
			break
		}
	}
	if result.text != "" {
		return errors.New("the object was not replaced: " + result.text)
	}
	return nil
}

// result is the content of the file of --reload.
type result struct {
	count int
	text  string
}

// readResult reads the file of --reload, which the process of --request-reload has written.
func readResult(o *arguments) (r result, err error) {
	b, err := safefile.Read(o.Results, 64<<10)
	first, text, _ := strings.Cut(string(b), "\n")
	pid, count, _ := strings.Cut(first, " ")
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		if r.count, err = strconv.Atoi(count); err != nil || pid != strconv.Itoa(o.Request) {
			return r, fmt.Errorf("process %d does not run with --reload=%s, or has not attached its probes yet", o.Request, o.Results)
		}
	}
	r.text = strings.TrimSuffix(text, "\n")
	return r, err
}

// asService refuses the options of services to users who run btrun with more rights than their own, under the policy of the
// host: --reload=FILE writes a file, --parameters reads one, and --request-reload sends a signal, with the rights of btrun.
func (o *arguments) asService() error {
	if !o.Reload && o.Request == 0 && o.Parameters == "" {
		return nil
	}
	p, err := policy.Host()
	if err == nil && p != nil && safefile.HasCaller() {
		err = errors.New("--reload, --request-reload and --parameters are for services: " +
			"the policy of this host does not permit them with the rights of another user")
	}
	return err
}

// fileParameters returns the words of the last line PARAMETERS=... of a file for EnvironmentFile of systemd.exec(5); a
// file that does not exist has none. The line is read as the unit with $PARAMETERS would read it: the value may be in
// quotes, and then words in it may; a backslash at its end continues it.
func fileParameters(path string) ([]string, error) {
	b, err := safefile.Read(path, 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	value := ""
	for line := range strings.SplitSeq(strings.ReplaceAll(string(b), "\\\n", ""), "\n") {
		if text, is := strings.CutPrefix(strings.TrimSpace(line), "PARAMETERS="); is {
			value = strings.TrimSpace(text)
		}
	}
	if value != "" && (value[0] == '"' || value[0] == '\'') {
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
