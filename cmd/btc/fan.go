// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"btc/compile"
	"btc/fleet/fan"
	"btc/fleet/merge"
	"btc/frontend/diag"
	"btc/internal/manifest"
	"btc/internal/option"
	"btc/internal/safefile"
	"btc/loader/metrics"
	"btc/loader/object"
	"btc/loader/options"
	"btc/loader/output"
)

// Defaults of btc fan.
const (
	fanParallel = 256
	fanConnect  = 15 * time.Second
	fanGrace    = 15 * time.Second
)

// Exit statuses of btc fan other than 0 and 1.
const someHostsFailed = 2

// fanRun holds the options of btc fan and the object that it runs.
type fanRun struct {
	script  scriptFlags
	btrun   options.Values
	forward []string // arguments of btrun on the hosts
	report  mergedReport
	hosts   fanHosts
	listen  fanListen

	parallel       int
	connect, grace time.Duration
	failedFile     string

	object  func(archLabel string) ([]byte, *manifest.Manifest, error)
	base    *manifest.Manifest // manifest of the object that is checked here
	params  []string           // its parameters, and those with names
	named   map[string]string
	name    string // name of the object in metrics
	program func(archLabel string) ([]byte, error)
}

func fanCommand() *command {
	r := &fanRun{parallel: fanParallel, connect: fanConnect, grace: fanGrace}
	return &command{
		name: "fan", operands: "FILE.bt | FILE.o | -e PROGRAM [PARAMETER ...] [-- --NAME=VALUE ...]",
		summary: "run a script or object on many hosts at once, and print one report", files: []string{"bt", "o"},
		about: "The hosts are reached with ssh, using your own configuration, or with kubectl exec. They need btrun, or " +
			"--push copies it for the duration of the run. Nothing is left on the hosts. The report is what one host " +
			"running everything would print, as with btc merge. An interrupt ends the run on all hosts, and their " +
			"reports are still printed.",
		status: "0 if all hosts reported, 2 if some did not, 1 if none did or the command line is wrong.",
		examples: []example{
			{"btc fan -H hosts.txt --timeout 30s reads.bt", "run a script for 30 seconds on the hosts in a file"},
			{"btc fan --kubectl app=btrun --timeout 30s --by host reads.o", "run an object in pods, and show whose numbers they are"},
		},
		options: r.options(), run: r.run,
	}
}

// options defines the options for hosts, the report, btrun and the script.
func (r *fanRun) options() option.Table {
	table := r.hosts.table()
	table = append(table, option.Table{
		{Name: "parallel", Value: "N", Group: "Hosts", To: setCount("parallel", &r.parallel),
			Help: fmt.Sprintf("number of hosts at a time; default: %d", fanParallel)},
		{Name: "connect-timeout", Value: "TIME", Group: "Hosts", To: setDuration("connect-timeout", &r.connect),
			Help: fmt.Sprintf("give up on a host that has not answered after TIME; default: %s", fanConnect)},
		{Name: "host-timeout", Value: "TIME", Group: "Hosts", To: setDuration("host-timeout", &r.grace),
			Help: fmt.Sprintf("give up on a host that has not reported TIME after the end of its run, or that has sent nothing for TIME (at least 10s); default: %s",
				fanGrace)},
		{Name: "failed", Value: "FILE", Group: "Hosts", To: &r.failedFile,
			Help: "write the names of the hosts that are not in the report to FILE, for another --hosts FILE"},
	}...)
	for i, o := range r.report.table("prometheus", "openmetrics") {
		if i == 0 {
			o.Group = "Report"
		}
		table = append(table, o)
	}
	table = append(table, r.listen.table()...)
	own := map[string]bool{}
	for _, o := range table {
		own[o.Name] = true
	}
	group := ""
	for _, o := range r.btrun.Table() {
		if o.Group != "" {
			group = o.Group
		}
		if !own[o.Name] && (options.Travels(group) || o.Name == "every" || o.Name == "names") {
			o.To = r.passOn(o)
			table = append(table, o)
		}
		if o.Name == "rate" { // of the merged view
			table = append(table, o)
		}
	}
	script := r.script.table()
	script[0].Group = "Script"
	return append(table, script...)
}

