// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"syscall"

	"btc/loader/cgroup"
	"btc/loader/containers"
	"btc/loader/options"
)

// maxProfiledCgroups is the maximum number of cgroups that a script of btc profile names.
const maxProfiledCgroups = 4096

// profiledCgroups returns the IDs of the cgroups that options select, and of those below them.
func profiledCgroups(v *options.Values) ([]uint64, error) {
	paths, err := profiledPaths(v)
	if err != nil {
		return nil, err
	}
	var ids []uint64
	for _, text := range paths {
		dir, err := cgroup.Open(text)
		if err != nil {
			return nil, err
		}
		ids = append(ids, dir.ID)
		err = filepath.WalkDir(dir.Path, func(_ string, e fs.DirEntry, err error) error {
			if err != nil || !e.IsDir() {
				return nil // removed in the meantime
			}
			info, err := e.Info()
			if err != nil {
				return nil
			}
			if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Ino != dir.ID {
				ids = append(ids, st.Ino)
			}
			if len(ids) > maxProfiledCgroups {
				return fmt.Errorf("%s has more than %d cgroups below it", text, maxProfiledCgroups)
			}
			return nil
		})
		dir.Close()
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// profiledPaths returns the cgroups that options name, and those of the containers and pods.
func profiledPaths(v *options.Values) ([]string, error) {
	paths := slices.Clone(v.Cgroups)
	if len(v.Containers)+len(v.Pods) == 0 {
		return paths, nil
	}
	host, err := containers.Local()
	if err != nil {
		return nil, err
	}
	var pods, found []*containers.Target
	for _, name := range v.Pods {
		t, err := host.Pod(name)
		if err != nil {
			return nil, err
		}
		pods = append(pods, t)
	}
	for _, name := range v.Containers {
		t, err := host.Container(name, pods...)
		if err != nil {
			return nil, err
		}
		found = append(found, t)
	}
	if len(found) == 0 {
		found = pods
	}
	for _, t := range found {
		paths = append(paths, t.Cgroups...)
	}
	return paths, nil
}
