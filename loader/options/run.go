// SPDX-License-Identifier: Apache-2.0

package options

import (
	"io"
	"os"
	"time"

	"btc/loader/permit"
)

// Run has the options of a run. btrun's command line sets its fields, and loader/run reads them. btrace.Options is the
// same struct, with comments for its users: the fields of both must be the same, in the same order.
type Run struct {
	Args   []string
	Params map[string]string

	PID              int
	PIDs             []int
	FollowForks      bool
	Cgroups          []string
	Containers, Pods []string
	Wait             bool
	Command          string

	Allow       permit.Permissions
	Unsafe      bool
	Signers     []string
	MaxMemory   uint64
	Budget      float64
	BTF         string
	Functions   string
	Unwind      string
	UnwindCache string
	RawProcess  int
	RawSecond   int
	Symbolize   string
	Getenv      func(name string) string

	Timeout   time.Duration
	MaxEvents uint64
	DryRun    bool
	Mode      string
	Why       bool
	Silence   time.Duration

	DropEvents bool
	NoWarnings bool
	NoHelper   bool
	Reload     bool
	Process    *Process
}

// Process is what a run may do to the whole process; see btrace.Process.
type Process struct {
	// DropPrivileges makes the process irrevocably drop, once everything is attached, the
	// capabilities that the rest of the session does not need. Programs with cgo cannot do that.
	DropPrivileges bool
	// CreatesFiles keeps what creating files in directories of other users needs, because
	// Report.Out does that while the session runs.
	CreatesFiles bool
	// Alive, if it is not nil, is called at least once a second while the session handles events.
	Alive func()
	// Ending, if it is not nil, is called when it has handled the last event but those of the end programs.
	Ending func()
}

// Report has the options of what a run prints. btrace.Report is the same struct, like Run.
type Report struct {
	Out, Err io.Writer
	Format   string
	Buffer   string
	Every    time.Duration

	Top     int
	Sort    string
	Summary bool
	Rate    bool

	Names bool

	Object    string
	MaxSeries int
	Buckets   string
	Map       string

	Quiet, Verbose bool
	Raw            bool
	Color          bool
	Live           bool
	Keys           *os.File

	Blocks, ColorBlocks bool

	Hint, Progress func(text string)

	Record io.Writer
}
