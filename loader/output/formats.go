// SPDX-License-Identifier: Apache-2.0

package output

import "strings"

// Format is an output format.
type Format struct {
	Name    string
	Help    string // description for the list of options; "" if the name is enough
	JSON    bool   // the output is JSON, in which control characters of strings are escaped
	Metrics bool   // maps are metrics
	// Document: each snapshot, and the end, is a whole document that replaces the previous one.
	Document bool
	// Records: the output is a recording, which begins with a head (AppendHead).
	Records bool
	// Profile: the output is the profile of one map (profiles.Find).
	Profile bool
	Binary  bool // not for terminals
	New     func(*Run) Sink
}

// Formats are the values of the option -f. The first is the default.
var Formats = []*Format{&Text, &json, &json2, &prometheus, &openmetrics, &otlp, &folded, &pprof}

// Find returns the format with a name, or nil.
func Find(name string) *Format {
	for _, f := range append(Formats[:len(Formats):len(Formats)], &json2Version1) {
		if f.Name == name {
			return f
		}
	}
	return nil
}

// Names returns the names of the formats.
func Names() []string {
	var names []string
	for _, f := range Formats {
		names = append(names, f.Name)
	}
	return names
}

// MetricNames returns the names of the formats of metrics.
func MetricNames() []string {
	var names []string
	for _, f := range Formats {
		if f.Metrics {
			names = append(names, f.Name)
		}
	}
	return names
}

// Usage lists the formats in a sentence.
func Usage() string {
	rows := Names()
	for i, f := range Formats {
		if f.Help != "" {
			rows[i] += " (" + f.Help + ")"
		}
	}
	last := len(rows) - 1
	return strings.Join(rows[:last], ", ") + " or " + rows[last]
}
