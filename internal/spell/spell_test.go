// SPDX-License-Identifier: Apache-2.0

package spell

import "testing"

func TestNearest(t *testing.T) {
	for _, c := range []struct {
		name string
		all  []string
		want string
	}{
		{"kprob", []string{"uprobe", "kprobe", "kretprobe"}, "kprobe"},
		{"pritnf", []string{"print", "printf"}, "printf"},
		{"prinft", []string{"print", "printf"}, "printf"},
		{"prinf", []string{"print", "printf"}, "printf"},
		{"fil", []string{"fid", "file"}, "file"},
		{"uint46", []string{"uint16", "uint64"}, "uint64"},
		{"TaskStruct", []string{"task", "task_struct"}, "task_struct"},
		{"state", []string{"__state"}, "__state"},
		{"x", []string{"y"}, ""},
		{"nothing_like_it", []string{"pid", "tid"}, ""},
		{"abc", nil, ""},
		{"", []string{"a"}, ""},
	} {
		if got := Nearest(c.name, c.all); got != c.want {
			t.Errorf("Nearest(%q, %q) = %q, want %q", c.name, c.all, got, c.want)
		}
	}
}
