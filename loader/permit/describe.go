// SPDX-License-Identifier: Apache-2.0

package permit

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"btc/internal/manifest"
	"btc/loader/format"
	"btc/loader/object"
	"btc/loader/rewrite"
)

// Description lists what an object may do, in the order in which it is printed.
type Description struct {
	Object      string       `json:"object"`
	SHA256      string       `json:"sha256"`
	Script      string       `json:"script"`
	Compiler    string       `json:"compiler"`
	Target      string       `json:"target"`
	Arches      []string     `json:"arches"`
	Permissions []string     `json:"permissions"` // permissions for --allow; "unsafe" for actions that only --unsafe allows
	Actions     []ActionText `json:"actions"`
	Probes      []ProbeText  `json:"probes"`
	Reads       []string     `json:"reads"`     // files that the loader reads for it
	Helpers     []string     `json:"helpers"`   // helpers of the kernel, without "bpf_"
	Kfuncs      []string     `json:"kfuncs"`    // kernel functions
	MapBytes    int          `json:"map_bytes"` // on this machine, when full, except the ring buffer
	Maps        []MapText    `json:"maps"`
	// Loops are the lines of the loops that take from the budget of their run.
	Loops []string `json:"limited_loops,omitempty"`
	// Signatures are the signature files of the object.
	Signatures []SignatureText `json:"signatures,omitempty"`
	// Policy is the file of the host's policy, "" if there is none; Refuses are what it refuses of
	// the object, and Limits what it sets.
	Policy  string   `json:"policy,omitempty"`
	Refuses []string `json:"policy_refuses,omitempty"`
	Limits  []string `json:"policy_limits,omitempty"`
}

