// SPDX-License-Identifier: Apache-2.0

package export

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/btf"

	"btc/internal/arch"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/object"
)

// Gadget returns gadget.yaml, the metadata with which Inspektor Gadget runs an object, and a line
// for each map and probe of the script that it does not show or run. name is the gadget's name. It
// returns an error if nothing is left, or if the object is not compiled for Inspektor Gadget.
//
// Inspektor Gadget finds the maps by names in the object. The metadata adds what the object does
// not contain: help texts, units, and the frequency of clock programs. It also turns off programs
// that Inspektor Gadget cannot attach, because a single one would end the gadget. The metadata is
// for machines of one architecture, which may lack some system calls; nil: for any.
func Gadget(o *object.Object, name string, a *arch.Arch) (text string, left []string, err error) {
	m := o.Manifest
	if m.For != "gadget" {
		return "", nil, errors.New("the object is not compiled for it: use btc compile --for gadget")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Written by btc export gadget from %s.\nname: %s\ndescription: %s\n",
		strings.Map(printable, m.Script.File), quoted(name), quoted("Made by btc from "+m.Script.File+"."))
	sources, left := gadgetSources(o)
	events, more := gadgetEvents(m)
	sources += events
	left = append(left, more...)
	if sources == "" {
		return "", left, errors.New("no map or printf of the script can be shown by Inspektor Gadget")
	}
	b.WriteString("datasources:\n" + sources)
	programs, more := gadgetPrograms(m, a)
	if programs != "" {
		b.WriteString("programs:\n" + programs)
	}
	b.WriteString(gadgetParams(m))
	return b.String(), append(append(left, more...), hostValues(m)...), nil
}

// hostValues lists the values that only btc's own loaders look up on the host. (The address of
// jiffies is not needed.)
func hostValues(m *manifest.Manifest) (left []string) {
	for i := range m.Globals {
		g := &m.Globals[i]
		if g.Host == "" || g.Host == "kaddr_or_0" {
			continue
		}
		left = append(left, fmt.Sprintf("%s(%q): it is 0, because only btrun and btrace look it up on the host",
			strings.TrimSuffix(string(g.Host), "_code"), m.TextOf(g.Text, g.TextFrom)))
	}
	return left
}

// given returns the value that a parameter has in the object.
func given(m *manifest.Manifest, p *manifest.Param) string {
	if m.Given != nil {
		if v, ok := m.Given.Options[p.Name]; ok {
			return v
		}
		n, err := strconv.Atoi(strings.TrimPrefix(p.Name, "$"))
		if err == nil && strings.HasPrefix(p.Name, "$") && n >= 1 && n <= len(m.Given.Values) {
			return m.Given.Values[n-1]
		}
	}
	return p.Default
}

// gadgetParams describes the parameters.
func gadgetParams(m *manifest.Manifest) string {
	var b strings.Builder
	taken := map[string]bool{}
	for i := range m.Params {
		p := &m.Params[i]
		if m.Global("gadget_param_"+p.Global) == nil {
			continue
		}
		key := strings.Replace(p.Name, "$", "param", 1)
		if taken[key] { // the same value as a string
			key += "-string"
		}
		taken[key] = true
		value, help := given(m, p), p.Help
		if value == "" && p.Type != "string" {
			value = "0"
		}
		if help == "" {
			help = "Parameter " + p.Name + " of the script."
		}
		if b.Len() == 0 {
			b.WriteString("params:\n  ebpf:\n")
		}
		fmt.Fprintf(&b, "    %s:\n      key: %s\n      defaultValue: %s\n      description: %s\n",
			p.Global, quoted(key), quoted(value), quoted(help))
	}
	return b.String()
}

// takenMaps returns the maps from which Inspektor Gadget takes the elements, as marked by the
// compiler.
func takenMaps(m *manifest.Manifest) (taken []*manifest.Map, left []string) {
	for i := range m.Maps {
		x := &m.Maps[i]
		switch {
		case x.Shape == "intern" || x.Shape == "stack":
		case m.Global("gadget_mapiter_"+x.Symbol+"___"+x.Symbol) != nil:
			taken = append(taken, x)
		case x.Shape == "tseries":
			left = append(left,
				fmt.Sprintf("%s: tseries() needs a value for each CPU, and a gadget's map has one", x.Name))
		case x.Shape == "plain" && x.Grows || hasStack(x.Key):
			left = append(left, fmt.Sprintf("%s: stacks are not in its keys", x.Name))
		case x.Shape == "plain":
			left = append(left,
				fmt.Sprintf("%s: it is not a counter: the script does more than add constants to it", x.Name))
		default:
			left = append(left,
				fmt.Sprintf("%s: the script reads or deletes elements, but Inspektor Gadget deletes all elements when it reads the map", x.Name))
		}
	}
	return taken, left
}

// hasStack reports whether a key refers to a stack.
func hasStack(l *manifest.Layout) bool {
	if l == nil {
		return false
	}
	return l.Kind == "kstack" || l.Kind == "ustack" || hasStack(l.Elem) ||
		slices.ContainsFunc(l.Fields, func(f manifest.Field) bool { return hasStack(&f.Layout) })
}

