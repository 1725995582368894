// SPDX-License-Identifier: Apache-2.0

// Command library runs an object with package btrace, and a workload (the other arguments). It prints
// the contents of maps and the number of events in the form that the tests in tests/loaders expect.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"btc/btrace"
)

func main() {
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(object string, workload []string) error {
	o, err := btrace.Open(object)
	if err != nil {
		return err
	}
	s, err := btrace.Load(o, btrace.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Attach(context.Background()); err != nil {
		return err
	}
	if out, err := exec.Command(workload[0], workload[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	s.Stop()
	events := 0
	for range s.Events() {
		events++
	}
	if events > 0 {
		fmt.Println(events, "events")
		return nil
	}
	var lines []string
	stacks := btrace.Count(0)
	for _, m := range s.Maps() {
		x, err := m.Snapshot()
		if err != nil {
			return err
		}
		symbol := strings.TrimPrefix(m.Name(), "@")
		if symbol == "" {
			symbol = "AT_"
		}
		for _, e := range x.Entries {
			key := "0"
			if !m.Scalar() {
				var parts []string
				for i, k := range e.Key {
					if _, ok := k.(btrace.Stack); ok {
						stacks += e.Value.(btrace.Count)
					}
					parts = append(parts, fmt.Sprintf("%s: %v", cmp.Or(m.KeyNames()[i], fmt.Sprint("key", i)), k))
				}
				key = "{" + strings.Join(parts, ", ") + "}"
			}
			lines = append(lines, fmt.Sprintf("%s[%s] = {%s}", symbol, key, valueText(e.Value)))
		}
	}
	if stacks > 0 {
		fmt.Println(stacks, "in stacks")
		return nil
	}
	slices.Sort(lines)
	fmt.Println(strings.Join(lines, "\n"))
	return nil
}

// valueText formats a value as its bytes, like found.
func valueText(v btrace.Value) string {
	switch v := v.(type) {
	case btrace.Count:
		return fmt.Sprintf("count: %d", v)
	case btrace.Sum:
		return fmt.Sprintf("sum: %v", v.Total)
	case btrace.Min:
		return fmt.Sprintf("set: 1, min: %v", v.Value)
	case btrace.Max:
		return fmt.Sprintf("set: 1, max: %v", v.Value)
	case btrace.Avg:
		return fmt.Sprintf("count: %d, total: %v", v.Count, v.Total)
	case btrace.Stats:
		return fmt.Sprintf("count: %d, total: %v", v.Count, v.Total)
	case *btrace.Hist:
		var slots []string
		for i, n := range v.Counts {
			if n > 0 {
				slots = append(slots, fmt.Sprintf("%d:%d", i, n))
			}
		}
		return "slots: [" + strings.Join(slots, " ") + "]"
	}
	return fmt.Sprint(v)
}
