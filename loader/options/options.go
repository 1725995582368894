// SPDX-License-Identifier: Apache-2.0

// Package options is the option table of btrun, and the options of a run that the table sets. Neither depends on Linux,
// so that btc, which passes these options on and generates the manual of both programs, uses the same table on any system.
package options

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"btc/internal/aggregate"
	"btc/internal/color"
	"btc/internal/option"
	"btc/loader/permit"
)

// Values holds the values of btrun's options: those of a run and of its report, and what only the command line has.
type Values struct {
	Run
	Report
	When    string // of --color
	Output  string
	Record  string // a file
	JSON2   string // version
	Rotate  string // a size
	Keep    int
	Memory  string   // a size: MaxMemory
	Share   string   // of one CPU: Budget
	Keys    []string // files with keys: Signers
	Remote  bool
	Results string // file of --reload
	Request int    // process of --request-reload
	// Parameters is the file of --parameters.
	Parameters string
	Modes      []string // Mode, as often as given
	Inspect    bool
	List       bool
	Patterns   []string // patterns of --list=PATTERN
	Tools      bool
	Capture    string
	Help       bool
	Version    bool
}

// Values of Run.Unwind; "" is UnwindAuto.
const (
	UnwindAuto  = "auto"
	UnwindFP    = "fp"
	UnwindDwarf = "dwarf"
)

// Unwinds lists the values of Run.Unwind.
var Unwinds = []string{UnwindAuto, UnwindFP, UnwindDwarf}

// Defaults of Run.RawProcess and Run.RawSecond.
const (
	RawProcess = 64
	RawSecond  = 500
)

// setRawStacks parses PROCESS,SECOND; "0" means none.
func (v *Values) setRawStacks(text string) (err error) {
	process, second, _ := strings.Cut(text, ",")
	if text == "0" {
		process, second = "-1", "-1"
	}
	v.RawProcess, err = strconv.Atoi(process)
	n, err2 := strconv.Atoi(second)
	v.RawSecond = n
	if err != nil || err2 != nil || text != "0" && (min(v.RawProcess, n) < 1 || max(v.RawProcess, n) > maxRawStacks) {
		return fmt.Errorf("--raw-stacks: %q is not two numbers PROCESS,SECOND from 1 to %d, or 0", text, maxRawStacks)
	}
	return nil
}

const maxRawStacks = 100_000

// Values of Run.Symbolize; "" is SymbolizeNow.
const (
	SymbolizeNow   = "now"
	SymbolizeLater = "later"
)

// Symbolizes lists the values of Run.Symbolize.
var Symbolizes = []string{SymbolizeNow, SymbolizeLater}

// Groups of options.
const (
	tracing     = "What to trace"
	writing     = "Output"
	permissions = "Permissions and limits"
	service     = "As a service"
	other       = "Instead of tracing"
)

// Travels reports whether options of a group select what to trace or what is allowed: btc fan passes them on to other
// hosts.
func Travels(group string) bool { return group == tracing || group == permissions }

