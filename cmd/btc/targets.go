// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"btc/internal/arch"
	"btc/internal/option"
	"btc/targets/kernel"
)

// targetFlags holds the options for the kernels and architectures that the object must support.
type targetFlags struct {
	files  []string // --target, in order
	arches []string // --arch, labels
	native bool     // default: only this machine's architecture
}

func (t *targetFlags) options() option.Table {
	return option.Table{
		{Name: "target", Value: "FILE", Repeat: true, To: &t.files,
			Help: `target file to compile for, or "host"; may be repeated: types come from the first, the others are checked. Default: the embedded targets`},
		{Name: "arch", Value: "ARCHITECTURES", Repeat: true, To: t.addArches,
			Help: "architectures that the object must support, separated by commas: " + strings.Join(arch.Labels(),
				", ") + "; default: " + strings.Join(arch.Defaults(), " and ") + " where it can"},
	}
}

func (t *targetFlags) addArches(list string) error {
	for _, word := range strings.Split(list, ",") {
		a := arch.ByName(strings.TrimSpace(word))
		if a == nil {
			return fmt.Errorf("--arch: %q is not one of %s", word, strings.Join(arch.Labels(), ", "))
		}
		if !slices.Contains(t.arches, a.Label) {
			t.arches = append(t.arches, a.Label)
		}
	}
	return nil
}

// given reports whether the user selected what the object must support.
func (t *targetFlags) given() bool { return len(t.files)+len(t.arches) > 0 }

// host reports whether the running kernel is a target.
func (t *targetFlags) host() bool { return slices.Contains(t.files, "host") }

// open opens the targets, the one whose types are used first.
func (t *targetFlags) open() (*kernel.Target, []*kernel.Target, error) {
	if len(t.files) > 0 && len(t.arches) > 0 {
		return nil, nil, errors.New("--target and --arch cannot be combined: a target file has an architecture")
	}
	var all []*kernel.Target
	for _, name := range t.files {
		one, err := openTarget(name)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, one)
	}
	for _, label := range t.labels() {
		one, err := kernel.Default(label)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, one)
	}
	return all[0], all[1:], nil
}

// labels returns the architectures whose embedded targets are used.
func (t *targetFlags) labels() []string {
	switch {
	case len(t.files) > 0:
		return nil
	case len(t.arches) > 0:
		return t.arches
	case t.native && arch.Host() != nil:
		return []string{arch.Host().Label}
	}
	return arch.Defaults()
}

// openTarget opens one target: an embedded one (of the first architecture or of the named one), a
// file, or that of this host.
func openTarget(name string) (*kernel.Target, error) {
	switch {
	case name == "":
		return kernel.Default(arch.All()[0].Name)
	case arch.ByName(name) != nil:
		return kernel.Default(name)
	case name == "host":
		return hostTarget()
	case name == hostOrDefault:
		if t, err := hostTarget(); err == nil {
			return t, nil
		}
		if a := arch.Host(); a != nil {
			return kernel.Default(a.Name)
		}
		return openTarget("")
	}
	t, err := kernel.Open(name)
	if err != nil {
		return nil, fmt.Errorf("cannot read the target: %w", err)
	}
	return t, nil
}
