// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"btc/internal/aggregate"
	"btc/internal/manifest"
	"btc/internal/profile"
	"btc/loader/format"
	"btc/loader/render"
)

var (
	number = manifest.Layout{Kind: "int", Size: 8}
	comm   = manifest.Layout{Kind: "string", Size: 16}
	kstack = manifest.Layout{Kind: "kstack", Size: 8, Stack: "stack_k"}
	ustack = manifest.Layout{Kind: "ustack", Size: 16, Stack: "stack_u"}
)

// tuple returns the layout of a tuple of these parts.
func tuple(parts ...manifest.Layout) manifest.Layout {
	l := manifest.Layout{Kind: "tuple"}
	for _, p := range parts {
		l.Fields = append(l.Fields, manifest.Field{Layout: p, Off: l.Size})
		l.Size += p.Size
	}
	return l
}

func ids(n ...uint64) (b []byte) {
	for _, v := range n {
		b = binary.NativeEndian.AppendUint64(b, v)
	}
	return b
}

// stacks has the frames of two stacks, innermost first; the ID 9 was lost.
func stacks(l *manifest.Layout, id uint64, tgid uint32) []format.Frame {
	switch {
	case l.Kind == "kstack" && id == 1:
		return []format.Frame{{Address: 0xffff1, Sym: "vfs_read", Offset: 16}, {Address: 0xffff2, Sym: "ext4_x", File: "ext4"}}
	case l.Kind == "ustack" && id == 2:
		return []format.Frame{{Address: 0x7f01, Sym: "read", File: "/lib/libc.so", BuildID: "ab", FileOffset: 0x101}, {Address: 0x7f02, File: "/bin/x"}, {Address: format.UnwindFailure}}
	}
	return nil
}

// TestMake checks a sample in each order of a key: labels, the user's frames from their root on, then the kernel's.
func TestMake(t *testing.T) {
	pid := uint64(77)
	name := append([]byte("a;b\x00"), make([]byte, 12)...)
	for _, x := range []struct {
		key    manifest.Layout
		bytes  []byte
		names  []string
		labels []string
	}{
		{tuple(comm, ustack, kstack), append(append([]byte{}, name...), ids(2, pid, 1)...), []string{"comm", "ustack", "kstack"}, []string{"comm"}},
		{tuple(kstack, ustack, comm), append(ids(1, 2, pid), name...), nil, []string{"key3"}},
		{tuple(tuple(kstack, comm), ustack), append(append(ids(1), name...), ids(2, pid)...), []string{"where", "ustack"}, []string{"where.1"}},
	} {
		m := &manifest.Map{Name: "@us", Shape: "sum", Key: &x.key, Value: &number, MapNames: manifest.MapNames{KeyNames: x.names}}
		o := &manifest.Manifest{Script: manifest.Script{File: "x.bt"}, Maps: []manifest.Map{*m}}
		p := Make(o, m, []render.Element{{Key: x.bytes, State: aggregate.State{Value: 5}}}, &format.Env{Escape: true, Stack: stacks})
		if want := []profile.Type{{Name: "total", Unit: "microseconds"}}; !cmp.Equal(p.Types, want) {
			t.Errorf("types %v, want %v", p.Types, want)
		}
		if !cmp.Equal(p.Labels, x.labels) || !cmp.Equal(p.Samples[0].Labels, []string{"a;b"}) {
			t.Errorf("labels %q: %q", p.Labels, p.Samples[0].Labels)
		}
		var folded string
		p.Folded(func(line []byte) { folded += string(line) })
		if want := "a:b;[unwind_failure];[x];read;ext4_x_[k];vfs_read_[k] 5\n"; folded != want {
			t.Errorf("got  %swant %s", folded, want)
		}
		if f := p.Frames[p.Samples[0].Frames[2]]; f.Address != 0x101 || p.Mappings[f.Mapping-1] != (profile.Mapping{File: "/lib/libc.so", BuildID: "ab"}) {
			t.Errorf("%+v: the address of a file with a build ID is its offset", f)
		}
	}
}

// TestLost checks that a stack that was lost is a frame, and that one that never was is none.
func TestLost(t *testing.T) {
	key := tuple(ustack, kstack)
	m := &manifest.Map{Name: "@", Shape: "count", Key: &key, Value: &number}
	p := Make(&manifest.Manifest{}, m, []render.Element{{Key: ids(9, 1, 1)}, {Key: ids(0, 1, 1)}}, &format.Env{Stack: stacks})
	if n := len(p.Samples[0].Frames); n != 3 || p.Frames[p.Samples[0].Frames[0]].Name != profile.NoStack {
		t.Errorf("%d frames of a lost stack and two", n)
	}
	if n := len(p.Samples[1].Frames); n != 2 {
		t.Errorf("%d frames of no stack and two", n)
	}
}

