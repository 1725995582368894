// SPDX-License-Identifier: Apache-2.0

package run

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"btc/internal/manifest"
	"btc/loader/host"
	"btc/loader/load"
	"btc/loader/options"
	"btc/loader/output"
	"btc/loader/sites"
)

// Events of the sessions in this file.
const (
	testPrintf = iota
	testExit
	testPrintMap
	testClear
	testOtherClear
	testSystem
)

// testSession returns a session that has events in its queue and writes to the buffer.
func testSession(t *testing.T, queue ...[]byte) (*session, *bytes.Buffer) {
	t.Helper()
	number := manifest.Field{Layout: manifest.Layout{Kind: "int", Size: 8}, Off: 8}
	out := &bytes.Buffer{}
	s := &session{
		manifest: &manifest.Manifest{Events: []manifest.Event{
			{Kind: "printf", Format: "%d\n", Size: 16, Fields: []manifest.Field{number}},
			{Kind: "exit", Size: 16, Fields: []manifest.Field{number}},
			{Kind: "print_map", Map: "@a", Size: 16},
			{Kind: "clear", Map: "@a", Size: 16},
			{Kind: "clear", Map: "@b", Size: 16},
			{Kind: "system", Format: "echo %d", Size: 16, Fields: []manifest.Field{number}},
		}},
		opts: Options{Report: options.Report{Out: out, Err: out}, Sink: &output.Text}, end: newEnding(), host: &host.Host{}, expansion: &sites.Expansion{}, loaded: &load.Loaded{},
	}
	for i := range s.manifest.Events {
		s.manifest.Events[i].ID = i
	}
	s.connect()
	var err error
	if s.reader.events, err = openSource(nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.reader.events.close)
	s.reader.events.queue, s.end.wake = queue, s.reader.events.wake
	s.losses = newLossCounter(s)
	s.table = newEventTable(s.manifest)
	s.startPrinter()
	t.Cleanup(func() { s.stopPrinter() })
	return s, out
}

func testRecord(id int, value uint64) []byte {
	b := binary.NativeEndian.AppendUint32(nil, uint32(id))
	b = binary.NativeEndian.AppendUint32(b, 16)
	return binary.NativeEndian.AppendUint64(b, value)
}

// TestDrainExit checks that records after exit() are not printed if the run ends before the exit is
// handled, and that the status is that of the first exit.
func TestDrainExit(t *testing.T) {
	s, out := testSession(t, testRecord(testPrintf, 1), testRecord(testExit, 3), testRecord(testPrintf, 2), testRecord(testExit, 4))
	if err := s.reader.runEnd(); err != nil {
		t.Fatal(err)
	}
	s.stopPrinter()
	if out.String() != "1\n" || s.end.status != 3 || !s.end.exited || s.reader.events.next() != nil {
		t.Errorf("status = %d, exited = %v, output %q", s.end.status, s.end.exited, out)
	}
}

// TestResetAcrossExit checks that a print and a clear of its map are not combined if there is an exit
// between them: the clear is never handled, and the map is printed at the end.
func TestResetAcrossExit(t *testing.T) {
	for _, c := range []struct {
		queue [][]byte
		want  string
	}{
		{[][]byte{testRecord(testPrintf, 1), testRecord(testOtherClear, 0), testRecord(testClear, 0)}, "clear"},
		{[][]byte{testRecord(testExit, 0), testRecord(testClear, 0)}, ""},
		{[][]byte{testRecord(testPrintf, 1), testRecord(testExit, 0), testRecord(testClear, 0)}, ""},
		{[][]byte{testRecord(testPrintMap, 0), testRecord(testClear, 0)}, ""},
	} {
		s, _ := testSession(t, c.queue...)
		before := len(s.reader.events.queue)
		if got := s.front.nextReset(&s.manifest.Events[testPrintMap]); got != c.want {
			t.Errorf("output %q, want %q", got, c.want)
		}
		after := 0
		for s.reader.events.next() != nil {
			after++
		}
		if c.want == "" && after != before {
			t.Errorf("%d of %d records left", after, before)
		}
	}
}

// TestFailedReading checks that a run whose events could not be read to the end prints what was counted, and fails.
func TestFailedReading(t *testing.T) {
	s, out := testSession(t, testRecord(testPrintf, 1))
	s.maps, s.failed = &mapTable{manifest: s.manifest}, errors.New("cannot read")
	status, err := s.finish()
	if status != 1 || err != s.failed || out.String() != "1\n\n\n" {
		t.Errorf("status %d, %v, output %q", status, err, out)
	}
}
