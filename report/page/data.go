// SPDX-License-Identifier: Apache-2.0

package page

import (
	"strconv"
	"time"
)

// Data is what a page shows of a recording. Strings may contain anything that Printable leaves: the page shows them as text only.
// Times are in milliseconds since the start of the run.
type Data struct {
	File   string `json:"file"` // of the recording
	Script Script `json:"script"`

	Host     string   `json:"host,omitempty"`
	Kernel   string   `json:"kernel,omitempty"`
	Arch     string   `json:"arch,omitempty"`
	Object   string   `json:"object,omitempty"` // SHA-256
	Compiler string   `json:"compiler,omitempty"`
	Params   []Param  `json:"params,omitempty"`
	Hosts    []string `json:"hosts,omitempty"`  // of a merged report
	Merged   bool     `json:"merged,omitempty"` // of several hosts
	ByHost   bool     `json:"byHost,omitempty"` // the first part of each key is the host
	Attached int      `json:"attached,omitempty"`

	Started  float64 `json:"started"` // milliseconds since 1970
	Offset   int     `json:"offset"`  // of the host's time zone, in seconds
	Zone     string  `json:"zone,omitempty"`
	Duration float64 `json:"duration"`
	Ended    bool    `json:"ended"`          // the recording has the end of the run
	Part     string  `json:"part,omitempty"` // of the run that was asked for, in words

	Losses   []Loss    `json:"losses,omitempty"`
	Coverage []string  `json:"coverage,omitempty"` // probes that the budget detached
	Messages []Message `json:"messages,omitempty"`
	Maps     []*Map    `json:"maps"`
	Events   *Events   `json:"events,omitempty"`
	Frames   []Frame   `json:"frames,omitempty"` // of all trees
}

// Script is the script of a run, and what its clauses produce.
type Script struct {
	File    string   `json:"file"`
	Source  string   `json:"source"`
	Clauses []Clause `json:"clauses,omitempty"`
}

// Clause is a clause of a script.
type Clause struct {
	Line   int      `json:"line"` // the first one
	End    int      `json:"end"`  // the last one
	Probes []string `json:"probes"`
	Maps   []string `json:"maps,omitempty"` // names of the maps that it changes
	Calls  []int    `json:"calls,omitempty"`
}

// Param is a parameter of a run.
type Param struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Loss is a number of losses with their cause.
type Loss struct {
	Cause string `json:"cause"`
	N     Number `json:"n"`
}

// Message is a message of the run.
type Message struct {
	At    float64 `json:"at"`
	Text  string  `json:"text"`
	Error bool    `json:"error,omitempty"`
	Line  int     `json:"line,omitempty"`
}

// Frame is a name in a tree.
type Frame struct {
	Name string `json:"name"`
	Kind string `json:"kind"` // l (part of the key), u (user), k (kernel), i (inlined)
}

// Map is a map over time. The values of a column are what was added in its interval, or, with Level, what the map had at its end.
// The sum of all columns is what the run found.
type Map struct {
	Name     string     `json:"name"`
	Shape    string     `json:"shape"`
	Unit     string     `json:"unit,omitempty"`
	Help     string     `json:"help,omitempty"`
	Line     int        `json:"line,omitempty"` // where the script first adds to it
	Scalar   bool       `json:"scalar,omitempty"`
	Host     bool       `json:"host,omitempty"`    // the first part of the key is the host
	Scratch  bool       `json:"scratch,omitempty"` // the script deletes what it has: state of its own
	Level    bool       `json:"level,omitempty"`
	Interval float64    `json:"interval,omitempty"` // tseries: milliseconds of a column
	Joined   int        `json:"joined,omitempty"`   // number of intervals of the run in a column, if there are several
	Keys     []*Key     `json:"keys,omitempty"`
	Rows     int        `json:"rows"`
	Cells    int        `json:"cells"`            // values in all columns
	Texts    []string   `json:"texts,omitempty"`  // values that are not numbers, as last shown
	Bounds   [][2]Bound `json:"bounds,omitempty"` // of the buckets of a histogram, inclusive
	Decimal  bool       `json:"decimal,omitempty"`
	Times    []float64  `json:"times"` // the end of each column
	Columns  []Column   `json:"columns"`
	Tree     *Tree      `json:"tree,omitempty"`
	Omitted  *Omitted   `json:"omitted,omitempty"`
	Cut      *CutStacks `json:"cut,omitempty"`
	Events   bool       `json:"events,omitempty"` // it is made of stacks that the script printed: it has Samples in place of Columns
	Samples  *Samples   `json:"samples,omitempty"`
}

