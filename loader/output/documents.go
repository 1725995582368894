// SPDX-License-Identifier: Apache-2.0

package output

import "btc/loader/format"

// documents is the sink of formats of documents, which contain maps only: each snapshot, and the end of the run, is one.
// Printed output is omitted, with one warning, and messages are written to standard error.
type documents struct {
	text
	what    string // what the documents contain
	write   func(maps func(show func(*Map)), running bool)
	omitted bool // the omission was reported
}

func (d *documents) omit(e *format.Event) {
	if !d.omitted {
		d.omitted = true
		d.Message("WARNING: " + e.Kind + "() is not part of " + d.what)
	}
}

func (d *documents) Printf(e *format.Event, _ *format.Format)       { d.omit(e) }
func (d *documents) Print(e *format.Event)                          { d.omit(e) }
func (d *documents) Time(e *format.Event, _ []byte)                 { d.omit(e) }
func (d *documents) Join(e *format.Event, _ [][]byte, _ string)     { d.omit(e) }
func (d *documents) Piece(e *format.Event, _ []byte, first, _ bool) { d.omit(e) }

// Map ignores print() of a map, because each document contains the maps.
func (d *documents) Map(*Map) {}

func (d *documents) Snapshot(maps func(show func(*Map))) { d.write(maps, true) }

func (d *documents) End(maps func(show func(*Map))) { d.write(maps, false) }

func (d *documents) Pinned(path string) { d.Message("Program pinned to " + path) }
