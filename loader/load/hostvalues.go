package load

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"btc/loader/hostinfo"
	"btc/loader/manifest"
	"btc/loader/object"
	"btc/loader/report"
)

// setHostValues looks up what the script asks of the host by name: addresses of
// kernel symbols and ids of cgroups.
func setHostValues(o *object.Object) error {
	for i := range o.Manifest.Globals {
		g := &o.Manifest.Globals[i]
		if g.Host == "" {
			continue
		}
		v, err := hostValue(g)
		if err != nil {
			f := &report.Fault{Script: &o.Manifest.Script, Text: err.Error(), Cause: err, Severe: true}
			if g.Pos != nil {
				f.Pos = *g.Pos
			}
			return f
		}
		if err := set(o, g.Name, number(v, g.Size)); err != nil {
			return err
		}
	}
	return nil
}

func hostValue(g *manifest.Global) (uint64, error) {
	switch g.Host {
	case "kaddr":
		addr, ok, err := hostinfo.SymbolAddress(g.Text)
		if err == nil && !ok {
			//lint:ignore ST1005 the reference's words
			err = fmt.Errorf("Failed to resolve kernel symbol: %s", g.Text)
		}
		return addr, err
	case "kaddr_or_0":
		addr, _, err := hostinfo.SymbolAddress(g.Text)
		return addr, err
	case "cgroupid":
		return cgroupID(g.Text)
	}
	panic("BUG: manifest with an unknown host value: " + g.Host)
}

// cgroupID is the id of the cgroup at a path: its inode's number.
func cgroupID(path string) (uint64, error) {
	var fs unix.Statfs_t
	var st unix.Stat_t
	err := unix.Statfs(path, &fs)
	if err == nil {
		err = unix.Stat(path, &st)
	}
	if err == nil && fs.Type != unix.CGROUP2_SUPER_MAGIC && fs.Type != unix.CGROUP_SUPER_MAGIC {
		err = errors.New("it is not in a cgroup file system")
	}
	if err != nil {
		//lint:ignore ST1005 the reference's words
		return 0, fmt.Errorf("Failed to get `cgroupid` for path: %q: %w", path, err)
	}
	return st.Ino, nil
}
