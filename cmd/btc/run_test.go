// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"slices"
	"testing"

	"btc/internal/option"
)

// TestPassOn checks how the options of btrun are passed on to it: with their values, and without one that was left out.
func TestPassOn(t *testing.T) {
	var text string
	var flag bool
	for _, c := range []struct {
		o     option.Option
		value string
		want  []string
	}{
		{option.Option{Name: "o", Value: "FILE", To: &text}, "x", []string{"--o=x"}},
		{option.Option{Name: "o", Value: "FILE", To: &text}, "", []string{"--o="}},
		{option.Option{Name: "list", Value: "PATTERN", Optional: true, To: &text}, "", []string{"--list"}},
		{option.Option{Name: "list", Value: "PATTERN", Optional: true, To: &text}, "x", []string{"--list=x"}},
		{option.Option{Name: "quiet", To: &flag}, "", []string{"--quiet"}},
	} {
		r := &runner{}
		if err := r.passOn(c.o)(c.value); err != nil || !slices.Equal(r.forward, c.want) {
			t.Errorf("--%s with %q: %q, %v, want %q", c.o.Name, c.value, r.forward, err, c.want)
		}
	}
	r := &runner{}
	number := option.Option{Name: "n", Value: "N", To: func(string) error { return errors.New("wrong") }}
	if err := r.passOn(number)("x"); err == nil || r.forward != nil {
		t.Errorf("a wrong value: %v, passed on: %q", err, r.forward)
	}
}

func TestTargetsGiven(t *testing.T) {
	for _, c := range []struct {
		files, arches []string
		given, host   bool
	}{{nil, nil, false, false}, {[]string{"a"}, nil, true, false}, {nil, []string{"arm64"}, true, false}, {[]string{"a", "host"}, []string{"arm64"}, true, true}} {
		x := &targetFlags{files: c.files, arches: c.arches}
		if x.given() != c.given || x.host() != c.host {
			t.Errorf("%q, %q: given %v, host %v", c.files, c.arches, x.given(), x.host())
		}
	}
}
