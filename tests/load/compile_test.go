// SPDX-License-Identifier: Apache-2.0

package load

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"btc/frontend/diag"
	"btc/internal/manifest"
)

// TestCompile compiles each script with the IR checked after each pass, twice,
// and reads object and manifest back.
func TestCompile(t *testing.T) {
	n, refused := 0, 0
	for _, s := range all(t) {
		t.Run(s.name, func(t *testing.T) {
			if !strings.HasPrefix(s.text, "// ") {
				t.Error("its first line does not say, in a comment, what it asks")
			}
			switch {
			case s.panic != "":
				t.Fatalf("the compiler panics: %s", s.panic)
			case s.refused != "":
				checkRefused(t, s)
				refused++
				return
			case s.out == nil:
				t.Fatalf("refused:\n%s", rendered(s.diags))
			}
			n++
			if s.again == nil || !bytes.Equal(s.out.Object, s.again.Object) || !bytes.Equal(s.out.Manifest, s.again.Manifest) {
				t.Error("the second compilation gives other bytes")
			}
			checkReadBack(t, s)
		})
	}
	t.Logf("%d scripts compile, %d are refused as they should be", n, refused)
}

// checkRefused wants one error at a place, with the text that the script names.
func checkRefused(t *testing.T, s *script) {
	text := rendered(s.diags)
	if s.out != nil {
		t.Fatal("it compiles now: remove its \"refused\" line")
	}
	if !strings.Contains(text, s.refused) || !strings.Contains(text, s.name+".bt:") {
		t.Errorf("it is not refused with %q at its place but with:\n%s", s.refused, text)
	}
}

func rendered(l *diag.List) string {
	var b strings.Builder
	if err := diag.Render(&b, l, diag.RenderOptions{}); err != nil {
		return err.Error()
	}
	return b.String()
}

// checkReadBack holds object and manifest against each other.
func checkReadBack(t *testing.T, s *script) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(s.out.Object))
	if err != nil {
		t.Fatalf("cilium/ebpf does not read the object: %v", err)
	}
	m, err := manifest.Parse(s.out.Manifest)
	if err != nil {
		t.Fatalf("the manifest is not valid: %v", err)
	}
	if sum := sha256.Sum256(s.out.Object); m.Object.SHA256 != hex.EncodeToString(sum[:]) || m.Object.Size != int64(len(s.out.Object)) {
		t.Error("the manifest names another object")
	}
	for _, p := range m.Programs {
		switch got := spec.Programs[p.Name]; {
		case got == nil:
			t.Errorf("the manifest's program %s is not in the object", p.Name)
		case got.SectionName != p.Section:
			t.Errorf("program %s is in section %s, the manifest says %s", p.Name, got.SectionName, p.Section)
		}
	}
	if len(spec.Programs) != len(m.Programs) {
		t.Errorf("the object has %d programs, the manifest %d", len(spec.Programs), len(m.Programs))
	}
	for i := range m.Maps {
		checkMap(t, &m.Maps[i], spec.Maps[m.Maps[i].Symbol])
	}
	for _, list := range [][]string{globals(m), params(m)} {
		for _, g := range list {
			if spec.Variables[g] == nil {
				t.Errorf("the manifest's variable %s is not in the object", g)
			}
		}
	}
}

func checkMap(t *testing.T, m *manifest.Map, got *ebpf.MapSpec) {
	if got == nil {
		t.Errorf("the manifest's map %s (%s) is not in the object", m.Name, m.Symbol)
		return
	}
	if int(got.KeySize) != m.KeySize || int(got.ValueSize) != m.ValueSize || int(got.MaxEntries) != m.MaxEntries {
		t.Errorf("map %s has key, value and entries of %d, %d, %d; the manifest says %d, %d, %d",
			m.Name, got.KeySize, got.ValueSize, got.MaxEntries, m.KeySize, m.ValueSize, m.MaxEntries)
	}
}

func globals(m *manifest.Manifest) (names []string) {
	for _, g := range m.Globals {
		names = append(names, g.Name)
	}
	return names
}

func params(m *manifest.Manifest) (names []string) {
	for _, p := range m.Params {
		names = append(names, p.Global)
	}
	return names
}
