// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
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
		for _, x := range []struct{ end, form string }{{".svg", svg}, {".pb.gz", "pprof"}, {".pprof", "pprof"}, {".folded", "folded"}} {
			if strings.HasSuffix(file, x.end) {
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

// readProfile returns the profile of a recording: that of its last snapshot in the range of time.
func readProfile(name string, in io.Reader, opts replay.Options) (*profile.Profile, error) {
	var last *profile.Profile
	opts.Out = io.Discard
	opts.Format = &output.Format{Name: svg, Document: true, Profile: true, New: func(r *output.Run) output.Sink {
		return output.Profiler(r, func(p *profile.Profile) { last = p })
	}}
	cut, err := replay.Run(name, in, opts)
	switch {
	case err != nil:
		return nil, err
	case last == nil:
		return nil, fmt.Errorf("%s: no snapshot of the map is in the recording", name)
	case cut:
		fmt.Fprintf(os.Stderr, "btc: warning: %s ends within a line: only the complete lines are used\n", name)
	}
	return last, nil
}

// writeProfile writes a profile in a form to a file, or to standard output if file is "" or "-".
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
		compressed, err := pprof.ParseData(plain.Bytes())
		if err == nil {
			err = compressed.Write(&text)
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
	f, err := safefile.Create(file, os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(text.Bytes())
	return errors.Join(err, f.Close())
}
