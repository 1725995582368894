// SPDX-License-Identifier: Apache-2.0

// Package manifest reads and writes manifests: what a loader must know about an object beyond the ELF file. It is the
// public package for other modules; docs/manifest.md describes the format and each field.
package manifest

import "btc/internal/manifest"

// Version is the version of the format that this package writes. It reads all files with the same major version.
const Version = manifest.Schema

// Manifest is the content of a manifest file.
type Manifest = manifest.Manifest

// The parts of a manifest.
type (
	Attach    = manifest.Attach
	Config    = manifest.Config
	Event     = manifest.Event
	Field     = manifest.Field
	Layout    = manifest.Layout
	Loss      = manifest.Loss
	Map       = manifest.Map
	MapNames  = manifest.MapNames
	MapParams = manifest.MapParams
	Object    = manifest.Object
	Param     = manifest.Param
	Pos       = manifest.Pos
	Program   = manifest.Program
	Script    = manifest.Script
)

// Parse parses and validates a manifest, which may come from an untrusted source.
func Parse(data []byte) (*Manifest, error) { return manifest.Parse(data) }
