// SPDX-License-Identifier: Apache-2.0

package btrace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"btc/internal/probe"
	"btc/loader/host"
	"btc/loader/options"
	"btc/loader/run"
)

// Options control how an object is run. The zero value runs a script without parameters. The policy of the host
// (/etc/btrun/policy.json) always applies.
type Options struct {
	// Args are the values of the positional parameters $1, $2, ...
	Args []string
	// Params are the values of named parameters: getopt() in the script.
	Params map[string]string

	// PID limits probes to a process, and PIDs to several, if their kind can be limited. The
	// session ends when the last of the processes exits. If there are none, all processes are
	// traced.
	PID  int
	PIDs []int
	// FollowForks adds all processes that the processes of PIDs start. With a Command it limits the
	// probes to the command and the processes that it starts. The session ends when all of them
	// have exited.
	FollowForks bool
	// Cgroups limits probes to tasks in these cgroups of version 2 or below them. Each is given as
	// a path or an ID. The session ends when all of them have been removed. If there are none,
	// there is no limit.
	Cgroups []string
	// Containers limits probes to tasks in these containers, each given by its ID, a prefix of the
	// ID, or its name: NAME, POD/NAME or NAMESPACE/POD/NAME. Pods are Kubernetes pods, by UID or
	// NAMESPACE/NAME; if both are set, the containers are looked up in the pods. They are found by
	// the state files of the host's container runtimes. The session ends when all of them have
	// ended.
	Containers, Pods []string
	// Wait makes LoadContext wait for containers and pods that do not exist yet.
	Wait bool
	// Command is a program with arguments, separated by single spaces, that is started when
	// everything is attached; the session ends when it exits. Its process ID is the value of the
	// builtin cpid.
	Command string

	// Allow is what the script may do besides observing. Unsafe allows everything.
	Allow  Permissions
	Unsafe bool
	// Signers are the contents of files with trusted keys: public keys of minisign, and lines of OpenSSH's allowed_signers. The
	// object must be signed by one of them (see Open and ParseSigned); nil: it need not be signed. The policy of the host may
	// demand a signature, too. Load returns a SignatureError.
	Signers []string
	// MaxMemory limits the total size of all maps, in bytes; 0: half of this host's memory.
	MaxMemory uint64
	// Budget is the share of one CPU that the programs may use: 0.01 is 1 %; 0: no limit. When they
	// exceed it in two consecutive windows of 10 s, the most expensive probe is detached (see the
	// event Detached). Load fails if the kernel's run-time statistics are off and cannot be
	// enabled.
	Budget float64
	// BTF is a file or directory with the kernel's types, for kernels without their own.
	BTF string
	// Functions is a file with the names of the kernel functions that can be probed; "": use the
	// kernel's list.
	Functions string
	// Unwind is how user stacks are found: "dwarf" by the unwind tables of programs and libraries, "fp" by frame
	// pointers; "auto" or "" those of ustack by frame pointers, and those of dw_ustack by tables where that is possible on
	// this host, else by frame pointers, with a warning.
	Unwind string
	// UnwindCache is a directory of unwind tables by build id, which only root can change: tables are read from it, and
	// written into it after they were made.
	UnwindCache string
	// RawProcess and RawSecond are how many stacks of processes and files that are not known yet programs may send to be
	// unwound, with up to 16 KB of the process's memory each: of a process, and of all in a second. 0 means 64 and 500, and
	// -1 none.
	RawProcess, RawSecond int
	// Symbolize is when the functions in user stacks get names: "now" or "", or "later" by btc symbolize: frames then have the
	// build id of the file and the offset in it, and are not looked up. Those of files without a build id are.
	Symbolize string
	// Getenv returns environment variables that override settings of the script, such as
	// BPFTRACE_MAX_PROBES (os.Getenv for those of the process); nil: there are none.
	Getenv func(name string) string

	// Timeout ends the session this long after it was attached, and MaxEvents after this many
	// events with output; 0: no limit.
	Timeout   time.Duration
	MaxEvents uint64
	// DryRun loads the programs, which the kernel then verifies. They cannot be attached.
	DryRun bool
	// Mode is "test" or "bench" to run the script's programs of this kind, and to attach nothing. Only
	// LoadReport supports it. The exit code is 1 if a test fails.
	Mode string
	// Why reports at the end, and when maps are printed on request, how often each clause ran, why it did not go on, and the
	// first cause of missing output; with Silence also when nothing was printed for that long. The report goes to Report.Err.
	Why     bool
	Silence time.Duration

	// DropEvents discards the script's output, for sessions that only need its maps.
	DropEvents bool
	// NoWarnings suppresses all warnings, including the script's warnf().
	NoWarnings bool
	// NoHelper makes the session start no process to parse files (see Processes in the package comment). This process
	// then parses those that attach points of the script name (uprobe, uretprobe, usdt). It does so with all its
	// privileges, and without limits of time and memory: a hostile file can use up both, although errors in
	// parsing stay errors of Load. Files that traced processes choose are not parsed at all: usym and
	// ustack print addresses in place of names.
	NoHelper bool
	// Reload makes Session.Reload possible. Programs then test for each event which object counts it, and maps have no
	// per-CPU caches.
	Reload bool
	// Process, if it is not nil, is what the session may do to the whole process.
	Process *Process
}

