// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"btc/fleet/replay"
	"btc/internal/option"
	"btc/loader/options"
	"btc/loader/output"
)

// profiler holds the options of btc profile.
type profiler struct {
	btrun   options.Values
	forward []string // options for btrun
	offCPU  bool
	rate    int
	file    string
	script  bool
	cgroups []uint64 // with offCPU: the IDs of those that are selected
}

// defaultRate is the default of --rate; it is not a multiple of the rates of usual timers.
const defaultRate = 99

func profileCommand() *command {
	p := &profiler{rate: defaultRate}
	return &command{
		name: "profile", operands: "[DURATION]", summary: "sample stacks, and draw them as a flame graph (root)", files: []string{"svg", "html", "gz", "folded"},
		about: "It traces for DURATION, such as 10s, or until the command of -c or the last process of -p ends, or until Ctrl-C, " +
			"with a script that --script prints. The name of -o selects the form: .svg is a flame graph for a browser, .html a page with the samples over time (up to 200 snapshots of DURATION, which it needs), as of btc report, .pb.gz a " +
			"profile for go tool pprof and others, .folded a line for each stack; - writes these lines to standard output.",
		options: p.table(), run: p.run,
		examples: []example{
			{"btc profile 10s -o flame.svg", "sample all CPUs for ten seconds"},
			{"btc profile 1m -o minute.html", "the same for a minute, as a page from which a part of the time is selected"},
			{"btc profile -c 'make' -o make.svg", "sample a command and the processes that it starts"},
			{"btc profile -p 1234 --off-cpu 10s -o waits.pb.gz", "measure where a process waits"},
		},
	}
}

// table returns the options: those of btrun that choose what to trace, and those of the profile.
func (p *profiler) table() option.Table {
	var table option.Table
	for _, o := range p.btrun.Table() {
		switch o.Name {
		case "pid", "follow-forks", "cgroup", "container", "pod", "wait", "command", "max-memory", "budget", "unwind", "unwind-cache", "raw-stacks":
			set := o
			o.Group = ""
			o.To = func(value string) error {
				if err := set.Set(value); err != nil {
					return err
				}
				switch o.Name {
				case "command", "pid", "follow-forks", "cgroup", "container", "pod":
					return nil // depend on each other, or on --off-cpu
				}
				word := "--" + o.Name
				if o.Value != "" {
					word += "=" + value
				}
				p.forward = append(p.forward, word)
				return nil
			}
			table = append(table, o)
		}
	}
	return append(table, option.Table{
		{Name: "off-cpu", To: &p.offCPU, Help: "measure the time that threads wait, instead of sampling those that run"},
		{Name: "rate", Short: "F", Value: "HZ", To: p.setRate, Help: "samples a second on each CPU; default: 99"},
		{Name: "output", Short: "o", Value: "FILE", To: &p.file, Help: "write to FILE, whose name ends in .svg, .html, .pb.gz or .folded; - is standard output; default: flame.svg"},
		{Name: "script", To: &p.script, Help: "print the script, and trace nothing"},
	}...)
}

func (p *profiler) setRate(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 10000 {
		return fmt.Errorf("--rate: %q is not a number from 1 to 10000", text)
	}
	p.rate = n
	return nil
}

// maxStacks is the number of different stacks that a profile can have.
const maxStacks = 65536

// text returns the script.
func (p *profiler) text() string {
	head := fmt.Sprintf("config = { max_map_keys = %d; unstable_dw_ustack = enable; }\n\n", maxStacks)
	if !p.offCPU {
		return head + fmt.Sprintf("profile:hz:%d\n/tid != 0/\n{\n\t@samples[comm, dw_ustack, kstack] = count();\n}\n", p.rate)
	}
	// The filter of btrun would drop the switches to a thread, in which another one is current: the script selects.
	head += "// A thread leaves the CPU with its stacks, and the time until it runs again counts for them.\n"
	which, more := "tid != 0", ""
	ours := "\ntracepoint:sched:sched_process_fork\n/@ours[pid]/\n{\n\t@ours[(uint32)args.child_pid] = true;\n}\n"
	switch {
	case len(p.btrun.PIDs) > 0 && p.btrun.FollowForks:
		which = "@ours[pid]"
		more = begin("@ours", p.btrun.PIDs) + ours
	case len(p.btrun.PIDs) > 0:
		var all []string
		for _, pid := range p.btrun.PIDs {
			all = append(all, fmt.Sprintf("pid == %d", pid))
		}
		which = "(" + strings.Join(all, " || ") + ")"
		more = fmt.Sprintf("\ntracepoint:sched:sched_process_exit\n/%s && tid == pid/\n{\n\t@ended++;\n\tif (@ended == %d) { exit(); }\n}\n", which, len(all))
	case p.btrun.Command != "":
		which = "@ours[pid]"
		more = "\nbegin\n{\n\t@ours[cpid] = true;\n}\n" + ours
	}
	if p.ofCgroups() {
		which += " && @cgroups[cgroup]"
		more += begin("@cgroups", p.cgroups)
	}
	return head + `tracepoint:sched:sched_switch
{
	if (` + which + `) {
		@left[tid] = nsecs;
		@where[tid] = (comm = comm, user = dw_ustack, kernel = kstack);
	}
	$next = (uint32)args.next_pid;
	$since = @left[$next];
	if ($since) {
		@off_cpu_us[@where[$next]] = sum((uint64)(nsecs - $since) / 1000);
		_ = delete(@left, $next);
		_ = delete(@where, $next);
	}
}
` + more
}