// Table returns the options of btrun, which store their values in v.
func (v *Values) Table() option.Table {
	return option.Table{
		{Name: "pid", Short: "p", Value: "PID", Repeat: true, Group: tracing, To: v.setPIDs,
			Help: "trace this process only, or several: -p 12,34 or -p 12 -p 34; the run ends when the last one ends"},
		{Name: "follow-forks", Group: tracing, To: &v.FollowForks,
			Help: "with -p or -c: also trace the processes that they start, and no others; the run ends with the last of them"},
		{Name: "cgroup", Value: "PATH|ID", Repeat: true, Group: tracing, To: &v.Cgroups,
			Help: "trace only tasks in this cgroup (version 2) or below it; may be repeated"},
		{Name: "container", Value: "ID|NAME", Repeat: true, Group: tracing, To: &v.Containers,
			Help: "trace only this container of containerd, CRI-O, docker or podman, or with --pod this container of the pod; may be repeated; the run ends when the last one ends"},
		{Name: "pod", Value: "UID|NAMESPACE/NAME", Repeat: true, Group: tracing, To: &v.Pods,
			Help: "trace only this pod; may be repeated; the run ends when the last one ends"},
		{Name: "wait", Group: tracing, To: &v.Wait,
			Help: "wait for a container or pod that does not exist yet"},
		{Name: "command", Short: "c", Aliases: "cmd", Value: "COMMAND", Group: tracing, To: v.setCommand,
			Help: "run COMMAND and trace until it ends"},
		{Name: "timeout", Value: "TIME", Group: tracing, To: v.setTime("timeout", &v.Timeout),
			Help: "end the run after TIME, such as 10s or 5m"},
		{Name: "max-events", Value: "N", Group: tracing, To: v.setMaxEvents,
			Help: "end the run after N events with output, such as printf() and print()"},
		{Name: "btf", Value: "FILE|DIR", Group: tracing, To: &v.BTF,
			Help: "the kernel's types, for kernels without BTF: a BTF file, an ELF file with BTF, or a directory with RELEASE.btf or in btfhub's layout"},
		{Name: "traceable-functions", Value: "FILE", Group: tracing, To: v.setFunctions,
			Help: "names of the kernel functions that can be probed, one per line, instead of tracefs' available_filter_functions"},
		{Name: "unwind", Value: "HOW", Group: tracing, Choices: option.Choices(Unwinds...), To: &v.Unwind,
			Help: "how user stacks are found: dwarf by the unwind tables of programs and libraries, fp by frame pointers, auto those of dw_ustack by tables where that is possible on this host, and those of ustack by frame pointers; default: auto"},
		{Name: "unwind-cache", Value: "DIR", Group: tracing, To: &v.UnwindCache,
			Help: "read unwind tables from DIR, which only root can write, before making them, and write those that were made into it; packs of btc unwind pack are also read"},
		{Name: "raw-stacks", Value: "PROCESS,SECOND", Group: tracing, To: v.setRawStacks,
			Help: "how many stacks of a new process or file programs may send for btrun to unwind, with up to 16 KB of the process's memory each: of a process, and of all in a second; 0: none, so that they are cut; default: 64,500"},

		{Name: "output", Short: "o", Value: "FILE", Group: writing, To: &v.Output,
			Help: "write the script's output to FILE"},
		{Name: "format", Short: "f", Value: "FORMAT", Group: writing, Choices: option.Choices(formatNames()...), To: v.setFormat, Help: "format of the output: " + formatUsage() + "; with --inspect json prints one JSON object"},
		{Name: "record", Value: "FILE", Group: writing, To: &v.Record,
			Help: "also write a recording of the run to FILE, from which btc replay prints the output again, in any format"},
		{Name: "symbolize", Value: "WHEN", Group: writing, Choices: option.Choices(Symbolizes...), To: &v.Symbolize,
			Help: "when the functions in user stacks get names: now, or later by btc symbolize, from the build ids in the recording; default: now"},
		{Name: "json2", Value: "VERSION", Group: writing, Choices: option.Choices("1", "2"), To: &v.JSON2,
			Help: "write -f json2, in this version; default: 2"},
		{Name: "every", Value: "TIME", Group: writing, To: v.setEvery,
			Help: "show all maps every TIME, such as 15s, without clearing them; for a format of documents, -o FILE contains the last one"},
		{Name: "max-series", Value: "N", Group: writing, To: setCount("--max-series", &v.MaxSeries, 1, 1<<24),
			Help: "maximum number of series per metric; further keys are summed as \"other\"; default: 10000"},
		{Name: "buckets", Value: "RANGE", Group: writing, To: v.setBuckets, Help: "with metrics: " + BucketsHelp},
		{Name: "map", Value: "NAME", Group: writing, To: &v.Map,
			Help: "with -f folded or -f pprof: the map to write, if several have a stack in their keys"},
		{Name: "rotate", Value: "SIZE", Group: writing, To: &v.Rotate,
			Help: "start a new file of -o at SIZE, such as 100M: FILE becomes FILE.1, and so on; if the disk is full, lines are dropped"},
		{Name: "keep", Value: "N", Group: writing, To: setCount("--keep", &v.Keep, 1, 1000),
			Help: "number of files that --rotate keeps besides FILE; default: 5"},
		{Name: "buffer", Short: "B", Value: "MODE", Group: writing, Choices: option.Choices("line", "full", "none"), To: &v.Buffer, Help: "buffering of the output: line, full or none; default: line"},
		{Name: "top", Value: "N", Group: writing, To: setCount("--top", &v.Top, 1, 1<<30),
			Help: "print only the N elements of each map with the largest values, largest first; with --every on a terminal, update in place"},
		{Name: "sort", Value: "ORDER", Group: writing, Choices: option.Choices("ascending", "descending", "key"), To: &v.Sort, Help: "order of the elements of maps: ascending or descending by value, or by key; default: ascending"},
		{Name: "summary", Group: writing, To: &v.Summary,
			Help: "print the number of values, their average and quantiles below each histogram"},
		{Name: "rate", Group: writing, To: &v.Rate,
			Help: "with --every, print the rate per second since the last time beside what count(), sum() and histograms have counted"},
		{Name: "names", Group: writing, To: &v.Names,
			Help: "in keys of maps, print the name of the container after the ID of a cgroup (builtin cgroup)"},
		color.Option(&v.When).In(writing),
		{Name: "quiet", Short: "q", Group: writing, To: &v.Quiet,
			Help: "do not print the number of attached probes"},
		{Name: "verbose", Short: "v", Group: writing, To: &v.Verbose,
			Help: "show the kernel's verifier log of each program; with --list, the arguments of probes"},
		{Name: "why", Value: "TIME", Optional: true, Group: writing, To: v.setWhy,
			Help: "at the end and on SIGUSR1, report how often each clause ran, why it did not go on, and the first cause of missing output; with TIME, such as 10s, also when nothing was printed for that long"},
		{Name: "no-warnings", Group: writing, To: &v.NoWarnings,
			Help: "suppress all warnings"},
		{Name: "raw", Group: writing, To: &v.Raw,
			Help: "do not escape control characters in strings on a terminal"},

		{Name: "allow", Value: "NAME", Repeat: true, Group: permissions, Choices: allowed(), To: v.Allow.Strings(),
			Help: "allow one kind of action of the object; may be repeated:"},
		{Name: "unsafe", Group: permissions, To: &v.Unsafe,
			Help: "allow all of these actions"},
		{Name: "verify", Value: "KEYS", Repeat: true, Group: permissions, To: &v.Keys,
			Help: "refuse an object that is not signed by a key of the file KEYS, a minisign public key or OpenSSH's allowed_signers; may be repeated: the key is in one of them"},
		{Name: "max-memory", Value: "SIZE", Group: permissions, To: &v.Memory,
			Help: "refuse an object whose maps need more memory when full, such as 512M; default: half of this machine's memory"},

		{Name: "budget", Value: "PERCENT", Group: permissions, To: &v.Share,
			Help: "detach the most expensive probe while all programs together take more than PERCENT of one CPU, such as 1%, in two windows of 10 s in a row"},

		{Name: "parameters", Value: "FILE", Group: service, To: &v.Parameters,
			Help: "take more parameters of the script from the line PARAMETERS=... of FILE, if it exists"},
		{Name: "reload", Value: "FILE", Optional: true, Group: service, To: v.setReload,
			Help: "on SIGUSR2, read the object and the file of --parameters again and replace the running object: each event is counted by one of the two; FILE gets the result, for --request-reload"},
		{Name: "request-reload", Value: "PID", Group: service, Alone: true, With: "reload", To: setCount("--request-reload", &v.Request, 1, 1<<22),
			Help: "with --reload=FILE: make the btrun with this process ID and FILE reload, and wait for the result"},

		{Name: "dry-run", Group: other, To: &v.DryRun,
			Help: "load the programs, which the kernel then verifies, but attach and run nothing"},
		{Name: "test", Group: other, To: v.addMode("test"),
			Help: "run the test probes and attach nothing; the exit status is 1 if one fails"},
		{Name: "bench", Group: other, To: v.addMode("bench"),
			Help: "run the benchmark probes and attach nothing"},
		{Name: "mode", Value: "MODE", Group: other, Choices: option.Choices("test", "bench"), To: &v.Modes,
			Help: "run as with --test (test) or --bench (bench)"},
		{Name: "inspect", Group: other, Alone: true, With: "format raw verbose verify", To: &v.Inspect,
			Help: "list what the object may do, and which permissions it needs"},
		{Name: "remote", Group: other, To: &v.Remote,
			Help: "for btc fan: describe this host, read the object (-), write -f json2, and end when standard input ends"},
		{
			Name:     "list",
			Short:    "l",
			Value:    "PATTERN",
			Optional: true,
			Group:    other,
			Alone:    true,
			With:     "pid verbose quiet raw traceable-functions no-warnings",
			To:       v.setList,
			Help:     `list what can be attached to on this host. Patterns, such as "kprobe:tcp_*", "usdt:/bin/x:*" or "*sched*", can be operands, too, and several separated by commas`,
		},
		{Name: "tools", Group: other, Alone: true, To: &v.Tools,
			Help: "list the tools that btrun NAME runs, those of /usr/share/btc/tools and of the directories in BTRUN_PATH"},
		{Name: "capture", Value: "FILE", Group: other, Alone: true, To: v.setCapture,
			Help: "write the description of this kernel to FILE, a tar archive for btc target import"},
		{Name: "help", Short: "h", Group: other, To: &v.Help,
			Help: "print this help; with OBJECT.o the script's own parameters"},
		{Name: "version", Short: "V", Group: other, To: &v.Version,
			Help: "print the version"},
	}
}

