package run

import (
	"maps"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"btc/loader/manifest"
	"btc/loader/symbols"
)

// watchProcesses notes what processes map when the script asks for their symbols,
// for those that will be gone when the addresses are printed: now of those that
// are traced for sure, later of each one when it is first seen. A kernel that
// refuses leaves what /proc tells.
func (s *session) watchProcesses() {
	if !slices.ContainsFunc(s.manifest.Events, func(e manifest.Event) bool { return e.Kind == "proc" }) {
		return
	}
	s.symbols().Watch, _ = symbols.NewWatch(s.host.Online)
	if s.opts.PID != 0 {
		s.symbols().Snapshot(uint32(s.opts.PID))
		return
	}
	files := map[string]bool{}
	for i := range s.expansion.Plans {
		for j := range s.expansion.Plans[i].Matches {
			files[s.expansion.Plans[i].Matches[j].Path] = true
		}
	}
	delete(files, "") // of probes that are not in files
	for _, pid := range processesOf(slices.Collect(maps.Keys(files))) {
		s.symbols().Snapshot(pid)
	}
}

// processesOf are the processes whose program is one of the files.
func processesOf(files []string) []uint32 {
	wanted := map[[2]uint64]bool{} // device and inode
	id := func(path string) [2]uint64 {
		var st unix.Stat_t
		if unix.Stat(path, &st) != nil {
			return [2]uint64{}
		}
		return [2]uint64{uint64(st.Dev), st.Ino}
	}
	for _, path := range files {
		if file := id(path); file[1] != 0 {
			wanted[file] = true
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	entries, _ := os.ReadDir("/proc")
	var out []uint32
	for _, e := range entries {
		pid, err := strconv.ParseUint(e.Name(), 10, 32)
		if err == nil && wanted[id("/proc/"+e.Name()+"/exe")] {
			out = append(out, uint32(pid))
		}
	}
	return out
}