// begin returns a clause that sets the elements of a map with these keys.
func begin[T int | uint64](name string, keys []T) string {
	text := "\nbegin\n{\n"
	for _, key := range keys {
		text += fmt.Sprintf("\t%s[%d] = true;\n", name, key)
	}
	return text + "}\n"
}

// ofCgroups reports whether the script selects cgroups.
func (p *profiler) ofCgroups() bool {
	v := &p.btrun
	return p.offCPU && len(v.Cgroups)+len(v.Containers)+len(v.Pods) > 0
}

// check returns the duration, 0 if there is none, or an error about the command line.
func (p *profiler) check(operands []string) (d time.Duration, err error) {
	switch {
	case len(operands) > 1:
		return 0, fmt.Errorf("unexpected argument %q", operands[1])
	case len(operands) == 1:
		if d, err = time.ParseDuration(operands[0]); err != nil || d < time.Millisecond {
			return 0, fmt.Errorf("%q is not a duration of at least 1ms, such as 10s", operands[0])
		}
	}
	if p.file == "" {
		p.file = "flame.svg"
	}
	v := &p.btrun
	switch {
	case p.file != "-" && profileForm("", p.file) == "" && !isPage(p.file):
		return 0, fmt.Errorf("-o: the name %q does not end in .svg, .html, .pb.gz or .folded", p.file)
	case isPage(p.file) && d == 0: // each column is a snapshot of all stacks
		return 0, fmt.Errorf("-o %s: a page needs DURATION, such as 10m, of which it has at most 200 snapshots; the tracing may end earlier", p.file)
	case p.offCPU && v.Wait:
		return 0, errors.New("--off-cpu cannot --wait: its script has the cgroups that exist when it starts")
	case p.offCPU && p.rate != defaultRate:
		return 0, errors.New("--rate is for samples: --off-cpu measures each wait")
	}
	return d, v.Check()
}

func (p *profiler) run(line *option.Line) int {
	d, err := p.check(line.All())
	if err != nil {
		return fail("%v", err)
	}
	if p.ofCgroups() {
		if p.cgroups, err = profiledCgroups(&p.btrun); err != nil {
			return fail("%v", err)
		}
	}
	text := p.text()
	if p.script {
		fmt.Print(text)
		return 0
	}
	if runtime.GOOS != "linux" {
		return fail("btc profile traces this machine, which must run Linux; btc replay -o flame.svg draws a recording of another one here")
	}
	if err := p.checkProcesses(); err != nil {
		return fail("%v", err)
	}
	dir, err := os.MkdirTemp("", "btc")
	if err != nil {
		return fail("%v", err)
	}
	defer os.RemoveAll(dir)
	recording := filepath.Join(dir, "run.jsonl")
	args := append([]string{"-q", "-f", output.Lossless, "-o", recording, "-e", text}, p.forward...)
	if d > 0 {
		args = append(args, "--timeout="+d.String())
	}
	if isPage(p.file) {
		args = append(args, "--every="+columns(d).String())
	}
	if p.btrun.Command != "" {
		args = append(args, "--command="+p.btrun.Command)
	}
	if !p.offCPU {
		for _, pid := range p.btrun.PIDs {
			args = append(args, "--pid="+strconv.Itoa(pid))
		}
		if p.btrun.FollowForks || p.btrun.Command != "" {
			args = append(args, "--follow-forks")
		}
		for _, x := range []struct {
			name string
			all  []string
		}{{"cgroup", p.btrun.Cgroups}, {"container", p.btrun.Containers}, {"pod", p.btrun.Pods}} {
			for _, value := range x.all {
				args = append(args, "--"+x.name+"="+value)
			}
		}
	}
	p.announce(d)
	cmd := runCommand()
	parsed, err := cmd.options.Parse(args)
	if err != nil {
		return fail("%v", err)
	}
	return p.draw(recording, cmd.run(parsed))
}