// Process is for a program that runs one session and nothing else, as btrun does.
//
// The session then has no goroutine of its own that ends it: Wait must be called after Attach, and does all
// the work. The begin and end programs run on the threads that call Attach and Wait: if an init function of the
// program has locked its main goroutine to the main thread (runtime.LockOSThread), and this goroutine calls both, tid
// is equal to pid in them, as in bpftrace. While the session waits for events, the process uses one CPU
// (runtime.GOMAXPROCS), because that makes a wait cheaper.
//
// Its fields are
//
//   - DropPrivileges bool: makes the process irrevocably drop, once everything is attached, the capabilities that the
//     rest of the session does not need. Programs with cgo cannot do that.
//   - CreatesFiles bool: keeps what creating files in directories of other users needs, because Report.Out does that
//     while the session runs.
//   - Alive func(): if it is not nil, it is called at least once a second while the session handles events, such as to
//     feed a watchdog.
//   - Ending func(): if it is not nil, it is called when the session has handled the last event but those of the end
//     programs.
type Process = options.Process

// check returns an error for options that cannot be combined.
func (o *Options) check() error {
	switch {
	case o.Timeout < 0:
		return fmt.Errorf("the timeout %v is negative", o.Timeout)
	case o.FollowForks && len(o.processes()) == 0 && o.Command == "":
		return errors.New("FollowForks needs processes: PIDs or Command")
	case o.Command != "" && len(o.processes()) > 0:
		return errors.New("PIDs and Command cannot be combined")
	case o.Reload && (o.FollowForks || o.Command != "" || o.Mode != ""):
		return errors.New("Reload cannot be combined with Command, FollowForks or Mode")
	case o.Unwind != "" && !slices.Contains(options.Unwinds, o.Unwind):
		return fmt.Errorf("unknown way %q to unwind stacks: expected %s", o.Unwind, strings.Join(options.Unwinds, ", "))
	case o.Symbolize != "" && !slices.Contains(options.Symbolizes, o.Symbolize):
		return fmt.Errorf("unknown time %q to name functions: expected %s", o.Symbolize, strings.Join(options.Symbolizes, " or "))
	case o.Mode != "" && o.Mode != probe.Test && o.Mode != probe.Bench:
		return fmt.Errorf("unknown mode %q: expected %s or %s", o.Mode, probe.Test, probe.Bench)
	}
	return nil
}

// processes returns PID and PIDs.
func (o *Options) processes() []int {
	if o.PID == 0 {
		return o.PIDs
	}
	return append([]int{o.PID}, o.PIDs...)
}

// run returns the options of a run, except how its output is passed on. The context limits the wait for containers.
func (o *Options) run(ctx context.Context) (*run.Options, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	ro := &run.Options{Run: options.Run(*o)} // see options.Run
	ro.PIDs = o.processes()
	if o.Wait {
		ro.Context = ctx
	}
	if o.MaxMemory == 0 {
		ro.MaxMemory = host.MemoryBytes() / 2
	}
	ro.Grants.All = o.Unsafe
	for _, name := range o.Allow {
		if err := ro.Grants.Allow(string(name)); err != nil {
			return nil, err
		}
	}
	return ro, nil
}
