// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"slices"

	"btc/loader/containers"
	"btc/loader/format"
)

// findContainers adds the cgroups of the containers and pods in Options to those that the run is
// limited to, and records whose files the user-space probes are in. If there are both pods and
// containers, the containers are looked up in the pods.
func (s *session) findContainers() error {
	o := &s.opts
	if len(o.Containers)+len(o.Pods) == 0 {
		return nil
	}
	host, err := containers.Local()
	if err != nil {
		return err
	}
	var pods, found []*containers.Target
	for _, name := range o.Pods {
		t, err := s.await(host, containers.Pod, name, func() (*containers.Target, error) { return host.Pod(name) })
		if err != nil {
			return err
		}
		pods = append(pods, t)
	}
	for _, name := range o.Containers {
		t, err := s.await(host, containers.Container, name, func() (*containers.Target, error) {
			return host.Container(name, pods...)
		})
		if err != nil {
			return err
		}
		found = append(found, t)
	}
	if len(found) == 0 {
		found = pods
	}
	o.Cgroups, s.groupNames = slices.Clone(o.Cgroups), map[string]string{}
	for _, t := range found {
		s.inside = append(s.inside, t.Processes...)
		for _, dir := range t.Cgroups {
			if s.groupNames[dir] == "" {
				o.Cgroups = append(o.Cgroups, dir)
			}
			s.groupNames[dir] = t.Kind.String() + " " + t.Label
		}
	}
	return nil
}

// await finds a container or pod, and waits for it if Options.Wait is set.
func (s *session) await(host *containers.Host, kind containers.Kind, name string,
	find func() (*containers.Target, error)) (*containers.Target, error) {
	if s.opts.Wait == nil {
		return find()
	}
	return host.Wait(s.opts.Wait, find, func() {
		if !s.opts.Quiet {
			fmt.Fprintf(s.opts.Err, "Waiting for %s %s\n", kind, name)
		}
	})
}

// containerOf returns a function that maps a cgroup to its container or pod. The function must not
// be called concurrently.
func (s *session) containerOf(path string) format.Container {
	if !s.looked {
		s.looked = true
		s.containers, _ = containers.Local() // without a host, no cgroup has a name
	}
	if s.containers == nil {
		return format.Container{}
	}
	label, names := s.containers.Label(path)
	return format.Container{Label: label, Namespace: names.Namespace, Pod: names.Pod, Name: names.Container}
}
