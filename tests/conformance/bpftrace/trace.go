// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"btc/cmd/btrun/command"
	"btc/compile"
	"btc/frontend/debuginfo"
	"btc/internal/manifest"
	"btc/loader/permit"
	"btc/targets/capture"
	"btc/targets/kernel"
	"btc/tests/conformance/message"
)

// trace compiles a script for the embedded target and runs it. If btrun reports that this kernel needs
// an object of its own, it compiles for this host, as bpftrace always does.
func (c *call) trace(name, text string) int {
	dir, err := os.MkdirTemp("", "btc")
	check(err)
	defer os.RemoveAll(dir)
	t, err := kernel.Default("x86_64")
	check(err)
	object := filepath.Join(dir, "script.o")
	if !c.compile(t, name, text, object, os.Stderr) {
		return 1
	}
	if os.Getenv(notifyVar) != "" {
		defer func() {
			signal.Ignore(os.Interrupt, syscall.SIGTERM) // the run is over
			time.Sleep(linger)
		}()
	}
	said := &messages{w: os.Stderr, hold: []byte("--target")}
	status := c.run(object, said)
	if !said.held {
		return status
	}
	own, err := captured(dir)
	check(err)
	if !c.compile(own, name, text, object, io.Discard) {
		return 1
	}
	return c.run(object, &messages{w: os.Stderr})
}

// compile writes the object and the manifest of a script.
func (c *call) compile(t *kernel.Target, name, text, object string, stderr io.Writer) bool {
	out, diags := compile.Compile(compile.Input{Name: name, Text: text, Target: t, Files: &debuginfo.Finder{Dirs: c.debug}, Compiler: "test",
		Dirs: c.dirs, Include: c.include, Params: c.operands, Options: c.options(), ProbeFilter: c.filter, FixAll: true, HelperErrors: c.failures, Environ: os.Environ(), SeriesClock: os.Getenv("BPFTRACE_DUMMY_TS_MAP")})
	fmt.Fprint(stderr, message.Text(diags, c.silent))
	if out == nil {
		return false
	}
	m, err := manifest.Parse(out.Manifest)
	check(err)
	for _, p := range permit.Written(m) { // bpftrace does not ask for permissions
		c.loader = append(c.loader, "--allow", p)
	}
	check(os.WriteFile(object, out.Object, 0o600))
	check(os.WriteFile(object[:len(object)-len(".o")]+".json", out.Manifest, 0o600))
	return true
}

// run runs an object as btrun does.
func (c *call) run(object string, stderr io.Writer) int {
	args := append(append([]string{}, c.loader...), object)
	args = append(args, c.operands...)
	if len(c.named) > 0 {
		args = append(append(args, "--"), c.named...)
	}
	return command.Run(args, command.Streams{Out: os.Stdout, Err: stderr, Version: "test", Attached: notify})
}

// notifyVar is set by bpftrace's test engine, which waits for a line with this name.
const notifyVar = "__BPFTRACE_NOTIFY_PROBES_ATTACHED"

// notify signals the engine that it may start the traced program.
func notify() {
	if os.Getenv(notifyVar) != "" {
		fmt.Println(notifyVar)
	}
}

// linger is how long a run stays alive after its last line. The engine looks for the line of notify
// only while the program runs; bpftrace takes about as long to exit.
const linger = 100 * time.Millisecond

func captured(dir string) (*kernel.Target, error) {
	b, err := capture.HostFile()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "host.target")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		return nil, err
	}
	return kernel.Open(path)
}

// messages rewrites btrun's standard error, one message per Write, into bpftrace's form. It holds back
// a message that contains hold.
type messages struct {
	w    io.Writer
	hold []byte
	held bool
}

func (m *messages) Write(p []byte) (int, error) {
	if len(m.hold) > 0 && bytes.Contains(p, m.hold) {
		m.held = true
		return len(p), nil
	}
	if _, err := io.WriteString(m.w, message.Loader(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