// draw writes the profile of a recording of a run that ended with a status, and returns that of the command. What was sampled is
// written whatever went wrong later.
func (p *profiler) draw(recording string, status int) int {
	in, err := openRecording(recording)
	if err != nil {
		return max(status, 1) // the reason was reported
	}
	defer in.Close()
	if isPage(p.file) {
		return p.page(recording, status)
	}
	x, err := readProfile(recording, in, replay.Options{Err: os.Stderr})
	switch {
	case x == nil && status != 0:
		return status
	case x == nil:
		return fail("%v", err)
	case err != nil: // what precedes it is shown
		status = max(status, fail("%v", err))
	}
	x.Comment = p.about()
	form := "folded"
	if p.file != "-" {
		form = profileForm("", p.file)
	}
	if err := writeProfile(p.file, form, x); err != nil {
		return fail("%v", err)
	}
	switch {
	case len(x.Samples) == 0:
		fmt.Fprintln(os.Stderr, "btc: warning: the profile has 0 stacks")
	case p.file != "-":
		fmt.Fprintf(os.Stderr, "btc: %s: %d stacks\n", p.file, len(x.Samples))
	}
	return status
}

// isPage reports whether a name is that of a page for a browser.
func isPage(file string) bool {
	return strings.HasSuffix(strings.TrimSuffix(strings.TrimSuffix(file, ".gz"), ".zst"), ".html")
}

// columns returns the interval of the columns of a page: of at most 200 in a run of duration d, each with some samples.
func columns(d time.Duration) time.Duration {
	const step = 100 * time.Millisecond
	return (d/200 + step - 1).Truncate(step)
}

// page writes the page of a recording of a run that ended with a status, and returns that of the command.
func (p *profiler) page(recording string, status int) int {
	d, err := readPage(recording, replay.Options{})
	if err != nil {
		status = max(status, fail("%v", err))
	}
	switch {
	case d == nil || len(d.Maps) == 0 && status != 0:
		return status
	case len(d.Maps) == 0:
		return fail("the recording has no snapshot of the map")
	}
	d.File = p.about()
	if err := (&htmlReport{file: p.file}).writePage(d, nil); err != nil {
		return fail("%v", err)
	}
	fmt.Fprintf(os.Stderr, "btc: %s\n", p.file)
	return status
}

// checkProcesses returns an error if a process of -p does not exist: with --off-cpu, the script would wait for its end.
func (p *profiler) checkProcesses() error {
	for _, pid := range p.btrun.PIDs {
		x, err := os.FindProcess(int(pid))
		if err == nil {
			err = x.Signal(syscall.Signal(0))
		}
		if errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("process %d does not exist", pid)
		}
	}
	// btrun reports what this does not see, a quoted name.
	if words := strings.Fields(p.btrun.Command); len(words) > 0 && !strings.ContainsAny(words[0], `'"\`) {
		if _, err := exec.LookPath(words[0]); err != nil && !errors.Is(err, exec.ErrDot) {
			return fmt.Errorf("-c: %q does not exist or is not executable", words[0])
		}
	}
	return nil
}

// announce says on a terminal what happens now.
func (p *profiler) announce(d time.Duration) {
	if !isTerminal(os.Stderr) {
		return
	}
	how := "until Ctrl-C"
	switch {
	case d > 0:
		how = "for " + d.String() + "; Ctrl-C ends it earlier"
	case p.btrun.Command != "":
		how = "until the command ends, or Ctrl-C"
	case len(p.btrun.PIDs) > 0:
		how = "until the process ends, or Ctrl-C"
	}
	fmt.Fprintf(os.Stderr, "btc: %s %s\n", p.about(), how)
}

// about describes the profile.
func (p *profiler) about() string {
	text := fmt.Sprintf("threads on the CPU, %d samples a second", p.rate)
	if p.offCPU {
		text = "time that threads wait"
	}
	v := &p.btrun
	for _, x := range []struct {
		what string
		all  []string
	}{{"command", []string{v.Command}}, {"container", v.Containers}, {"pod", v.Pods}, {"cgroup", v.Cgroups}} {
		if all := strings.Join(x.all, ", "); all != "" {
			text += ", " + x.what + " " + all
		}
	}
	for _, pid := range v.PIDs {
		text += fmt.Sprintf(", process %d", pid)
	}
	return text
}