// SignatureText is a signature file.
type SignatureText struct {
	File    string `json:"file"`
	Key     string `json:"key,omitempty"`
	Name    string `json:"name,omitempty"`
	Comment string `json:"comment,omitempty"`
	State   string `json:"state"` // "verified", "not verified" without keys, or why it is refused
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
	d := &Description{
		Object:      o.Path,
		SHA256:      m.Object.SHA256,
		Script:      m.Script.File,
		Compiler:    m.Compiler,
		Target:      m.Target,
		Arches:      m.Arches,
		Permissions: []string{},
		Actions:     []ActionText{},
		Probes:      []ProbeText{},
		Maps:        []MapText{},
	}
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
		bounds, _ := rewrite.FindLoops(o.Spec.Programs[p.Name].Instructions, o.Spec.Maps)
		for _, l := range bounds.Loops {
			at := p.Pos.Line
			if l.Line != nil {
				at = int(l.Line.LineNumber())
			}
			if text := strconv.Itoa(at); !slices.Contains(d.Loops, text) {
				d.Loops = append(d.Loops, text)
			}
		}
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

// reads lists the files that the loader reads and prints for the script.
func reads(m *manifest.Manifest) []string {
	all := []string{}
	for i := range m.Events {
		if e := &m.Events[i]; e.Kind == "cat" {
			all = append(all, e.Format)
		}
	}
	for i := range m.Globals {
		if g := &m.Globals[i]; g.Host == manifest.HostCgroupID || g.Host == manifest.HostUaddr || g.Host == manifest.HostUaddrCode {
			all = append(all, m.TextOf(g.Text, g.TextFrom))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// JSON returns the description as one JSON object, with a newline at the end. It is hand-written because encoding/json
// would add 246 KB to btrun.
func (d *Description) JSON() []byte {
	j := &jsonWriter{}
	all := []member{
		{"object", d.Object}, {"sha256", d.SHA256}, {"script", d.Script}, {"compiler", d.Compiler}, {"target", d.Target},
		{"arches", d.Arches}, {"permissions", d.Permissions},
		{"actions", rows(d.Actions, func(a ActionText) []member {
			row := []member{{"permission", a.Permission}, {"what", a.What}}
			if a.Path != "" {
				row = append(row, member{"path", a.Path})
			}
			return withLine(row, a.Line)
		})},
		{"probes", rows(d.Probes, func(p ProbeText) []member {
			return withLine([]member{{"kind", p.Kind}, {"text", p.Text}}, p.Line)
		})},
		{"reads", d.Reads}, {"helpers", d.Helpers}, {"kfuncs", d.Kfuncs}, {"map_bytes", d.MapBytes},
		{"maps", rows(d.Maps, func(x MapText) []member {
			return []member{{"name", x.Name}, {"shape", x.Shape}, {"entries", x.Entries}, {"bytes", x.Bytes}}
		})},
	}
	if len(d.Loops) > 0 {
		all = append(all, member{"limited_loops", d.Loops})
	}
	if len(d.Signatures) > 0 {
		all = append(all, member{"signatures", rows(d.Signatures, func(s SignatureText) (row []member) {
			for _, m := range []member{{"file", s.File}, {"key", s.Key}, {"name", s.Name}, {"comment", s.Comment}, {"state", s.State}} {
				if m.value != "" {
					row = append(row, m)
				}
			}
			return row
		})})
	}
	if d.Policy != "" {
		all = append(all, member{"policy", d.Policy}, member{"policy_refuses", d.Refuses},
			member{"policy_limits", d.Limits})
	}
	j.object(1, all)
	return append(j.out, '\n')
}

// member is a name in a JSON object with its value: a string, an int, or a list of
// strings or of objects.
type member struct {
	name  string
	value any
}

func rows[T any](all []T, row func(T) []member) [][]member {
	out := make([][]member, len(all))
	for i, x := range all {
		out[i] = row(x)
	}
	return out
}

func withLine(row []member, line int) []member {
	if line == 0 {
		return row
	}
	return append(row, member{"line", line})
}

type jsonWriter struct{ out []byte }

func (j *jsonWriter) quote(s string) { j.out = format.AppendQuoted(j.out, []byte(s)) }

// items writes n items between brackets, one per line at the given depth.
func (j *jsonWriter) items(depth, n int, brackets string, item func(i int)) {
	j.out = append(j.out, brackets[0])
	for i := range n {
		if i > 0 {
			j.out = append(j.out, ',')
		}
		j.out = append(append(j.out, '\n'), strings.Repeat(" ", depth)...)
		item(i)
	}
	if n > 0 {
		j.out = append(append(j.out, '\n'), strings.Repeat(" ", depth-1)...)
	}
	j.out = append(j.out, brackets[1])
}

func (j *jsonWriter) object(depth int, all []member) {
	j.items(depth, len(all), "{}", func(i int) {
		j.quote(all[i].name)
		j.out = append(j.out, ": "...)
		switch v := all[i].value.(type) {
		case string:
			j.quote(v)
		case int:
			j.out = strconv.AppendInt(j.out, int64(v), 10)
		case []string:
			j.items(depth+1, len(v), "[]", func(i int) { j.quote(v[i]) })
		case [][]member:
			j.items(depth+1, len(v), "[]", func(i int) { j.object(depth+2, v[i]) })
		}
	})
}

// Print writes the description for a reader.
func (d *Description) Print(w io.Writer) {
	one := *d
	d = &one
	clean(reflect.ValueOf(d).Elem())
	fmt.Fprintf(w, "%s: %s, compiled by %s for Linux %s on %s\n", d.Object, d.Script, d.Compiler, d.Target,
		strings.Join(d.Arches, " and "))
	fmt.Fprintf(w, "sha256 %s\n", d.SHA256)
	for _, s := range d.Signatures {
		by := s.Key
		if s.Name != "" {
			by = s.Name + " (" + s.Key + ")"
		}
		if by != "" {
			by += ", "
		}
		fmt.Fprintf(w, "%s: %s%s\n", s.File, by, s.State)
	}
	fmt.Fprintln(w, "\nPermissions it needs:")
	if len(d.Permissions) == 0 {
		fmt.Fprintln(w, "  none: it only observes")
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
	if len(d.Loops) > 0 {
		fmt.Fprintf(w, "\nLoops that stop after 0.25 s of CPU time in a run, unless --allow long-loops lifts this:\n  line %s\n",
			strings.Join(d.Loops, ", "))
	}
	fmt.Fprintf(w, "\nMaps, %s on this machine when full:\n", Size(uint64(d.MapBytes)))
	rest := d.MapBytes
	for _, x := range d.Maps {
		room := ""
		if x.Entries > 1 {
			room = fmt.Sprintf(", up to %d elements", x.Entries)
		}
		fmt.Fprintf(w, "  %s (%s)%s, %s\n", x.Name, x.Shape, room, Size(uint64(x.Bytes)))
		rest -= x.Bytes
	}
	if rest > 0 {
		fmt.Fprintf(w, "  internal maps, %s\n", Size(uint64(rest)))
	}
	if d.Policy != "" {
		fmt.Fprintf(w, "\nThe policy of this host, %s:\n", d.Policy)
		for _, text := range d.Refuses {
			fmt.Fprintln(w, "  refuses", text)
		}
		for _, text := range d.Limits {
			fmt.Fprintln(w, "  limits", text)
		}
		if len(d.Refuses)+len(d.Limits) == 0 {
			fmt.Fprintln(w, "  permits it")
		}
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

// clean replaces the control characters in all strings of v, so that those of an object add no lines. Lists are copied.
func clean(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return utf8.RuneError
			}
			return r
		}, v.String()))
	case reflect.Struct:
		for i := range v.NumField() {
			clean(v.Field(i))
		}
	case reflect.Slice:
		all := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(all, v)
		v.Set(all)
		for i := range v.Len() {
			clean(v.Index(i))
		}
	}
}