// passOn stores the value of a btrun option and passes the option on.
func (r *fanRun) passOn(o option.Option) func(string) error {
	return func(value string) error {
		if err := o.Set(value); err != nil {
			return err
		}
		word := "--" + o.Name
		if o.Value != "" && (value != "" || !o.Optional) {
			word += "=" + value
		}
		r.forward = append(r.forward, word)
		return nil
	}
}

// setDuration returns the setter of a duration.
func setDuration(name string, to *time.Duration) func(string) error {
	return func(text string) error {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return fmt.Errorf("--%s: %q is not a time such as 10s or 1m", name, text)
		}
		*to = d
		return nil
	}
}

// setCount returns the setter of a number.
func setCount(name string, to *int) func(string) error {
	return func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("--%s: %q is not a number of at least 1", name, text)
		}
		*to = n
		return nil
	}
}

func (r *fanRun) run(line *option.Line) int {
	if err := r.btrun.Check(); err != nil {
		return fail("%v", err)
	}
	if isMetrics := output.Find(r.report.form).Metrics || r.listen.address != ""; !isMetrics && (r.report.buckets.String() != "" || r.report.maxSeries > 0) {
		return fail("--buckets and --max-series are for metrics: -f prometheus, -f openmetrics or --listen")
	}
	if r.btrun.Rate && !r.watches() {
		return fail("--rate is for the merged maps on a terminal while hosts run: add --every TIME and --top N, and no -o or -f")
	}
	if r.listen.remote && r.listen.address == "" {
		return fail("--listen-remote needs --listen ADDRESS")
	}
	if r.listen.address != "" && r.btrun.Every == 0 {
		r.btrun.Every = listenEvery
		r.forward = append(r.forward, "--every="+listenEvery.String())
	}
	args, status := r.prepare(line)
	if status != 0 {
		return status
	}
	reach, hosts, err := r.hosts.resolve()
	if err != nil {
		return fail("%v", err)
	}
	if r.hosts.push {
		if r.program, err = r.hosts.programs(); err != nil {
			return fail("%v", err)
		}
	}
	args = append(append([]string{"--remote"}, r.forward...), args...)
	f := &fan.Fan{
		Hosts: hosts, Command: r.hosts.command(reach, args), Object: r.object, Program: r.program,
		Identity: r.base.Object.SHA256, ByHost: r.report.by == "host", Parallel: r.parallel,
		Connect: r.connect, Timeout: r.btrun.Timeout, Grace: r.grace, Partial: r.btrun.Every > 0,
		Waits: r.btrun.Wait, Live: r.listen.address != "",
	}
	return r.show(f)
}

// prepare compiles the script, or reads the object, and returns btrun's arguments after the
// options.
func (r *fanRun) prepare(line *option.Line) ([]string, int) {
	if !r.script.isExpr && len(line.Operands) > 0 && strings.HasSuffix(line.Operands[0], ".o") {
		args, err := r.prepareObject(line)
		if err != nil {
			return nil, fail("%v", err)
		}
		return args, 0
	}
	s := &r.script
	name, text, err := s.script(line.Operands)
	if err != nil {
		return nil, fail("%v", err)
	}
	params := line.Operands
	if !s.isExpr {
		params = params[1:]
	}
	s.params, s.words = params, line.After
	s.fixAll = true
	out, status := s.compile(name, text)
	if out == nil || status != 0 {
		return nil, max(status, 1)
	}
	if r.base, err = manifest.Parse(out.Manifest); err != nil {
		return nil, fail("%v", err)
	}
	r.name = "stdin"
	if name != diag.Stdin {
		r.name = metrics.ObjectName(strings.TrimSuffix(filepath.Base(name), ".bt"))
	}
	r.object = r.compiled(name, text, out)
	return []string{"-"}, 0
}

