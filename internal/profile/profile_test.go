// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	pprof "github.com/google/pprof/profile"
)

// hostile are names that a traced program can choose.
var hostile = []string{
	"<script>alert(1)</script>", "a;b", "a b 12", "12", " ", ";", "\u202egnp.exe", "line\nbreak\r\x00\x1b[31m", "quo\"te\\'&",
	"bad\xff\xfeutf8", "std::map<int, long>::operator[](int&&)", "é世", strings.Repeat("n", 1000),
}

// example has all kinds of frames, labels and values.
func example() *Profile {
	b := &Builder{}
	b.Types = []Type{{"samples", "count"}, {"total", "bytes"}}
	b.Labels = []string{"comm", "pid"}
	b.Start, b.Duration, b.Period, b.Comment = 1700000000000000005, 3e9, 10101010, "avg in @ of x.bt"
	main := b.Frame(&Frame{Name: "main", Address: 0x1010, File: "m.c", Line: 7}, "/bin/x", "abcd")
	unknown := b.Frame(&Frame{Address: 0x9f0}, "/usr/lib/libc.so.6", "ef01")
	inlined := b.Frame(&Frame{Name: "small", Address: 0x1010, Inlined: true}, "/bin/x", "abcd")
	read := b.Frame(&Frame{Name: "vfs_read", Address: 0xffffffff81000010, Kernel: true}, "[kernel.kallsyms]", "")
	lost := b.Frame(&Frame{Name: NoStack}, "", "")
	b.Samples = []Sample{
		{Frames: []uint32{main, unknown, inlined, read}, Labels: []string{"x", "7"}, Values: []int64{3, 300}},
		{Frames: []uint32{main}, Labels: []string{"x", ""}, Values: []int64{1, -5}},
		{Frames: []uint32{lost, read}, Labels: []string{"", ""}, Values: []int64{2, 0}},
		{Labels: []string{"", ""}, Values: []int64{2, 4}},
	}
	for i, name := range hostile {
		f := b.Frame(&Frame{Name: strings.ToValidUTF8(name, "\uFFFD"), Kernel: i%2 == 0}, "", "")
		b.Samples = append(b.Samples, Sample{Frames: []uint32{f, f}, Labels: []string{strings.ToValidUTF8(name, "\uFFFD"), "1"}, Values: []int64{1, 10}})
	}
	return &b.Profile
}

func encoded(p *Profile) []byte {
	var out bytes.Buffer
	p.Pprof(func(b []byte) { out.Write(b) })
	return out.Bytes()
}

// TestPprof reads a profile with pprof's own package.
func TestPprof(t *testing.T) {
	p := example()
	got, err := pprof.ParseData(encoded(p))
	if err != nil {
		t.Fatal(err)
	}
	if err := got.CheckValid(); err != nil {
		t.Fatal(err)
	}
	if got.TimeNanos != int64(p.Start) || got.DurationNanos != int64(p.Duration) || got.Period != int64(p.Period) || got.PeriodType.Type != "cpu" || got.DefaultSampleType != "total" {
		t.Errorf("times, period or type: %+v", got)
	}
	if !cmp.Equal(got.Comments, []string{p.Comment}) {
		t.Errorf("comments %q", got.Comments)
	}
	var sum [2]int64
	for i, s := range got.Sample {
		want := p.Samples[i]
		sum[0], sum[1] = sum[0]+s.Value[0], sum[1]+s.Value[1]
		if !cmp.Equal(s.Value, want.Values) {
			t.Errorf("sample %d: values %d, want %d", i, s.Value, want.Values)
		}
		for j, label := range want.Labels {
			if got := strings.Join(s.Label[p.Labels[j]], "|"); got != label {
				t.Errorf("sample %d: %s is %q, want %q", i, p.Labels[j], got, label)
			}
		}
		if len(want.Frames) == 0 {
			if name := s.Location[0].Line[0].Function.Name; name != NoStack {
				t.Errorf("a sample without frames: %s", name)
			}
			continue
		}
		for j, l := range s.Location { // innermost first
			f := p.Frames[want.Frames[len(want.Frames)-1-j]]
			name, file := "", ""
			if len(l.Line) > 0 {
				name = l.Line[0].Function.Name
			}
			if l.Mapping != nil {
				file = l.Mapping.File + " " + l.Mapping.BuildID
				if m := p.Mappings[f.Mapping-1]; file != m.File+" "+m.BuildID {
					t.Errorf("sample %d: mapping %s, want %s", i, file, m)
				}
				if l.Address >= l.Mapping.Limit {
					t.Errorf("address %#x is outside of its mapping, which ends at %#x", l.Address, l.Mapping.Limit)
				}
			}
			if name != f.Name || l.Address != f.Address {
				t.Errorf("sample %d: frame %q at %#x, want %q at %#x", i, name, l.Address, f.Name, f.Address)
			}
		}
	}
	if sum != [2]int64{p.Total(0), p.Total(1)} {
		t.Errorf("sums %d, want %d and %d", sum, p.Total(0), p.Total(1))
	}
	// pprof looks for functions only in files without any.
	for _, m := range got.Mapping {
		if want := m.File != "/usr/lib/libc.so.6"; m.HasFunctions != want {
			t.Errorf("%s: has functions: %t", m.File, m.HasFunctions)
		}
	}
}

