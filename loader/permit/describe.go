package permit

import (
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"

	"btc/internal/manifest"
	"btc/loader/object"
)

// Description says what an object may do, in the order in which it is printed.
type Description struct {
	Object      string       `json:"object"`
	SHA256      string       `json:"sha256"`
	Script      string       `json:"script"`
	Compiler    string       `json:"compiler"`
	Target      string       `json:"target"`
	Arches      []string     `json:"arches"`
	Permissions []string     `json:"permissions"` // what --allow must name; "unsafe" for what only --unsafe covers
	Actions     []ActionText `json:"actions"`
	Probes      []ProbeText  `json:"probes"`
	Reads       []string     `json:"reads"`     // files that the loader reads for it
	Helpers     []string     `json:"helpers"`   // of the kernel, without "bpf_"
	Kfuncs      []string     `json:"kfuncs"`    // kernel functions
	MapBytes    int          `json:"map_bytes"` // on this machine, when full, but for the ring buffer
	Maps        []MapText    `json:"maps"`
}

// ActionText is an Action.
type ActionText struct {
	Permission string `json:"permission"`
	What       string `json:"what"`
	Path       string `json:"path,omitempty"`
	Line       int    `json:"line,omitempty"`
}

// ProbeText is an attach point; the host expands patterns.
type ProbeText struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
	Line int    `json:"line,omitempty"`
}

// MapText is a map of the script.
type MapText struct {
	Name    string `json:"name"`
	Shape   string `json:"shape"`
	Entries int    `json:"entries"`
	Bytes   int    `json:"bytes"`
}

// Describe derives what an object may do. cpus is the number of possible CPUs.
func Describe(o *object.Object, cpus int) *Description {
	m := o.Manifest
	d := &Description{Object: o.Path, SHA256: m.Object.SHA256, Script: m.Script.File, Compiler: m.Compiler, Target: m.Target, Arches: m.Arches,
		Permissions: []string{}, Actions: []ActionText{}, Probes: []ProbeText{}, Maps: []MapText{}}
	for _, a := range Actions(o) {
		name := string(a.Permission)
		switch {
		case a.Permission == none:
			name = "unsafe"
		case a.Path != "":
			d.Permissions = append(d.Permissions, name+"="+a.Path)
		}
		if a.Path == "" {
			d.Permissions = append(d.Permissions, name)
		}
		d.Actions = append(d.Actions, ActionText{name, a.What, a.Path, a.Pos.Line})
	}
	slices.Sort(d.Permissions)
	d.Permissions = slices.Compact(d.Permissions)
	for i := range m.Programs {
		p := &m.Programs[i]
		d.Probes = append(d.Probes, ProbeText{p.Kind, p.Attach.Attaches(p.Kind), p.Pos.Line})
	}
	d.Reads = reads(m)
	d.Helpers, d.Kfuncs = Calls(o.Spec)
	for name, s := range o.Spec.Maps {
		n := int(min(MapMemory(s, cpus), 1<<62))
		d.MapBytes = min(d.MapBytes+n, 1<<62)
		for i := range m.Maps {
			if x := &m.Maps[i]; x.Symbol == name && x.Shape != "intern" {
				d.Maps = append(d.Maps, MapText{x.Name, x.Shape, x.MaxEntries, n})
			}
		}
	}
	sort.SliceStable(d.Maps, func(i, j int) bool { return d.Maps[i].Name < d.Maps[j].Name })
	return d
}

// reads lists what the loader reads and prints for the script.
func reads(m *manifest.Manifest) []string {
	all := []string{}
	for i := range m.Events {
		if e := &m.Events[i]; e.Kind == "cat" {
			all = append(all, e.Format)
		}
	}
	for i := range m.Globals {
		if g := &m.Globals[i]; g.Host == "cgroupid" || g.Host == "uaddr" || g.Host == "uaddr_code" {
			all = append(all, g.Text)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// JSON is the description as one JSON object.
func (d *Description) JSON() []byte { return manifest.AppendJSON(nil, d) }

// Print writes the description for a reader.
func (d *Description) Print(w io.Writer) {
	fmt.Fprintf(w, "%s: %s, compiled by %s for Linux %s on %s\n", d.Object, d.Script, d.Compiler, d.Target, strings.Join(d.Arches, " and "))
	fmt.Fprintf(w, "sha256 %s\n", d.SHA256)
	fmt.Fprintln(w, "\nPermissions it needs:")
	if len(d.Permissions) == 0 {
		fmt.Fprintln(w, "  none: it observes, and changes nothing")
	}
	for _, p := range d.Permissions {
		if p == "unsafe" {
			fmt.Fprintln(w, "  --unsafe")
		} else {
			fmt.Fprintln(w, "  --allow", p)
		}
	}
	for _, a := range d.Actions {
		fmt.Fprintf(w, "    %s%s\n", a.What, line(a.Line))
	}
	fmt.Fprintln(w, "\nProbes:")
	for _, p := range d.Probes {
		fmt.Fprintf(w, "  %s%s\n", p.Text, line(p.Line))
	}
	list(w, "Files it reads and prints:", d.Reads)
	list(w, "Kernel functions it calls:", d.Kfuncs)
	fmt.Fprintf(w, "\nMaps, %s on this machine when full:\n", Size(uint64(d.MapBytes)))
	for _, x := range d.Maps {
		fmt.Fprintf(w, "  %s (%s), up to %d elements, %s\n", x.Name, x.Shape, x.Entries, Size(uint64(x.Bytes)))
	}
	fmt.Fprintf(w, "\nBPF helpers it calls:\n  %s\n", strings.Join(d.Helpers, ", "))
}

func line(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("  (line %d)", n)
}

func list(w io.Writer, title string, all []string) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(w, "\n"+title)
	for _, s := range all {
		fmt.Fprintf(w, "  %q\n", s)
	}
}
