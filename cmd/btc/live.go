// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"btc/fleet/replay"
	"btc/report/live"
	"btc/report/page"
)

// show runs a script or an object, and serves the page of its recording until the user ends it.
func (r *htmlReport) show(files, after []string) int {
	switch {
	case len(files) != 1:
		return fail("--live: expected one script or object; found %d", len(files))
	case r.base != "":
		return fail("--live does not go with --diff: compare the recordings afterwards")
	case r.from.Given || r.to.Given:
		return fail("--live does not go with --from and --to: select a part in the page")
	case r.file == "-":
		return fail("--live: -o needs a file")
	}
	if err := notScript(files[0]); err != nil {
		return fail("--live: %s", oneLine(err.Error()))
	}
	dir, err := os.MkdirTemp("", "btc")
	if err != nil {
		return fail("%v", err)
	}
	defer os.RemoveAll(dir)
	recording := filepath.Join(dir, "run.jsonl")
	self, err := os.Executable()
	if err != nil {
		return fail("%v", err)
	}
	l, err := r.listen()
	if err != nil {
		return fail("--live: %v", err)
	}
	defer l.Close()
	server, err := live.New(l, func() (*page.Data, error) { return r.now(recording) })
	if err != nil {
		return fail("%v", err)
	}
	// Ctrl-C ends the run, which writes its last maps, and then this program.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	cmd := exec.Command(self, append([]string{"run", "-q", "--record=" + recording, "--every=1s", files[0]}, after...)...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return fail("%v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	go server.Serve(l)
	if r.socket != "" {
		fmt.Fprintf(os.Stderr, "btc: the page is %s on the socket %s\n", server.Path(), r.socket)
	} else {
		fmt.Fprintf(os.Stderr, "btc: the page is %s\n", server.URL())
	}
	status, interrupted := 0, false
	for running := true; running; {
		select {
		case <-signals:
			interrupted = true
			cmd.Process.Signal(os.Interrupt) // also where the terminal did not
		case err := <-ended:
			running = false
			if err != nil {
				status = max(cmd.ProcessState.ExitCode(), 1)
			}
		}
	}
	if _, err := os.Stat(recording); err != nil {
		return max(status, 1) // the reason was reported
	}
	if r.file != "" {
		if err := r.write(recording); err != nil {
			return fail("%s", oneLine(err.Error()))
		}
	}
	if !interrupted && status == 0 {
		fmt.Fprintln(os.Stderr, "btc: the run has ended; Ctrl-C ends its page")
		<-signals
	}
	return status
}

// notScript returns an error for a file that cannot be run.
func notScript(name string) error {
	if name == "-" {
		return nil
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	f.Close()
	switch filepath.Ext(name) {
	case ".jsonl", ".json", ".gz", ".zst":
		return fmt.Errorf("%s is a recording: btc report %s makes its page", name, name)
	}
	return nil
}

// listen returns the listener of the page: a port of this machine, or a socket that only this user can open.
func (r *htmlReport) listen() (net.Listener, error) {
	if r.socket == "" {
		return net.Listen("tcp", "127.0.0.1:0")
	}
	mask := umask(0o177)
	defer umask(mask)
	return net.Listen("unix", r.socket)
}

// now returns what the page shows while the run goes on: its recording ends anywhere.
func (r *htmlReport) now(recording string) (*page.Data, error) {
	f, err := os.Open(recording)
	if err != nil {
		return nil, errors.New("it has not begun")
	}
	defer f.Close()
	d, _, err := replay.Page("live", f, replay.Options{})
	if d != nil {
		return d, nil
	}
	return nil, err
}