// TestValues checks types and values of all shapes.
func TestValues(t *testing.T) {
	el := &render.Element{State: aggregate.State{Value: 40, Count: 4}, Bytes: ids(7)}
	for _, x := range []struct {
		shape, name, unit string
		types             []profile.Type
		values            []int64
	}{
		{"count", "@", "", []profile.Type{{Name: "samples", Unit: "count"}}, []int64{40}},
		{"hist", "@", "", []profile.Type{{Name: "samples", Unit: "count"}}, []int64{4}},
		{"avg", "@bytes", "", []profile.Type{{Name: "samples", Unit: "count"}, {Name: "total", Unit: "bytes"}}, []int64{4, 40}},
		{"stats", "@off_cpu_us", "", []profile.Type{{Name: "samples", Unit: "count"}, {Name: "total", Unit: "microseconds"}}, []int64{4, 40}},
		{"sum", "@x", "ns", []profile.Type{{Name: "total", Unit: "nanoseconds"}}, []int64{40}},
		{"sum", "@status", "furlongs", []profile.Type{{Name: "total", Unit: "furlongs"}}, []int64{40}},
		{"sum", "@status", "", []profile.Type{{Name: "total", Unit: "count"}}, []int64{40}},
		{"plain", "@", "", []profile.Type{{Name: "total", Unit: "count"}}, []int64{7}},
		{"min", "@", "", nil, nil},
		{"tseries", "@", "", nil, nil},
	} {
		m := &manifest.Map{Name: x.name, Shape: x.shape, Value: &number, MapNames: manifest.MapNames{Unit: x.unit}}
		types := Types(m)
		if !cmp.Equal(types, x.types) {
			t.Errorf("%s %s: types %v, want %v", x.shape, x.name, types, x.types)
		}
		if types != nil && !cmp.Equal(values(m, types, el), x.values) {
			t.Errorf("%s: values %d, want %d", x.shape, values(m, types, el), x.values)
		}
	}
	big := &render.Element{State: aggregate.State{Value: 1 << 63}}
	if got := values(&manifest.Map{Shape: "count", Value: &number}, nil, big); got[0] != 1<<63-1 {
		t.Errorf("a count that pprof cannot express: %d", got[0])
	}
}

func TestFind(t *testing.T) {
	key, plain := tuple(comm, kstack), tuple(comm, number)
	stack := func(name, shape string) manifest.Map {
		return manifest.Map{Name: name, Shape: shape, Key: &key, Value: &number}
	}
	other := manifest.Map{Name: "@pids", Shape: "count", Key: &plain, Value: &number}
	for _, x := range []struct {
		maps       []manifest.Map
		name, want string
	}{
		{[]manifest.Map{other, stack("@a", "count")}, "", "@a"},
		{[]manifest.Map{stack("@a", "count"), stack("@b", "sum")}, "b", "@b"},
		{[]manifest.Map{stack("@a", "count"), stack("@b", "sum")}, "@a", "@a"},
		{[]manifest.Map{stack("@a", "count"), stack("@b", "sum")}, "", "x.bt has several maps for a profile: choose one of @a, @b with --map"},
		{[]manifest.Map{stack("@a", "count"), other}, "pids", "--map: pids is not a map of x.bt with a stack in the key and a value that adds up: those are @a"},
		{[]manifest.Map{other, stack("@m", "max")}, "", "x.bt has no map for a profile: it needs a stack in the key and a value that adds up, such as @[ustack, kstack] = count()"},
	} {
		m, err := Find(&manifest.Manifest{Script: manifest.Script{File: "x.bt"}, Maps: x.maps}, x.name)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = m.Name
		}
		if got != x.want {
			t.Errorf("got %s, want %s", got, x.want)
		}
	}
}

func TestPeriod(t *testing.T) {
	at := func(kind, unit string, n uint64) manifest.Program {
		return manifest.Program{Kind: kind, Attach: manifest.Attach{Unit: unit, Count: n}}
	}
	for _, x := range []struct {
		want uint64
		all  []manifest.Program
	}{
		{10101010, []manifest.Program{at("profile", "hz", 99), at("begin", "", 0), at("interval", "s", 1)}},
		{1e6, []manifest.Program{at("profile", "ms", 1), at("profile", "us", 1000)}},
		{0, []manifest.Program{at("profile", "hz", 99), at("profile", "hz", 100)}},
		{0, []manifest.Program{at("profile", "hz", 99), at("kprobe", "", 0)}},
		{0, []manifest.Program{at("profile", "hz", 0)}},
		{0, nil},
	} {
		if got := period(&manifest.Manifest{Programs: x.all}); got != x.want && !(x.want == 0 && got == 1e9) {
			t.Errorf("%v: %d, want %d", x.all, got, x.want)
		}
	}
}

// TestHostile checks that names of programs make valid text.
func TestHostile(t *testing.T) {
	key := tuple(comm, kstack)
	m := &manifest.Map{Name: "@", Shape: "count", Key: &key, Value: &number}
	env := &format.Env{Stack: func(*manifest.Layout, uint64, uint32) []format.Frame { return []format.Frame{{Sym: "f\xff;\n"}} }}
	p := Make(&manifest.Manifest{}, m, []render.Element{{Key: append([]byte("c\xfe;\n\x00..........."), ids(1)...), State: aggregate.State{Value: 1}}}, env)
	var folded string
	p.Folded(func(line []byte) { folded += string(line) })
	if strings.Count(folded, "\n") != 1 || strings.Count(folded, ";") != 1 {
		t.Errorf("%q", folded)
	}
}