// compiled returns the object for an architecture. If the script cannot be compiled for several
// architectures at once, each has an object of its own.
func (r *fanRun) compiled(name, text string, out *compile.Output) func(string) ([]byte, *manifest.Manifest, error) {
	type result struct {
		data []byte
		m    *manifest.Manifest
		err  error
	}
	var mu sync.Mutex
	made := map[string]result{}
	for _, label := range r.base.Arches {
		made[label] = result{data: out.Object, m: r.base}
	}
	return func(label string) ([]byte, *manifest.Manifest, error) {
		mu.Lock()
		defer mu.Unlock()
		if have, ok := made[label]; ok {
			return have.data, have.m, have.err
		}
		x := result{err: notFor(label, r.base.Arches)}
		if !r.script.targets.given() {
			own := r.script
			own.noWarnings = true
			if x.err = own.targets.addArches(label); x.err == nil {
				again, diags, err := own.build(name, text)
				switch {
				case err != nil:
					x.err = err
				case again == nil:
					x.err = fmt.Errorf("the script cannot be compiled for %s: %w", label, diags.Err())
				default:
					x = result{data: again.Object}
					x.m, x.err = manifest.Parse(again.Manifest)
				}
			}
		}
		made[label] = x
		return x.data, x.m, x.err
	}
}

// notFor returns the error for a host with an architecture that the object does not support.
func notFor(label string, arches []string) error {
	return fmt.Errorf("the object is for %s, and this host is %s", strings.Join(arches, " and "), label)
}

// prepareObject reads an object and checks its parameters.
func (r *fanRun) prepareObject(line *option.Line) ([]string, error) {
	path := line.Operands[0]
	files, err := object.ReadFiles(path)
	if err != nil {
		return nil, err
	}
	o, err := files.Parse()
	if err != nil {
		return nil, err
	}
	r.base = o.Manifest
	if r.script.targets.given() {
		return nil, errors.New("--target and --arch are for scripts: " + path + " is compiled")
	}
	params, named := manifest.SplitParams(line.After, r.base.TakesValue)
	params = slices.Concat(line.Operands[1:], params)
	values, named, err := manifest.MergeParams(r.base, params, named)
	if err == nil {
		_, err = manifest.ParseParams(r.base, values, named)
	}
	if err != nil {
		return nil, err
	}
	r.name, r.params, r.named = metrics.ObjectName(path), values, named
	stream, err := files.Stream() // with the signatures, for hosts whose policies demand one
	if err != nil {
		return nil, err
	}
	r.object = func(label string) ([]byte, *manifest.Manifest, error) {
		if !slices.Contains(r.base.Arches, label) {
			return nil, nil, notFor(label, r.base.Arches)
		}
		return stream, r.base, nil
	}
	args := append([]string{"-"}, line.Operands[1:]...)
	if len(line.After) > 0 {
		args = append(append(args, "--"), line.After...)
	}
	return args, nil
}

