// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"btc/btrace"
	"btc/internal/arch"
	"btc/internal/manifest"
	"btc/internal/safefile"
	"btc/internal/signature"
	"btc/loader/format"
	"btc/loader/object"
)

// streamed is the operand that means an object on standard input.
const streamed = "-"

// remoteVersion is the version of the --remote protocol.
const remoteVersion = 3

// Each side of --remote shows the other that it is alive. This one writes a line at least every aliveInterval. The
// sender of the object sends an empty line every 5 s after it: once it has sent one, it is considered gone when none
// has arrived for maxSilence, and the process exits if the report cannot be written within reportTime.
const (
	aliveInterval = 2 * time.Second
	maxSilence    = time.Minute
	reportTime    = 30 * time.Second
)

// takeInput reserves standard input for the object. Commands that the run starts read /dev/null.
func (o *arguments) takeInput(s Streams) error {
	in := s.In
	if in == nil {
		in = os.Stdin
		null, err := os.Open(os.DevNull)
		if err != nil {
			return err
		}
		os.Stdin = null
	}
	if format.IsTerminal(in) {
		return errors.New("standard input is a terminal: send an object, as in cat x.o | btrun -")
	}
	o.input = bufio.NewReaderSize(in, 64<<10)
	if o.Remote {
		return writeHost(s.Out, s.Version)
	}
	return nil
}

// asCaller reads the object of the command line. Under a policy, users may run btrun with more rights than their own,
// so the files are opened with those of the caller, and errors do not quote them.
func asCaller[T any](o *arguments, read func(string) (T, error)) (v T, err error) {
	if o.policy == nil {
		return read(o.object)
	}
	err = errAsCaller
	safefile.AsCaller(func() { v, err = read(o.object) })
	var invalid *object.InvalidError
	if errors.As(err, &invalid) {
		err = fmt.Errorf("%s: invalid content, which is not shown under the policy of this host", invalid.Path)
	}
	return v, err
}

var errAsCaller = errors.New("cannot open files with the rights of the caller")

// readKeys reads the files of --verify, as asCaller does, and parses them.
func (o *arguments) readKeys() error {
	for _, path := range o.Keys {
		var text []byte
		err := errAsCaller
		read := func() { text, err = safefile.Read(path, signature.MaxKeysBytes) }
		if o.policy == nil {
			read()
		} else {
			safefile.AsCaller(read)
		}
		if err != nil {
			return fmt.Errorf("--verify: %w", err)
		}
		keys, err := signature.ParseKeys(string(text))
		switch {
		case err != nil && o.policy != nil:
			return fmt.Errorf("--verify: %s: invalid content, which is not shown under the policy of this host", path)
		case err != nil:
			return fmt.Errorf("--verify: %s:%w", path, err)
		}
		o.keys = append(o.keys, keys...)
		o.Signers = append(o.Signers, string(text))
	}
	return nil
}

// openObject opens the object of the command line, to run it.
func (o *arguments) openObject() (*btrace.Object, error) {
	if o.bundle != nil {
		return btrace.Named(o.object, o.bundle.Object)
	}
	if o.object != streamed {
		object, err := asCaller(o, btrace.Open)
		if errors.Is(err, fs.ErrNotExist) {
			if hint, _ := asCaller(o, o.meant); hint != "" {
				err = fmt.Errorf("%w; %s", err, hint)
			}
		}
		return object, err
	}
	return btrace.Read(o.input)
}

// meant returns what a command line whose object does not exist may mean: the name without .o, or a parameter before the
// object.
func (o *arguments) meant(path string) (string, error) {
	exists := func(path string) bool { _, err := os.Stat(path); return err == nil }
	if !strings.HasSuffix(path, ".o") && exists(path+".o") {
		return "did you mean ./" + path + ".o?", nil
	}
	for _, arg := range o.Args {
		if strings.HasSuffix(arg, ".o") && exists(arg) {
			return "parameters follow the object: btrun " + arg + " " + path, nil
		}
	}
	return "", nil
}

