// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	pprof "github.com/google/pprof/profile"

	"btc/fleet/replay"
	"btc/internal/profile"
	"btc/internal/safefile"
	"btc/loader/output"
	"btc/report/flamegraph"
)

// svg is the form of a profile that is a picture.
const svg = "svg"

// profileForm returns the form of a profile: form if it is one, or that of the name of a file if form is ""; "" if it is
// none.
func profileForm(form, file string) string {
	if form == "" {
		name := strings.TrimSuffix(strings.TrimSuffix(file, ".gz"), ".zst")
		for _, x := range []struct{ end, form string }{{".svg", svg}, {".pb", "pprof"}, {".pprof", "pprof"}, {".folded", "folded"}} {
			if strings.HasSuffix(name, x.end) {
				return x.form
			}
		}
		return ""
	}
	if f := output.Find(form); form == svg || f != nil && f.Profile {
		return form
	}
	return ""
}

// readProfile returns the profile of a recording: that of its last snapshot in the range of time; with an error, that of the
// last one before it, or nil.
func readProfile(name string, in io.Reader, opts replay.Options) (*profile.Profile, error) {
	var last *profile.Profile
	opts.Out = io.Discard
	opts.Format = &output.Format{Name: svg, Document: true, Profile: true, New: func(r *output.Run) output.Sink {
		return output.Profiler(r, func(p *profile.Profile) { last = p })
	}}
	cut, err := replay.Run(name, in, opts)
	switch {
	case err != nil:
		return last, err
	case last == nil:
		return nil, fmt.Errorf("%s: no snapshot of the map is in the recording", name)
	case cut:
		fmt.Fprintf(os.Stderr, "btc: warning: %s ends within a line: only the complete lines are used\n", name)
	}
	return last, nil
}

// writeProfile writes a profile in a form to a file, compressed as its name says, or to standard output if file is "" or "-".
// pprof is always compressed.
func writeProfile(file, form string, p *profile.Profile) error {
	var text bytes.Buffer
	switch form {
	case svg:
		if err := flamegraph.Write(&text, p, flamegraph.Options{}); err != nil {
			return err
		}
	case "pprof":
		var plain bytes.Buffer
		p.Pprof(func(b []byte) { plain.Write(b) })
		x, err := pprof.ParseData(plain.Bytes())
		switch {
		case err != nil:
		case strings.HasSuffix(file, ".zst"):
			err = x.WriteUncompressed(&text)
		default:
			err = x.Write(&text)
		}
		if err != nil {
			return err
		}
	default:
		if n := p.Folded(func(line []byte) { text.Write(line) }); n > 0 {
			fmt.Fprintf(os.Stderr, "btc: warning: %d stacks with a negative value are left out\n", n)
		}
	}
	if file == "" || file == "-" {
		if form == "pprof" && isTerminal(os.Stdout) {
			return errors.New("a pprof file is binary: write it to a file, with -o FILE, or to a pipe")
		}
		_, err := os.Stdout.Write(text.Bytes())
		return err
	}
	if form == "pprof" && !strings.HasSuffix(file, ".zst") { // it is compressed already
		return writeComplete(file, text.Bytes())
	}
	var packed bytes.Buffer
	c, err := compress(file, &packed)
	if err == nil {
		_, err = c.Write(text.Bytes())
		err = errors.Join(err, c.Close())
	}
	if err != nil {
		return err
	}
	return writeComplete(file, packed.Bytes())
}

// writeComplete writes a file under a temporary name first, so that it is never there in part. What is not a regular file, as a
// pipe, and a file in a directory in which none can be made are written at once.
func writeComplete(path string, data []byte) error {
	if old, err := os.Lstat(path); err != nil || old.Mode().IsRegular() {
		if err := writeFiles(newFile{path, data}); !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	f, err := safefile.Create(path, os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}