// allowed returns the values of --allow.
func allowed() []option.Choice {
	var all []option.Choice
	for _, p := range permit.All {
		name := string(p.Name)
		if p.Path {
			name += "=DIR"
		}
		all = append(all, option.Choice{Name: name, Help: p.Help})
	}
	return all
}

// BucketsHelp describes the values of --buckets.
const BucketsHelp = "bounds of histograms of hist(), such as 1us..10s, rounded outward to powers of two, or 1us..10s/2 with every second one; default: all"

func (v *Values) setBuckets(text string) error {
	_, err := aggregate.ParseRange(text)
	if err != nil {
		return fmt.Errorf("--buckets: %w", err)
	}
	v.Buckets = text
	return nil
}

// maxPIDs is the maximum number of processes on a command line: each takes a descriptor while it
// runs.
const maxPIDs = 1024

// setPIDs adds processes, separated by commas.
func (v *Values) setPIDs(list string) error {
	for text := range strings.SplitSeq(list, ",") {
		if err := v.setPID(text); err != nil {
			return err
		}
	}
	return nil
}

func (v *Values) setPID(text string) error {
	const most = 1 << 22 // PID_MAX_LIMIT
	n, err := strconv.ParseUint(text, 10, 64)
	switch { // the errors have bpftrace's wording
	case errors.Is(err, strconv.ErrRange) || err == nil && (n == 0 || n > most):
		//lint:ignore ST1005 bpftrace's words
		return fmt.Errorf("Pid out of range: %s", text)
	case err != nil && text != "" && text[0] >= '0' && text[0] <= '9':
		//lint:ignore ST1005 bpftrace's words
		return fmt.Errorf("Failed to parse pid: invalid trailing bytes: %s", text)
	case err != nil:
		//lint:ignore ST1005 bpftrace's words
		return fmt.Errorf("Failed to parse pid: invalid integer: %s", text)
	}
	if len(v.PIDs) >= maxPIDs {
		return fmt.Errorf("--pid: more than %d processes", maxPIDs)
	}
	v.PIDs = append(v.PIDs, int(n))
	return nil
}