// show runs the fan and prints its output.
func (r *fanRun) show(f *fan.Fan) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, interrupt := context.WithCancel(ctx)
	defer interrupt()
	kill, abandon := context.WithCancel(context.Background())
	defer abandon()
	out, err := r.open()
	if err != nil {
		return fail("%v", err)
	}
	var listener net.Listener
	if r.listen.address != "" {
		if listener, err = r.listen.open(); err != nil {
			out.drop()
			return fail("%v", err)
		}
	}
	// A host without a snapshot for this time is not up.
	fresh := max(3*r.btrun.Every, minFresh)
	var watch *fanWatch
	if r.watches() {
		f.Live = true
		f.Prepare()
		watch = r.watch(f, fresh, interrupt)
		out.w = watch.out()
	}
	v := newFanView(out.w, r.report.form == output.Lossless, output.Find(r.report.form).Metrics)
	v.timeout = f.Timeout
	if watch != nil {
		v.below(watch)
	}
	if r.report.form == output.Lossless && r.base != nil {
		r.report.begun = true
		b := merge.Begun{Manifest: r.base, Name: r.name, ByHost: f.ByHost, Names: r.btrun.Names, Args: r.params, Params: r.named}
		for i := range f.Hosts {
			b.Hosts = append(b.Hosts, f.Hosts[i].Name)
		}
		if _, err := out.w.Write(b.AppendHead(nil, time.Now())); err != nil {
			return fail("%v", err)
		}
	}
	f.Event, f.Message, f.Progress = v.event, v.message, v.progress
	if listener != nil {
		if watch == nil {
			f.Prepare()
		}
		s := &fanServer{
			hosts: f.Hosts, report: &r.report, base: r.base, name: r.name, started: time.Now(), lost: v.lostEvents, local: !r.listen.remote,
			snapshot: func() (*merge.Runs, []bool) { return f.Snapshot(fresh) },
		}
		defer s.serve(listener)()
		v.logLine("btc: the metrics are at http://" + listener.Addr().String() + "/metrics")
	}
	go func() { // the second signal
		<-ctx.Done()
		if kill.Err() != nil { // the run has ended
			return
		}
		again := make(chan os.Signal, 1)
		signal.Notify(again, os.Interrupt, syscall.SIGTERM)
		v.logLine("btc: ending the run on all hosts; interrupt again to skip their reports")
		select {
		case <-again:
			abandon()
		case <-kill.Done():
		}
	}()
	results, runs := f.Run(ctx, kill)
	watch.end()
	v.end()
	counted := 0
	for i := range results {
		if results[i].Counted {
			counted++
		}
	}
	if counted > 0 {
		err = r.report.write(out.w, runs, r.base, r.name, v.lost)
	}
	if e := out.end(counted > 0); err == nil {
		err = e
	}
	bad := writeResults(os.Stderr, results, v.lost)
	if r.failedFile != "" {
		err = errors.Join(err, writeFailed(r.failedFile, results))
	}
	switch {
	case err != nil:
		return fail("%v", err)
	case counted == 0:
		return 1
	case bad > 0:
		return someHostsFailed
	}
	return 0
}

// fanOutput is the destination of events and the report.
type fanOutput struct {
	w    io.Writer
	f    *os.File // the -o file
	path string   // f is renamed to this path at the end; "": no renaming
	// fresh means that f did not exist before, begun that its old content has been truncated.
	fresh, begun bool
}

// Write writes to the -o file. Its old content is kept until then.
func (o *fanOutput) Write(p []byte) (int, error) {
	if !o.begun {
		o.begun = true
		if fi, err := o.f.Stat(); err == nil && fi.Mode().IsRegular() {
			if err := o.f.Truncate(0); err != nil {
				return 0, err
			}
		}
	}
	return o.f.Write(p)
}

// open opens the -o file. As with btrun, a metrics file is replaced as a whole at the end.
func (r *fanRun) open() (*fanOutput, error) {
	if r.report.file == "" {
		return &fanOutput{w: onTerminal(os.Stdout)}, nil
	}
	if output.Find(r.report.form).Document {
		f, err := os.CreateTemp(filepath.Dir(r.report.file), "."+filepath.Base(r.report.file)+".*")
		if err != nil {
			return nil, err
		}
		return &fanOutput{w: f, f: f, path: r.report.file}, nil
	}
	_, err := os.Stat(r.report.file)
	fresh := os.IsNotExist(err)
	f, err := safefile.Create(r.report.file, 0, 0o666)
	if err != nil {
		return nil, err
	}
	o := &fanOutput{f: f, fresh: fresh}
	o.w = o
	return o, nil
}

// end closes the file. Without a report, a document is discarded, and so is a new file without content.
func (o *fanOutput) end(isWhole bool) error {
	if o.f == nil {
		return nil
	}
	if o.path == "" && (isWhole || o.begun) {
		_, err := o.Write(nil) // without a report, too, old content is gone
		if e := o.f.Close(); err == nil {
			err = e
		}
		return err
	}
	if !isWhole {
		o.drop()
		return nil
	}
	err := o.f.Chmod(0o644)
	if e := o.f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(o.f.Name(), o.path)
	}
	if err != nil {
		os.Remove(o.f.Name())
	}
	return err
}

// drop discards a document, or a new file without content.
func (o *fanOutput) drop() {
	if o.f != nil {
		o.f.Close()
		if o.path != "" || o.fresh && !o.begun {
			os.Remove(o.f.Name())
		}
	}
}
