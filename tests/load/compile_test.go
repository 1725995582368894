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
	"btc/internal/objfile"
)

// TestCompile compiles each script twice, checking the IR after each pass, and reads the object and the
// manifest back.
func TestCompile(t *testing.T) {
	n, refused := 0, 0
	for _, s := range all(t) {
		t.Run(s.name, func(t *testing.T) {
			if !strings.HasPrefix(s.text, "// ") {
				t.Error("the first line is not a comment that describes the script")
			}
			switch {
			case s.panic != "":
				t.Fatalf("compiler panic: %s", s.panic)
			case s.refused != "":
				checkRefused(t, s)
				refused++
				return
			case s.out == nil:
				t.Fatalf("refused:\n%s", rendered(s.diags))
			}
			n++
			if s.again == nil || !bytes.Equal(s.out.Object, s.again.Object) || !bytes.Equal(s.out.Manifest, s.again.Manifest) {
				t.Error("the second compilation produced a different object")
			}
			checkReadBack(t, s)
		})
	}
	t.Logf("%d scripts compiled, %d rejected as expected", n, refused)
}

// checkRefused checks that there is one error, with a position and with the string named by the script.
func checkRefused(t *testing.T, s *script) {
	text := rendered(s.diags)
	if s.out != nil {
		t.Fatal("script compiles: remove its \"refused\" line")
	}
	if !strings.Contains(text, s.refused) || !strings.Contains(text, s.name+".bt:") {
		t.Errorf("want one error with %q and a position, got:\n%s", s.refused, text)
	}
}

func rendered(l *diag.List) string {
	var b strings.Builder
	if err := diag.Render(&b, l, diag.RenderOptions{}); err != nil {
		return err.Error()
	}
	return b.String()
}

// checkReadBack checks that the object and the manifest agree.
func checkReadBack(t *testing.T, s *script) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(s.out.Object))
	if err != nil {
		t.Fatalf("cilium/ebpf cannot read the object: %v", err)
	}
	m, err := manifest.Parse(s.out.Manifest)
	if err != nil {
		t.Fatalf("invalid manifest: %v", err)
	}
	object, inside, err := objfile.Split(s.out.Object)
	if err != nil {
		t.Fatalf("not one file with its manifest: %v", err)
	}
	if !bytes.Equal(inside, s.out.Manifest) {
		t.Error("the manifest in the object is not the manifest beside it")
	}
	if sum := sha256.Sum256(object); m.Object.SHA256 != hex.EncodeToString(sum[:]) || m.Object.Size != int64(len(object)) {
		t.Error("hash in the manifest does not match the object")
	}
	for _, p := range m.Programs {
		switch got := spec.Programs[p.Name]; {
		case got == nil:
			t.Errorf("program %s of the manifest is not in the object", p.Name)
		case got.SectionName != p.Section:
			t.Errorf("program %s: section %s in the object, %s in the manifest", p.Name, got.SectionName, p.Section)
		}
	}
	if len(spec.Programs) != len(m.Programs) {
		t.Errorf("%d programs in the object, %d in the manifest", len(spec.Programs), len(m.Programs))
	}
	for i := range m.Maps {
		checkMap(t, &m.Maps[i], spec.Maps[m.Maps[i].Symbol])
	}
	for _, list := range [][]string{globals(m), params(m)} {
		for _, g := range list {
			if spec.Variables[g] == nil {
				t.Errorf("variable %s of the manifest is not in the object", g)
			}
		}
	}
}

func checkMap(t *testing.T, m *manifest.Map, got *ebpf.MapSpec) {
	if got == nil {
		t.Errorf("map %s (%s) of the manifest is not in the object", m.Name, m.Symbol)
		return
	}
	if int(got.KeySize) != m.KeySize || int(got.ValueSize) != m.ValueSize || int(got.MaxEntries) != m.MaxEntries {
		t.Errorf("map %s: key size, value size and entries %d, %d, %d in the object; %d, %d, %d in the manifest",
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
