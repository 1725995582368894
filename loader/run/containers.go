// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"slices"

	"btc/loader/containers"
)

// groups are the containers and pods that a run is limited to.
type groups struct {
	cgroups []string          // Options.Cgroups and theirs
	names   map[string]string // how messages name their cgroups, by directory
	inside  []int             // a process of each: its files are those of user-space probes
}

// findGroups finds the containers and pods in Options. If there are both, the containers are looked up in the pods.
func findGroups(o *Options) (groups, error) {
	g := groups{cgroups: o.Cgroups}
	if len(o.Containers)+len(o.Pods) == 0 {
		return g, nil
	}
	host, err := containers.Local()
	if err != nil {
		return g, err
	}
	var pods, found []*containers.Target
	for _, name := range o.Pods {
		t, err := o.await(host, containers.Pod, name, func() (*containers.Target, error) { return host.Pod(name) })
		if err != nil {
			return g, err
		}
		pods = append(pods, t)
	}
	for _, name := range o.Containers {
		t, err := o.await(host, containers.Container, name, func() (*containers.Target, error) {
			return host.Container(name, pods...)
		})
		if err != nil {
			return g, err
		}
		found = append(found, t)
	}
	if len(found) == 0 {
		found = pods
	}
	g.cgroups, g.names = slices.Clone(o.Cgroups), map[string]string{}
	for _, t := range found {
		g.inside = append(g.inside, t.Processes...)
		for _, dir := range t.Cgroups {
			if g.names[dir] == "" {
				g.cgroups = append(g.cgroups, dir)
			}
			g.names[dir] = t.Kind.String() + " " + t.Label
		}
	}
	return g, nil
}

// await finds a container or pod, and waits for it if Options.Context is set.
func (o *Options) await(host *containers.Host, kind containers.Kind, name string,
	find func() (*containers.Target, error)) (*containers.Target, error) {
	if o.Context == nil {
		return find()
	}
	return host.Wait(o.Context, find, func() {
		if !o.Quiet {
			fmt.Fprintf(o.Err, "Waiting for %s %s\n", kind, name)
		}
	})
}