// Samples are stacks that the script printed, in order of time.
type Samples struct {
	T       []int    `json:"t"` // time in microseconds, each as the difference to the one before
	Row     []int    `json:"r"`
	A       []Number `json:"a,omitempty"`     // values; none: each is 1
	Clock   bool     `json:"clock,omitempty"` // the script printed the times; otherwise they are when btrun read the events
	Omitted int      `json:"omitted,omitempty"`
}

// CutStacks counts the values whose stacks are not whole.
type CutStacks struct {
	Depth  Number `json:"depth,omitempty"`  // have as many frames as the script asks for
	Unwind Number `json:"unwind,omitempty"` // could not be unwound further
	Lost   Number `json:"lost,omitempty"`   // there was no room for the stack
	Of     Number `json:"of"`
}

// Omitted are the elements of a map that the page does not have.
type Omitted struct {
	Rows  int    `json:"rows"`
	Value Number `json:"value"` // their sum
}

// Key is a part of the key of all rows.
type Key struct {
	Name    string   `json:"name"`
	Numeric bool     `json:"numeric,omitempty"`
	Texts   []string `json:"texts"` // each once
	At      []int    `json:"at"`    // index in Texts, for each row
}

// Column has the values of an interval, in order of rows and buckets.
type Column struct {
	Rows    []int    `json:"r"` // each as the difference to the one before it
	A       []Number `json:"a"` // the value, or the sum of avg and stats
	Count   []Number `json:"n,omitempty"`
	Buckets []int    `json:"b,omitempty"`
}

// Tree has the stacks of the keys of a map: its nodes from the root on, each followed by its children in order of name.
type Tree struct {
	Depth []int `json:"depth"` // 0: a child of the root, which is not in the list
	Frame []int `json:"frame"` // index in Data.Frames
	Leaf  []int `json:"leaf"`  // for each row, the node of its innermost frame; -1: none
}

// Events are the lines that the script printed.
type Events struct {
	Calls   []Call   `json:"calls"`
	Counts  []int    `json:"counts"` // lines of each call
	Texts   []string `json:"texts"`  // each once
	Hosts   []string `json:"hosts,omitempty"`
	T       []int    `json:"t"` // time in microseconds, as the difference to the one before
	Call    []int    `json:"c"` // index in Calls
	Text    []int    `json:"x"` // index in Texts
	Host    []int    `json:"h,omitempty"`
	Took    []Number `json:"d,omitempty"`     // nanoseconds; -1: unknown
	Names   []string `json:"names,omitempty"` // of processes
	Who     []int    `json:"w,omitempty"`     // index in Names; -1: unknown
	Omitted int      `json:"omitted,omitempty"`
}

// Call is a call of the script that prints.
type Call struct {
	Kind string `json:"kind"`
	Line int    `json:"line"`
}

// Number is an integer. The JSON of those that a number of JavaScript cannot represent is a string.
type Number struct {
	Value  uint64
	Signed bool
}

const exact = 1 << 53

// MarshalJSON returns a number or a string.
func (n Number) MarshalJSON() ([]byte, error) {
	if i := int64(n.Value); n.Signed && i < 0 {
		if i < -exact {
			return append(strconv.AppendInt([]byte{'"'}, i, 10), '"'), nil
		}
		return strconv.AppendInt(nil, i, 10), nil
	}
	if n.Value > exact {
		return append(strconv.AppendUint([]byte{'"'}, n.Value, 10), '"'), nil
	}
	return strconv.AppendUint(nil, n.Value, 10), nil
}

// Bound is a bound of a bucket; nil: none.
type Bound *int64

// Milliseconds returns a duration as the page has it, in whole microseconds.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