// TestPprofBlocks has more bytes than a block of the gzip file.
func TestPprofBlocks(t *testing.T) {
	for _, n := range []int{0, 1, 1000, 20000} {
		b := &Builder{}
		b.Types = []Type{{"samples", "count"}}
		for i := range n {
			b.Samples = append(b.Samples, Sample{Frames: []uint32{b.Frame(&Frame{Name: fmt.Sprint("function", i)}, "", "")}, Values: []int64{int64(i)}})
		}
		got, err := pprof.ParseData(encoded(&b.Profile))
		if err != nil || len(got.Sample) != n {
			t.Errorf("%d samples: %v", n, err)
		}
	}
}

// lines returns the folded stacks, and their sum as a reader finds it: the value is after the last space.
func lines(t *testing.T, p *Profile) (all []string, sum int64) {
	p.Folded(func(line []byte) { all = append(all, string(line)) })
	for _, line := range all {
		var n int64
		at := strings.LastIndexByte(line, ' ')
		if _, err := fmt.Sscanf(line[at:], " %d\n", &n); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		sum += n
	}
	return all, sum
}

func TestFolded(t *testing.T) {
	p := example()
	all, sum := lines(t, p)
	if want := p.Total(1) + 5; sum != want { // without the negative value
		t.Errorf("sum %d, want %d", sum, want)
	}
	text := strings.Join(all, "")
	for _, want := range []string{"x;7;main;[libc.so.6];small_[i];vfs_read_[k] 300\n", "[unknown] 4\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for _, line := range all {
		stack := line[:strings.LastIndexByte(line, ' ')]
		if strings.Contains(stack, " ") || strings.ContainsAny(stack, "\n\r\x00\x1b\u202e") || strings.Contains(";"+stack+";", ";;") {
			t.Errorf("%q", line)
		}
	}
	if n := p.Folded(func([]byte) {}); n != 1 {
		t.Errorf("%d negative values, want 1", n)
	}
}

// TestFoldedNames checks how names are escaped.
func TestFoldedNames(t *testing.T) {
	for name, want := range map[string]string{
		"a;b": "a:b", "a b 12": "a_b_12", "\u202ex": `\u202ex`, "a\nb": `a\nb`, "\x1b": `\x1b`, `\`: `\\`, "é世": "é世", "bad\xff": `bad\xff`,
	} {
		if got := string(appendName([]byte("x"), name)); got != "x"+want {
			t.Errorf("%q: %s, want x%s", name, got, want)
		}
	}
}

// TestFoldedMerges checks that stacks that look alike are one line.
func TestFoldedMerges(t *testing.T) {
	b := &Builder{}
	b.Types = []Type{{"samples", "count"}}
	for i := range 10 {
		b.Samples = append(b.Samples, Sample{Frames: []uint32{b.Frame(&Frame{Name: "f", Address: uint64(i)}, "/bin/x", "")}, Values: []int64{2}})
	}
	if all, sum := lines(t, &b.Profile); len(all) != 1 || sum != 20 {
		t.Errorf("%q", all)
	}
}
