// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"

	"btc/frontend/diag"
)

// messageFormat is how errors and warnings of scripts are printed for programs; the zero value prints them for people.
type messageFormat struct{ json, sarif bool }

func (f messageFormat) check() error {
	if f.json && f.sarif {
		return errors.New("--json and --sarif exclude each other")
	}
	return nil
}

// machine reports whether messages are printed for programs.
func (f messageFormat) machine() bool { return f.json || f.sarif }

func (f messageFormat) write(w io.Writer, messages []diag.Message) error {
	if f.sarif {
		return diag.WriteSARIF(w, version, messages)
	}
	return diag.WriteJSON(w, messages)
}