// setTime returns the setter of an option whose value is a time.
func (v *Values) setTime(name string, to *time.Duration) func(string) error {
	return func(text string) error {
		d, err := time.ParseDuration(text)
		if err != nil || d < time.Millisecond {
			return fmt.Errorf("--%s: %q is not a time of at least 1ms, such as 500ms, 10s or 5m", name, text)
		}
		*to = d
		return nil
	}
}

func (v *Values) setWhy(text string) error {
	v.Why = true
	if text == "" {
		return nil
	}
	return v.setTime("why", &v.Silence)(text)
}

func (v *Values) setMaxEvents(text string) (err error) {
	if v.MaxEvents, err = strconv.ParseUint(text, 10, 63); err != nil || v.MaxEvents == 0 {
		return fmt.Errorf("--max-events: %q is not a number of events", text)
	}
	return nil
}

func (v *Values) setFunctions(path string) error {
	if _, err := os.Stat(path); err != nil { // it is opened only if the policy of the host permits it
		return fmt.Errorf("--traceable-functions: %w", err)
	}
	v.Functions = path
	return nil
}

func (v *Values) setCommand(text string) error {
	if strings.TrimSpace(text) == "" {
		return errors.New("-c: the command is empty")
	}
	v.Command = text
	return nil
}

func (v *Values) setFormat(text string) error {
	if names := formatNames(); names != nil && !slices.Contains(names, text) {
		//lint:ignore ST1005 bpftrace's words
		return fmt.Errorf("Invalid output format %q\nValid formats: '%s'", text, strings.Join(names, "', '"))
	}
	v.Format = text
	return nil
}

// minEvery is the shortest time between two snapshots.
const minEvery = 100 * time.Millisecond

