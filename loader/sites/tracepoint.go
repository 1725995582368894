// SPDX-License-Identifier: Apache-2.0

package sites

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"btc/internal/arch"
	"btc/internal/kernelfs"
	"btc/internal/probe"
	"btc/internal/safefile"
	"btc/loader/adapt"
	"btc/loader/resolve"
)

// Tracepoints lists the events of tracefs that match.
func (x *expander) Tracepoints(group, name string) ([]adapt.Event, error) {
	dir, err := kernelfs.Tracefs()
	if err != nil {
		return nil, err
	}
	groups, err := safefile.Entries(dir + "/events")
	if err != nil {
		return nil, fmt.Errorf("cannot list tracepoints: %w", err)
	}
	var out []adapt.Event
	for _, g := range groups {
		if !g.IsDir() || !probe.Glob(group, g.Name()) {
			continue
		}
		events, err := safefile.Entries(dir + "/events/" + g.Name())
		if err != nil {
			continue
		}
		for _, e := range events {
			if e.IsDir() && probe.Glob(name, e.Name()) && canTrace(dir, g.Name(), e.Name()) {
				out = append(out, adapt.Event{Group: g.Name(), Name: e.Name()})
			}
		}
	}
	return out, nil
}

// canTrace excludes events without an id for perf.
func canTrace(dir, group, event string) bool {
	_, err := os.Stat(dir + "/events/" + group + "/" + event + "/id")
	return err == nil
}

// Tracepoint looks up an event in tracefs.
func (x *expander) Tracepoint(group, name string) error {
	_, err := kernelfs.Tracepoint(group, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		gone := resolve.NoMatch(probe.Tracepoint, group+":"+name)
		if dir, err := kernelfs.Tracefs(); err == nil && group == "syscalls" {
			if _, err := os.Stat(dir + "/events/syscalls"); errors.Is(err, fs.ErrNotExist) {
				return &resolve.Missing{
					Text: gone.Error() + " This kernel has no tracepoints of system calls (CONFIG_FTRACE_SYSCALLS).",
				}
			}
			if arch.Host().ForeignSyscall(name) {
				return &resolve.Missing{
					Text:    gone.Error() + " This architecture has no such system call.",
					Foreign: true,
				}
			}
		}
		return gone
	case err != nil:
		return err
	}
	return nil
}
