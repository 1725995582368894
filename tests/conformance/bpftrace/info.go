// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"

	"btc/loader/host"
)

// info prints the part of --info that the test engine reads: which features are available. Those that
// btc provides on every kernel, such as loops, always are.
func info() {
	h, err := host.Probe()
	check(err)
	_, err = os.Stat("/sys/kernel/btf/vmlinux")
	btf := !errors.Is(err, os.ErrNotExist)
	for _, f := range []struct {
		name string
		is   bool
	}{
		{"Loop support", true}, {"loop", true}, {"probe_read_kernel", true}, {"send_signal", true},
		{"libdw (DWARF support)", true}, {"bcc library path resolution", true}, {"dwunwind (DWARF stack unwinding)", true},
		{"blazesym (advanced symbolization)", false}, {"get_func_ip", true}, {"get_tai_ns", true}, {"get_ktime_ns", true},
		{"lookup_percpu_elem", true}, {"jiffies64", true}, {"skboutput", true},
		{"btf", btf}, {"fentry", btf}, {"dpath", btf}, {"iter", btf},
		{"kprobe_multi", h.KprobeMulti()}, {"kprobe_session", h.KprobeSession()}, {"uprobe_multi", h.UprobeMulti()},
	} {
		word := "no"
		if f.is {
			word = "yes"
		}
		fmt.Printf("  %s: %s\n", f.name, word)
	}
	os.Exit(0)
}
