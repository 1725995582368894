// SPDX-License-Identifier: Apache-2.0

// Package cost estimates the cost of an event without running anything. It takes an object, a
// target and a table of measured costs, and returns nanoseconds for each program: for the path on
// which all filters pass and nothing fails, and for the shortest path. It reads nothing from the
// host.
package cost

import (
	_ "embed"
	"encoding/json"
)

// Table holds costs measured on one machine, in ns.
type Table struct {
	Measured Machine `json:"measured"`
	// Insn is the cost of an instruction on registers, Memory of a load or store, Atomic of an
	// atomic addition, Call of a call of a subprogram.
	Insn   float64 `json:"insn"`
	Memory float64 `json:"memory"`
	Atomic float64 `json:"atomic"`
	Call   float64 `json:"call"`
	// Helpers are the costs of helpers other than map operations, by the number of bytes that they
	// copy. A single point applies to any number.
	Helpers map[string][]Point `json:"helpers"`
	// Maps are the costs of map operations, by the type of the map and the size of its key in
	// bytes.
	Maps map[string]map[string][]Point `json:"maps"`
	// Probes are the costs of an event without its program.
	Probes []Probe `json:"probes"`
	// Statistics is the cost per run of the kernel's run-time statistics, which --budget needs.
	Statistics float64 `json:"statistics"`
}

// Machine describes where a table was measured.
type Machine struct {
	Kernel  string `json:"kernel"`
	CPU     string `json:"cpu"`
	Arch    string `json:"arch"`
	Command string `json:"command"` // command that measured the table
}

// Point is the cost at a number of bytes.
type Point struct {
	Bytes int     `json:"bytes,omitempty"`
	NS    float64 `json:"ns"`
}

// Probe is the cost of a kind of probe. If NS is nil, it is unknown, and Note is the reason.
type Probe struct {
	Kind string   `json:"kind"`
	NS   *float64 `json:"ns"`
	Note string   `json:"note,omitempty"`
}

//go:embed table.json
var embedded []byte

// Default returns the embedded table.
func Default() (*Table, error) {
	t := new(Table)
	return t, json.Unmarshal(embedded, t)
}

// at returns the cost at a number of bytes, by linear interpolation and extrapolation.
func at(points []Point, bytes int) float64 {
	if len(points) == 1 {
		return points[0].NS
	}
	i := 1
	for i < len(points)-1 && points[i].Bytes < bytes {
		i++
	}
	a, b := points[i-1], points[i]
	if bytes <= a.Bytes {
		return a.NS
	}
	return a.NS + (b.NS-a.NS)*float64(bytes-a.Bytes)/float64(b.Bytes-a.Bytes)
}
