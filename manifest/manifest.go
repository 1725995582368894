// SPDX-License-Identifier: Apache-2.0

// Package manifest reads and writes manifests: what a loader must know about an object beyond the ELF file. It is the
// public package for other modules; docs/manifest.md describes the format. Its types are copies of those that btc and
// btrun use, made by a test.
package manifest

import (
	"bytes"
	"encoding/json"
	"slices"
	"unicode/utf8"

	"btc/internal/manifest"
)

// Version is the version of the format that this package writes. It reads all files with the same major version.
const Version = manifest.Schema

// Parse parses and validates a manifest, which may come from an untrusted source: sizes, offsets and counts of the
// result need no further checks.
func Parse(data []byte) (*Manifest, error) {
	checked, err := manifest.Parse(data)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(checked.File())
	if err != nil {
		return nil, err
	}
	m := new(Manifest)
	if err := json.Unmarshal(text, m); err != nil {
		return nil, err
	}
	for i := range m.Events {
		if e := &m.Events[i]; len(e.FormatBytes) > 0 {
			e.Format, e.FormatBytes = string(e.FormatBytes), nil
		}
	}
	return m, nil
}

// Marshal validates a manifest and returns its file, as btc writes it. The same manifest makes the same bytes.
func Marshal(m *Manifest) ([]byte, error) {
	file := *m
	file.Events = slices.Clone(m.Events)
	for i := range file.Events {
		if e := &file.Events[i]; !utf8.ValidString(e.Format) { // JSON strings are UTF-8
			e.Format, e.FormatBytes = "", []byte(e.Format)
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(&file); err != nil {
		return nil, err
	}
	if _, err := manifest.Parse(b.Bytes()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
