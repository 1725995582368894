// SPDX-License-Identifier: Apache-2.0

package probe

import "slices"

// CountedEvent is an event of software and hardware probes.
type CountedEvent struct {
	Name   string
	Config uint64 // number of the event in the kernel's list (linux/perf_event.h)
	Period uint64 // default number of events between two runs of the program
}

// The events by name, aliases included, sorted.
var (
	softwareEvents = []CountedEvent{
		{"alignment-faults", 7, 1},
		{"bpf-output", 10, 1},
		{"context-switches", 3, 1000},
		{"cpu", 0, 1e6},
		{"cpu-clock", 0, 1e6},
		{"cpu-migrations", 4, 1},
		{"cs", 3, 1000},
		{"dummy", 9, 1},
		{"emulation-faults", 8, 1},
		{"faults", 2, 100},
		{"major-faults", 6, 1},
		{"minor-faults", 5, 100},
		{"page-faults", 2, 100},
		{"task-clock", 1, 1},
	}
	hardwareEvents = []CountedEvent{
		{"backend-stalls", 8, 1e6},
		{"branch-instructions", 4, 1e5},
		{"branch-misses", 5, 1e5},
		{"branches", 4, 1e5},
		{"bus-cycles", 6, 1e5},
		{"cache-misses", 3, 1e6},
		{"cache-references", 2, 1e6},
		{"cpu-cycles", 0, 1e6},
		{"cycles", 0, 1e6},
		{"frontend-stalls", 7, 1e6},
		{"instructions", 1, 1e6},
		{"ref-cycles", 9, 1e6},
	}
)

// Events returns the events that probes of a kind count, sorted by name; nil for other kinds.
func Events(kind string) []CountedEvent {
	switch kind {
	case Software:
		return softwareEvents
	case Hardware:
		return hardwareEvents
	}
	return nil
}

// EventNames returns the names of Events.
func EventNames(kind string) []string {
	var names []string
	for _, e := range Events(kind) {
		names = append(names, e.Name)
	}
	return names
}

// FindEvent returns an event that probes of a kind count, by its name.
func FindEvent(kind, name string) (CountedEvent, bool) {
	all := Events(kind)
	i := slices.IndexFunc(all, func(e CountedEvent) bool { return e.Name == name })
	if i < 0 {
		return CountedEvent{}, false
	}
	return all[i], true
}
