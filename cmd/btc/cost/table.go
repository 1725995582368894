// SPDX-License-Identifier: Apache-2.0

// Package cost estimates what an event costs, before anything runs.
//
// It takes an object, a target and a table of measured costs, and returns nanoseconds for each
// program: of the path that an event takes when all filters pass and nothing fails, and of the
// shortest one. It reads nothing of the host and runs nothing.
package cost

import (
	_ "embed"
	"encoding/json"
)

// Table is what one machine measured. Times are in ns.
type Table struct {
	Measured Machine `json:"measured"`
	// Insn is an instruction in registers, Memory a load or store, Atomic an atomic addition, Call a
	// call of a subprogram.
	Insn   float64 `json:"insn"`
	Memory float64 `json:"memory"`
	Atomic float64 `json:"atomic"`
	Call   float64 `json:"call"`
	// Helpers are the calls of helpers but for those of maps, by the bytes that they copy; one point
	// is for any number.
	Helpers map[string][]Point `json:"helpers"`
	// Maps are operations by the type of the map and the size of its key in bytes.
	Maps map[string]map[string][]Point `json:"maps"`
	// Probes are what an event costs besides its program.
	Probes []Probe `json:"probes"`
	// Statistics is what the kernel's run-time statistics, which --budget needs, add to a run.
	Statistics float64 `json:"statistics"`
}

// Machine is where a table was measured.
type Machine struct {
	Kernel  string `json:"kernel"`
	CPU     string `json:"cpu"`
	Arch    string `json:"arch"`
	Command string `json:"command"` // that measures it
}

// Point is a cost at a number of bytes.
type Point struct {
	Bytes int     `json:"bytes,omitempty"`
	NS    float64 `json:"ns"`
}

// Probe is the cost of a kind of probe. It is not known where NS is nil: Note says why.
type Probe struct {
	Kind string   `json:"kind"`
	NS   *float64 `json:"ns"`
	Note string   `json:"note,omitempty"`
}

//go:embed table.json
var embedded []byte

// Default is the table that btc has.
func Default() (*Table, error) {
	t := new(Table)
	return t, json.Unmarshal(embedded, t)
}

// at is the cost at a number of bytes, between and beyond the points on straight lines.
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