func (v *Values) setEvery(text string) error {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return fmt.Errorf("--every: %q is not a time such as 15s or 1m", text)
	case d < minEvery || d > 366*24*time.Hour:
		return fmt.Errorf("--every: %s is not between %s and a year", text, minEvery)
	}
	v.Every = d
	return nil
}

// setCount returns the setter of a number that must be within bounds.
func setCount(option string, to *int, least, most int) func(string) error {
	return func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n < least || n > most {
			return fmt.Errorf("%s: %q is not a number from %d to %d", option, text, least, most)
		}
		*to = n
		return nil
	}
}

func (v *Values) addMode(mode string) func(string) error {
	return func(string) error { v.Modes = append(v.Modes, mode); return nil }
}

func (v *Values) setList(pattern string) error {
	v.List = true
	if pattern != "" {
		v.Patterns = append(v.Patterns, pattern)
	}
	return nil
}

func (v *Values) setReload(file string) error {
	v.Reload, v.Results = true, file
	return nil
}

func (v *Values) setCapture(path string) error {
	if path == "" {
		return errors.New("--capture: the file's name is empty")
	}
	v.Capture = path
	return nil
}

// inCgroups reports whether only some cgroups are traced.
func (v *Values) inCgroups() bool { return len(v.Cgroups)+len(v.Containers)+len(v.Pods) > 0 }

// Check returns an error for values that cannot be combined.
func (v *Values) Check() error {
	if len(v.PIDs) > 0 && v.Command != "" {
		//lint:ignore ST1005 bpftrace's words
		return errors.New("Cannot use both -c and -p.")
	}
	if v.FollowForks && len(v.PIDs) == 0 && v.Command == "" {
		return errors.New("--follow-forks needs processes: name them with -p, or start one with -c")
	}
	if len(v.Modes) > 0 && v.Every != 0 {
		return fmt.Errorf("--%s shows no maps: it cannot be combined with --every", v.Modes[0])
	}
	if len(v.Modes) > 0 && v.Share != "" {
		return fmt.Errorf("--%s attaches nothing: it cannot be combined with --budget", v.Modes[0])
	}
	if v.Wait && len(v.Containers)+len(v.Pods) == 0 {
		return errors.New("--wait needs --container or --pod")
	}
	if v.Rate && v.Every == 0 {
		return errors.New("--rate is for what --every shows: name an interval, such as --every 1s")
	}
	if v.Rotate != "" && v.Output == "" && v.Record == "" {
		return errors.New("--rotate needs a file: name it with -o or --record")
	}
	if v.Record != "" && v.Record == v.Output {
		return errors.New("--record and -o name the same file: the recording of -f json2 is its output, so -o is enough")
	}
	for _, end := range []string{".gz", ".zst"} {
		if strings.HasSuffix(v.Record, end) {
			return fmt.Errorf("--record: btrun does not compress: write to %s, and compress it later with gzip or zstd; btc replay reads these files", strings.TrimSuffix(v.Record, end))
		}
	}
	if v.Symbolize == SymbolizeLater && (v.Record == "" && v.Format != "json2" && !v.Remote || v.JSON2 == "1") {
		return errors.New("--symbolize=later needs a recording for btc symbolize: --record FILE or -f json2")
	}
	if v.JSON2 != "" && v.Format != "" && v.Format != "json2" {
		return fmt.Errorf("--json2 is the version of -f json2: it cannot be combined with -f %s", v.Format)
	}
	if v.Keep != 0 && v.Rotate == "" {
		return errors.New("--keep needs --rotate")
	}
	if v.Request != 0 && v.Results == "" {
		return errors.New("--request-reload needs the file that the run writes: --reload=FILE")
	}
	if v.Reload && v.Record != "" {
		return errors.New("--reload cannot be combined with --record: a recording is of one object; -f json2 notes a reload")
	}
	if v.Reload && (v.Command != "" || v.FollowForks || len(v.Modes) > 0) {
		return errors.New("--reload cannot be combined with -c, --follow-forks, --test or --bench")
	}
	for _, mode := range v.Modes {
		if mode != v.Modes[0] {
			return fmt.Errorf("--%s cannot be combined with --%s", mode, v.Modes[0])
		}
	}
	if len(v.Modes) > 0 && (len(v.PIDs) > 0 || v.Command != "" || v.inCgroups()) {
		return fmt.Errorf("--%s attaches nothing: it cannot be combined with -p, -c or --cgroup", v.Modes[0])
	}
	return nil
}