// gadgetEvents describes the data sources that are events.
func gadgetEvents(m *manifest.Manifest) (text string, left []string) {
	var b strings.Builder
	said, shown := map[string]bool{}, map[manifest.Pos]bool{}
	for i := range m.Events {
		if m.Events[i].Kind == "printf" && m.Map(eventName(m, i)) != nil {
			shown[m.Events[i].Pos] = true
		}
	}
	for i := range m.Events {
		e := &m.Events[i]
		name := eventName(m, i)
		switch {
		case e.Kind == "printf" && m.Map(name) != nil:
			fmt.Fprintf(&b, "  %s:\n    annotations:\n      description: %s\n", name, quoted(e.Format))
		case e.Kind == "printf" && shown[e.Pos]: // belongs to another probe of the clause
		case e.Kind == "printf":
			left = append(
				left,
				fmt.Sprintf("printf(%s): its probe is not attached, or it has no value that can be a column",
					quoted(e.Format)),
			)
		case !said[e.Kind]:
			said[e.Kind] = true
			left = append(left, fmt.Sprintf("%s: only btrun and btrace act on its events", e.Kind))
		}
	}
	return b.String(), left
}

// eventName returns the name that the compiler has given to event i: its kind, and its index among
// events of that kind.
func eventName(m *manifest.Manifest, i int) string {
	n := 0
	for j := range i {
		if m.Events[j].Kind == m.Events[i].Kind {
			n++
		}
	}
	return m.Events[i].Kind + strconv.Itoa(n)
}

// gadgetSources describes the data sources that are maps.
func gadgetSources(o *object.Object) (text string, left []string) {
	m := o.Manifest
	taken, left := takenMaps(m)
	var b strings.Builder
	for _, x := range taken {
		drawn := x.Stored != nil && x.Stored.Low
		fmt.Fprintf(&b, "  %s:\n    annotations:\n", x.Symbol)
		help := x.Help
		if help == "" {
			help = fmt.Sprintf("%s of %s", x.Name, m.Script.File)
		}
		fmt.Fprintf(&b, "      description: %s\n", quoted(help))
		b.WriteString("      ebpf.map.flush-on-stop: \"true\"\n      metrics.collect: \"true\"\n")
		if drawn && len(taken) == 1 { // Inspektor Gadget draws one data source only
			b.WriteString("      metrics.print: \"true\"\n")
		}
		keys := gadgetColumns(o.Spec.Maps[x.Symbol].Key)
		if len(keys) == 0 && x.Unit == "" {
			continue
		}
		b.WriteString("    fields:\n")
		for _, k := range keys {
			fmt.Fprintf(&b, "      %s:\n        annotations:\n          metrics.type: key\n", k)
		}
		if x.Unit != "" {
			value := gadgetColumns(o.Spec.Maps[x.Symbol].Value)
			fmt.Fprintf(&b, "      %s:\n        annotations:\n          metrics.unit: %s\n", value[len(value)-1],
				quoted(x.Unit))
		}
	}
	return b.String(), left
}

// gadgetColumns returns the members of a struct that Inspektor Gadget shows as one number or
// string.
func gadgetColumns(t btf.Type) (names []string) {
	s, ok := t.(*btf.Struct)
	if !ok {
		return nil
	}
	for _, m := range s.Members {
		if strings.HasPrefix(m.Name, "__") {
			continue
		}
		switch t := btf.UnderlyingType(m.Type).(type) {
		case *btf.Int, *btf.Enum:
			names = append(names, m.Name)
		case *btf.Array:
			if size, err := btf.Sizeof(t.Type); err == nil && size == 1 {
				names = append(names, m.Name)
			}
		}
	}
	return names
}

// gadgetPrograms describes the programs that need metadata to be attached by Inspektor Gadget, and
// turns off those that it cannot attach.
func gadgetPrograms(m *manifest.Manifest, a *arch.Arch) (text string, left []string) {
	var b strings.Builder
	for i := range m.Programs {
		p := &m.Programs[i]
		hz, ok := p.Attach.Frequency()
		switch {
		case p.Kind == probe.Profile && ok && strings.HasPrefix(p.Section, "perf_event/"):
			fmt.Fprintf(
				&b,
				"  %s:\n    perf:\n      type: software\n      config: count_sw_cpu_clock\n      sampleType: sample_raw\n"+
					"    sampler:\n      frequency: %s\n",
				p.Name,
				strconv.FormatUint(hz, 10),
			)
		case a != nil && p.Kind == probe.Tracepoint && p.Attach.Target == "syscalls" && a.ForeignSyscall(p.Attach.Name):
			fmt.Fprintf(&b, "  %s:\n    attach_to: gadget_program_disabled\n", p.Name)
			left = append(left,
				fmt.Sprintf("%s: machines of the architecture %s have no such system call", p.Attach.Text, a.Label))
		case !gadgetAttaches(p):
			fmt.Fprintf(&b, "  %s:\n    attach_to: gadget_program_disabled\n", p.Name)
			left = append(left, fmt.Sprintf("%s: Inspektor Gadget cannot attach it", p.Attach.Text))
		}
	}
	return b.String(), left
}

// gadgetAttaches reports whether Inspektor Gadget attaches a program based on its section.
func gadgetAttaches(p *manifest.Program) bool {
	switch p.Kind {
	case probe.Kprobe,
		probe.Kretprobe,
		probe.Tracepoint,
		probe.RawTracepoint,
		probe.Fentry,
		probe.Fexit,
		probe.Uprobe,
		probe.Uretprobe:
		return strings.Contains(p.Section, "/")
	}
	return false
}
