// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// A bundle that cannot read itself is an error, and btrun does not need to.
func TestUnreadable(t *testing.T) {
	failed := func(e syscall.Errno) error { return &os.PathError{Op: "open", Path: "/proc/self/exe", Err: e} }
	for _, c := range []struct {
		err  error
		name string
		says string
	}{
		{failed(syscall.EACCES), "reads", "cannot read this executable, which may contain an object: open /proc/self/exe: permission denied: chmod a+r it"},
		{failed(syscall.EIO), "reads", "input/output error"},
		{failed(syscall.ENOENT), "reads", ""}, // no /proc
		{failed(syscall.EACCES), "btrun", ""},
		{failed(syscall.EACCES), "btrun-arm64", ""},
	} {
		if err := unreadable(c.err, c.name); (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, %s: %v", c.err, c.name, err)
		}
	}
}

func TestDescription(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{"", ""},
		{"begin { } // later", ""},
		{"// one\n// two\nbegin { }", "one\ntwo"},
		{"#!/usr/bin/bpftrace\n\n// SPDX-License-Identifier: MIT\n\n// one\n//\n// two", "one"},
		{"/* one */\nbegin { }", "one"},
		{"/*\n * one\n *   two\n *\n * three\n */\nbegin { }", "one\ntwo"},
		{"/**\n * one\n */\n// two\nbegin { }", "one"},
		{"/* one */ begin { } /* two */", "one"},
		{"// \x1b[2J", "\ufffd[2J"},
	} {
		if got := description(c.source); got != c.want {
			t.Errorf("%q: %q, want %q", c.source, got, c.want)
		}
	}
}
