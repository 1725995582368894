// SPDX-License-Identifier: Apache-2.0

package run

import "fmt"

// howToEnd describes what ends the run.
func (s *session) howToEnd() string {
	text := "Ctrl-C ends the run"
	switch {
	case s.opts.Timeout > 0:
		text = fmt.Sprintf("ends after %v; Ctrl-C ends the run earlier", s.opts.Timeout)
	case s.opts.FollowForks:
		text = "ends with the last process that is followed; Ctrl-C ends the run earlier"
	case s.child != nil:
		text = "ends with the command; Ctrl-C ends the run earlier"
	case len(s.opts.PIDs) == 1:
		text = "ends with the process; Ctrl-C ends the run earlier"
	case len(s.opts.PIDs) > 1:
		text = "ends with the last of the processes; Ctrl-C ends the run earlier"
	case len(s.opts.Cgroups) > 0:
		text = "ends when the cgroup is removed; Ctrl-C ends the run earlier"
	}
	if s.manifest.Config.PrintMapsOnExit && len(s.maps.scripts()) > 0 {
		text += " and prints the maps"
	}
	return text
}
