// SPDX-License-Identifier: Apache-2.0

package sites

import (
	"fmt"

	"golang.org/x/sys/unix"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/resolve"
)

// filters reports whether only some tasks' events count.
func (o *Options) filters() bool { return len(o.PIDs) > 0 || o.Follow || o.Cgroup }

// ofProcesses finds the files of a program's attach point for each process of -p, or else for one
// process of each container. Links are limited to their process, except with Follow, because a
// started process may run any of the files, and in containers, which have several processes: there
// only the filter limits them.
func (x *expander) ofProcesses(p *manifest.Program,
	find func(*manifest.Program) (resolve.Plan, error)) (resolve.Plan, error) {
	pids, limited := x.opts.PIDs, !x.opts.Follow
	if len(pids) == 0 {
		pids, limited = x.opts.Inside, false
	}
	if len(pids) == 0 {
		return find(p)
	}
	out := resolve.Plan{}
	var failures []error
	seen := map[string]int{} // 1 + index of a match, by what identifies its site
	defer func() { x.opts.pid = 0 }()
	for _, x.opts.pid = range pids {
		plan, err := find(p)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		at := make([]int, len(plan.Matches)) // 1 + index in the result
		for i, m := range plan.Matches {
			if limited {
				m.PID = x.opts.pid
			}
			site := fmt.Sprintf("%s %d %d", fileOf(&m), m.Offset, m.PID)
			if at[i] = seen[site]; at[i] > 0 {
				continue
			}
			if m.SameAs > 0 {
				m.SameAs = at[m.SameAs-1]
			}
			out.Matches = append(out.Matches, m)
			at[i] = len(out.Matches)
			seen[site] = at[i]
		}
	}
	if len(out.Matches) == 0 {
		return resolve.Plan{}, failures[0]
	}
	for _, err := range failures {
		x.warn(p, err.Error()+"; the other processes are used")
	}
	return out, nil
}

// fileOf identifies the file of a match, regardless of its path.
func fileOf(m *resolve.Match) string {
	var st unix.Stat_t
	if m.File == nil || unix.Fstat(int(m.File.Fd()), &st) != nil {
		return m.Text
	}
	return fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}

// filter decides which filters apply to a plan. If links can be limited to a process, each process
// of -p gets its own attach sites.
func (x *expander) filter(plan *resolve.Plan) {
	pr := providers[plan.Prog.Kind]
	plan.Filtered = pr.filtered && x.opts.filters()
	if !pr.perProcess || x.opts.Follow || len(x.opts.PIDs) == 0 || len(plan.Matches) == 0 ||
		plan.Matches[0].PID != 0 {
		return
	}
	all := plan.Matches
	plan.Matches = nil
	for _, pid := range x.opts.PIDs {
		for _, m := range all {
			m.PID = pid
			plan.Matches = append(plan.Matches, m)
		}
	}
}

// checkIterator refuses filters that do not apply to a kind of iterator.
func (o *Options) checkIterator(kind string) error {
	option := ""
	switch {
	case o.Cgroup:
		option = "--cgroup"
	case o.Follow:
		option = "--follow-forks"
	case len(o.PIDs) > 0 && !resolve.OfProcess[kind]:
		return fmt.Errorf("-p cannot be used: the objects of iter:%s do not belong to a process", kind)
	default:
		return nil
	}
	return fmt.Errorf(
		"%s cannot be used: the program of %s:%s runs in the task that reads the iterator, not in the visited ones; "+
			"filter in the script instead", option, probe.Iter, kind)
}