// readObject reads the object of the command line, to describe it.
func (o *arguments) readObject() (*object.Object, error) {
	if o.bundle != nil {
		files, err := object.FromStream(o.object, o.bundle.Object)
		if err != nil {
			return nil, err
		}
		return files.Parse()
	}
	if o.object != streamed {
		return asCaller(o, object.Read)
	}
	files, err := object.ReadStream(o.input)
	if err != nil {
		return nil, err
	}
	return files.Parse()
}

// readManifest reads the manifest of the object.
func (o *arguments) readManifest() (*manifest.Manifest, error) {
	if o.object != streamed && o.bundle == nil {
		return asCaller(o, object.ReadManifest)
	}
	obj, err := o.readObject()
	if err != nil {
		return nil, err
	}
	return obj.Manifest, nil
}

// watchInput calls end at the end of standard input, when the sender of the object is gone or asks for the report, and
// gone when the sender has been silent for limit.
func (o *arguments) watchInput(limit time.Duration, end, gone func()) {
	var silence *time.Timer
	buf := make([]byte, 512)
	for {
		n, err := o.input.Read(buf)
		switch {
		case err != nil:
			if silence != nil {
				silence.Stop()
			}
			end()
			return
		case n > 0 && silence == nil:
			silence = time.AfterFunc(limit, gone)
		case n > 0:
			silence.Reset(limit)
		}
	}
}

// remoteOutput is the output of --remote. It writes a line of type "alive" when nothing else has been written for
// aliveInterval.
type remoteOutput struct {
	mu     sync.Mutex
	w      io.Writer
	inLine bool // the last write ended within a line
	wrote  bool // since the last tick
	ticker *time.Ticker
	done   chan struct{}
}

func newRemoteOutput(w io.Writer) *remoteOutput {
	r := &remoteOutput{w: w, ticker: time.NewTicker(aliveInterval), done: make(chan struct{})}
	go func() {
		for {
			select {
			case <-r.ticker.C:
				r.alive()
			case <-r.done:
				return
			}
		}
	}()
	return r
}

func (r *remoteOutput) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(p) > 0 {
		r.inLine, r.wrote = p[len(p)-1] != '\n', true
	}
	return r.w.Write(p)
}

func (r *remoteOutput) alive() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.wrote && !r.inLine {
		fmt.Fprintf(r.w, "{\"type\": \"alive\", \"time\": %q}\n", now())
	}
	r.wrote = false
}

func (r *remoteOutput) close() {
	r.ticker.Stop()
	close(r.done)
}

// writeHost writes the first line of --remote. The sender uses it to choose the object for the
// architecture.
func writeHost(w io.Writer, version string) error {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return err
	}
	b := fmt.Appendf(nil, `{"type": "host", "time": %q, "remote": %d`, now(), remoteVersion)
	for _, m := range []struct{ name, text string }{
		{"host", unix.ByteSliceToString(name.Nodename[:])},
		{"kernel", unix.ByteSliceToString(name.Release[:])},
		{"arch", arch.HostLabel()},
		{"version", version},
	} {
		b = format.AppendQuoted(fmt.Appendf(b, ", %q: ", m.name), []byte(m.text))
	}
	_, err := w.Write(append(b, "}\n"...))
	return err
}

// writeEnd writes the last line of --remote. It shows that the report before it is complete, unless
// it contains an error.
func writeEnd(w io.Writer, status int, err error) {
	b := fmt.Appendf(nil, `{"type": "end", "time": %q, "status": %d`, now(), status)
	if err != nil {
		b = format.AppendQuoted(append(b, `, "error": `...), []byte(err.Error()))
	}
	w.Write(append(b, "}\n"...))
}

func now() string { return time.Now().UTC().Format(time.RFC3339Nano) }
