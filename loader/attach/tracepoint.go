package attach

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"btc/loader/host"
	"btc/loader/hostinfo"
	"btc/loader/manifest"
)

func expandTracepoint(_ *expander, p *manifest.Program) (Plan, error) {
	a := &p.Attach
	if !isPattern(a.Target) && !isPattern(a.Name) {
		if err := checkTracepoint(a.Target, a.Name); err != nil {
			return Plan{}, err
		}
		return Plan{Matches: []Match{{Text: a.Text, Group: a.Target, Name: a.Name}}}, nil
	}
	dir, err := hostinfo.Tracefs()
	if err != nil {
		return Plan{}, err
	}
	plan := Plan{}
	groups, err := os.ReadDir(dir + "/events")
	if err != nil {
		return Plan{}, fmt.Errorf("list of tracepoints: %w", err)
	}
	for _, g := range groups {
		if !g.IsDir() || !glob(a.Target, g.Name()) {
			continue
		}
		events, err := os.ReadDir(dir + "/events/" + g.Name())
		if err != nil {
			continue
		}
		for _, e := range events {
			if e.IsDir() && glob(a.Name, e.Name()) && canTrace(dir, g.Name(), e.Name()) {
				plan.Matches = append(plan.Matches, Match{Text: "tracepoint:" + g.Name() + ":" + e.Name(), Group: g.Name(), Name: e.Name()})
			}
		}
	}
	if len(plan.Matches) == 0 {
		return Plan{}, noMatch("tracepoint", a.Target+":"+a.Name)
	}
	return plan, nil
}

// canTrace leaves out ftrace's own entries, which have no id that perf takes.
func canTrace(dir, group, event string) bool {
	if group == "ftrace" {
		return false
	}
	_, err := os.Stat(dir + "/events/" + group + "/" + event + "/id")
	return err == nil
}

// syscallNrOffset is where the fixed layout of syscall tracepoints has the
// system call's number. Kernels with a longer common part (some real-time and
// RHEL 9 ones) move all fields, and the programs would read the wrong ones.
const syscallNrOffset = 8

func checkTracepoint(group, name string) error {
	f, err := hostinfo.Tracepoint(group, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return noMatch("tracepoint", group+":"+name)
	case err != nil:
		return err
	}
	if group != "syscalls" {
		return nil
	}
	for _, field := range f.Fields {
		if field.Name == "__syscall_nr" && field.Offset != syscallNrOffset {
			return fmt.Errorf("this kernel lays syscall tracepoints out differently (__syscall_nr at byte %d, not %d)", field.Offset, syscallNrOffset)
		}
	}
	return nil
}

func attachTracepoint(_ *Plan, m *Match, prog *ebpf.Program, _ Options, _ *host.Host) (io.Closer, error) {
	l, err := link.Tracepoint(m.Group, m.Name, prog, nil)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func attachRawTracepoint(_ *Plan, m *Match, prog *ebpf.Program, o Options, h *host.Host) (io.Closer, error) {
	if prog.Type() == ebpf.Tracing {
		return attachTracing(nil, m, prog, o, h)
	}
	l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: m.Name, Program: prog})
	if err != nil {
		return nil, err
	}
	return l, nil
}
