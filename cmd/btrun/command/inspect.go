// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"io"
	"strings"

	"github.com/cilium/ebpf"

	"btc/loader/diag"
	"btc/loader/permit"
	"btc/loader/policy"
)

// inspect lists what an object may do, without loading anything.
func inspect(o *arguments, stdout, stderr io.Writer) int {
	obj, err := o.readObject()
	if err != nil {
		fmt.Fprintf(stderr, "btrun: %s\n", diag.Printable(err.Error()))
		return 1
	}
	if _, err := (*policy.Policy)(nil).Verify(obj, o.keys); err != nil {
		fmt.Fprintf(stderr, "btrun: %s\n", diag.Printable(err.Error()))
		return 1
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		fmt.Fprintf(stderr, "btrun: number of CPUs: %v\n", err)
		return 1
	}
	d := permit.Describe(obj, cpus)
	d.Signatures = o.policy.Signatures(obj, o.keys)
	if o.policy != nil {
		d.Policy = policy.Path
		d.Refuses, d.Limits = o.policy.Describe(obj, uint64(d.MapBytes))
	}
	if o.format.JSON {
		stdout.Write(d.JSON())
		return 0
	}
	var text strings.Builder
	d.Print(&text)
	fmt.Fprint(stdout, diag.Printable(text.String()))
	return 0
}
