// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	pprof "github.com/google/pprof/profile"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"btc/cmd/btc/export"
	"btc/cmd/btc/gengo"
	"btc/internal/arch"
	"btc/internal/manifest"
	"btc/loader/bpfmap"
	"btc/loader/format"
	"btc/loader/object"
	"btc/loader/output"
	"btc/loader/permit"
	"btc/loader/render"
)

// hostileStrings would begin a line, a series, a member, a statement or a sequence of a terminal where they are not
// escaped. Each is looked for by the word "forged" where it must not be.
var hostileStrings = []string{
	"x 1\nforged{a=\"b\"} 0\n#", "x\r\nforged 1\r\n", "x\",forged=\"1", "x\"} 1\nforged 1\n# {\"", `x\`, `x\", "forged": "`, "x\"}\n{\"forged\": 1}\n", "x\x00forged", "\xff\xfe forged \xc3", "\xed\xa0\x80forged",
	"\x1b]0;forged\x07\x1b[2J", "\u009b2Jforged", "\x7f\b\b\bforged", "\u2028forged\u2029", "\u202eforged", "*/\nfunc init() { forged() }\n/*", "\nfunc init() { forged() }\n//", "`+forged()+`", "\"+forged()+\"",
	"x\n- forged: 1\n", "x: forged\n  forged: &a [*a]", "{{forged}}", "${forged}", "<script>forged</script>", "%s%n%1000000d forged", "x\n# EOF\nforged 1\n", "x\t\v\fforged",
}

// TestEscaping puts these strings into each string of manifests, and into what traced processes control: keys, values
// and events. Each format, and everything that is generated from a manifest, stays what it is: its own parser accepts
// it, and nothing in it is forged.
func TestEscaping(t *testing.T) {
	accepted, seen := map[string]int{}, map[string]int{}
	for i, b := range bases(t)[:len(scripts)] {
		first, err := manifest.Parse(b.manifest)
		if err != nil {
			t.Fatal(err)
		}
		for _, hostile := range hostileStrings {
			texts := outputs(t, b.object, first, hostile)
			checkTexts(t, fmt.Sprintf("script %d, string %q of a process", i, hostile), texts)
		}
		var all []field
		collect(reflect.ValueOf(first).Elem(), "", &all)
		for at := range all {
			if all[at].value.Kind() != reflect.String || seen[all[at].key] == 2 {
				continue
			}
			seen[all[at].key]++
			for _, hostile := range hostileStrings {
				m, err := manifest.Parse(b.manifest)
				if err != nil {
					t.Fatal(err)
				}
				var fields []field
				collect(reflect.ValueOf(m).Elem(), "", &fields)
				fields[at].value.SetString(hostile)
				text, err := json.Marshal(m.File())
				if err != nil {
					t.Fatal(err)
				}
				if m, err = manifest.Parse(text); err != nil {
					if clean(err.Error()) != err.Error() {
						t.Errorf("%s: the error has the string: %q", all[at].key, err)
					}
					continue
				}
				accepted[all[at].key]++
				texts := outputs(t, b.object, m, "a")
				if printing[all[at].key] {
					delete(texts, "text")
				}
				checkTexts(t, fmt.Sprintf("script %d, %s = %q", i, all[at].key, hostile), texts)
			}
		}
	}
	t.Logf("accepted: %v", accepted)
	for _, key := range []string{"File", "Source", "Help", "KeyNames"} {
		if accepted[key] == 0 {
			t.Errorf("no hostile string is accepted as %s: the test does not reach the formats", key)
		}
	}
}

// clean removes what an escaped text does not have.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
}

// outputs returns the output of each format, and each text that is made of the manifest. Keys, values and events are
// filled with a string.
func outputs(t *testing.T, data []byte, m *manifest.Manifest, hostile string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	fill := func(n int) []byte {
		b := make([]byte, n)
		copy(b, hostile)
		return b
	}
	r := rand.New(rand.NewPCG(1, 1))
	for _, f := range output.Formats {
		var out bytes.Buffer
		env := format.Env{Escape: !f.JSON, Trailer: "..", User: func(uint64) string { return hostile }, Ksym: func(uint64) string { return hostile }, Usym: func(uint64, uint32) string { return hostile }, Probe: func(uint64) string { return hostile },
			Cgroup: func(uint64, string) format.Cgroup { return format.Cgroup{} }, Clock: func(ns uint64, clock int) time.Time { return time.Unix(0, int64(ns)) }, Stack: func(*manifest.Layout, uint64, uint32) []format.Frame { return []format.Frame{{Sym: "a"}} }}
		run := &output.Run{
			Manifest: m, Env: &env, Message: func(string) {}, MessageNow: func(string) {}, Post: func(_ int, job func()) { job() },
			Frames: func(*manifest.Layout, uint64) []uint64 { return nil }, Object: "x", Host: "h",
			Losses: func() []output.Loss { return []output.Loss{{Cause: "map", N: 1}} },
		}
		var to interface{ Write([]byte) (int, error) } = &out
		if f.Name == "text" {
			to = format.Terminal(&out)
		}
		run.Out = output.NewWriter("none", func(text []byte, _ bool) []byte { to.Write(text); return text[:0] })
		sink := f.New(run)
		if f.Name != "text" { // a newline that a script prints is printed
			for i := range m.Events {
				x := &m.Events[i]
				e := format.Event{Event: x}
				for j := range x.Fields {
					e.Values = append(e.Values, format.Value{Layout: &x.Fields[j].Layout, Bytes: fill(max(x.Fields[j].Layout.Size, 8))})
				}
				if len(e.Values) > 0 {
					sink.Print(&e)
					sink.Printf(&e, format.ParseFormat(x.Format))
				}
			}
		}
		sink.End(func(show func(*output.Map)) {
			for i := range m.Maps {
				x := &m.Maps[i]
				if x.Shape == "intern" || x.Shape == "stack" {
					continue
				}
				entry := bpfmap.Entry{Key: fill(x.KeySize), Values: [][]byte{fill(x.ValueSize)}}
				var elems []render.Element
				switch {
				case x.Shape == "tseries":
					elems = render.ReduceSeries(x, []bpfmap.Entry{entry})
				case x.Shape == "plain":
					elems = append(elems, render.Reduce(x, entry))
				default:
					entry.Values[0] = bytesOf(x.ValueSize, r)
					elems = append(elems, render.Reduce(x, entry))
				}
				show(&output.Map{Map: x, Elements: elems})
			}
		})
		run.Out.Flush(true)
		if f.Binary {
			if out.Len() > 0 {
				if _, err := pprof.ParseData(out.Bytes()); err != nil {
					t.Errorf("%s: %v", f.Name, err)
				}
			}
			continue
		}
		texts[f.Name] = out.String()
	}
	var err error
	if texts["ebpf_exporter"], _, err = export.EBPFExporter(m); err != nil {
		delete(texts, "ebpf_exporter")
	}
	if text, _, err := export.Grafana(m, hostile); err == nil {
		texts["grafana"] = string(text)
	}
	if text, _, err := export.Rules(m, hostile, "5m"); err == nil {
		texts["rules"] = text
	}
	if text, err := gengo.Source(m, gengo.Options{Package: "p", Library: "btc/btrace", Name: "X", Object: "x.o", Script: m.Script.File}); err == nil {
		texts["go"] = string(text)
	}
	if o, err := object.Parse(data, m); err == nil {
		var b strings.Builder
		permit.Describe(o, 128).Print(&b)
		texts["inspect"] = b.String()
		if text, _, err := export.Gadget(o, hostile, arch.ByName("amd64")); err == nil {
			texts["gadget"] = text
		}
	}
	return texts
}

// checkTexts fails for each text that is not what its format demands.
func checkTexts(t *testing.T, what string, texts map[string]string) {
	t.Helper()
	for name, text := range texts {
		var wrong string
		if name != "text" && !utf8.ValidString(text) {
			wrong = "not UTF-8"
		}
		for rest := text; len(rest) > 0; { // to a terminal that does not know UTF-8, these are control characters
			r, n := utf8.DecodeRuneInString(rest)
			if r == utf8.RuneError && n == 1 && rest[0] < 0xa0 {
				wrong = "a control character of 8 bits"
			}
			rest = rest[n:]
		}
		for line := range strings.Lines(text) {
			for _, r := range line {
				// JSON permits DEL and U+0080 to U+009F (output on a terminal escapes them), and the exposition formats demand
				// that label values are raw but for newlines, backslashes and quotes.
				bad := unicode.IsControl(r)
				switch name {
				case "json", "json2", "otlp", "grafana", "rules", "gadget", "ebpf_exporter":
					bad = r < ' '
				case "prometheus", "openmetrics":
					bad = false
				}
				if bad && r != '\n' && r != '\t' {
					wrong = fmt.Sprintf("control character in %q", line)
				}
			}
			if begin := strings.TrimLeft(line, " -{\""); strings.HasPrefix(begin, "forged") && name != "text" {
				wrong = fmt.Sprintf("line %q", line)
			}
		}
		switch name {
		case "json", "json2", "otlp", "grafana":
			in := json.NewDecoder(strings.NewReader(text))
			for in.More() && wrong == "" {
				var x any
				if err := in.Decode(&x); err != nil {
					wrong = err.Error()
				} else if hasMember(x, "forged") {
					wrong = "a forged member"
				}
			}
		case "prometheus", "openmetrics":
			if name == "openmetrics" {
				var ok bool
				if text, ok = strings.CutSuffix(text, "# EOF\n"); !ok || strings.Contains(text, "\n# EOF") {
					wrong = "not one end"
				}
				text = withoutUnits(text)
			}
			p := expfmt.NewTextParser(model.LegacyValidation)
			families, err := p.TextToMetricFamilies(strings.NewReader(text))
			if err != nil {
				wrong = err.Error()
			}
			for family, f := range families {
				if strings.Contains(family, "forged") && !strings.HasPrefix(family, "btc_") {
					wrong = "a forged series " + family
				}
				for _, x := range f.Metric {
					for _, l := range x.Label {
						if l.GetName() == "forged" {
							wrong = "a forged label"
						}
					}
				}
			}
		case "go":
			f, err := parser.ParseFile(token.NewFileSet(), "x.go", text, parser.SkipObjectResolution)
			if err != nil {
				wrong = err.Error()
				break
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && (id.Name == "forged" || id.Name == "init") {
					wrong = "a forged statement"
				}
				return true
			})
		}
		if wrong != "" {
			t.Errorf("%s, %s: %s in\n%.3000s", what, name, wrong, text)
		}
	}
}

// withoutUnits removes what only OpenMetrics has and the parser of Prometheus' own format refuses.
func withoutUnits(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "# ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// hasMember reports whether a JSON value has a member of a name.
func hasMember(x any, name string) bool {
	switch x := x.(type) {
	case []any:
		for _, e := range x {
			if hasMember(e, name) {
				return true
			}
		}
	case map[string]any:
		for k, e := range x {
			if k == name || hasMember(e, name) {
				return true
			}
		}
	}
	return false
}
