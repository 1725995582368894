// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"

	"btc/frontend/debuginfo"
	"btc/internal/probe"
)

// kindOfFunctions reports whether probes of a kind are on functions of programs.
func kindOfFunctions(kind string) bool {
	t := probe.Find(kind)
	return t != nil && (t.Kind == probe.Uprobe || t.Kind == probe.Uretprobe)
}

// userFunctions lists the functions of a program that match a pattern such as "/bin/x:f*" or
// "/bin/x:cpp:ns::f", with their parameters, from its debug information on this machine. Without
// verbose, and for other user-space probes, btrun lists them on the host.
func (l *lister) userFunctions(kind, pattern string) error {
	file, name, ok := strings.Cut(pattern, ":")
	if kind != probe.Uprobe && kind != probe.Uretprobe || !ok {
		return fmt.Errorf("%s probes are found by the host: btrun --list '%s:%s'", kind, kind, pattern)
	}
	fits := func(symbol string) bool { return probe.Glob(name, symbol) }
	if cpp, ok := strings.CutPrefix(name, "cpp:"); ok {
		fits = func(symbol string) bool { return debuginfo.Matches(cpp, symbol) }
	}
	bin, err := l.files.Open(file)
	if errors.Is(err, debuginfo.ErrNone) {
		return fmt.Errorf("%w; btrun --list '%s:%s' lists names without parameters", err, kind, pattern)
	}
	if err != nil {
		return err
	}
	for _, symbol := range bin.Functions(fits) {
		fmt.Fprintf(l.out, "%s:%s:%s\n", kind, file, symbol)
		fn, err := bin.Func(symbol)
		if err != nil {
			continue
		}
		for _, p := range fn.Params {
			fmt.Fprintf(l.out, "    %s %s\n", p.C, p.Name)
		}
	}
	return nil
}
