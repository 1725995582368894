package object

import (
	"encoding/json"
	"github.com/cilium/ebpf"

	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"btc/internal/manifest"
	"btc/internal/safefile"
)

func empty(data []byte) *manifest.Manifest {
	sum := sha256.Sum256(data)
	return &manifest.Manifest{Schema: manifest.Schema, Arches: []string{"x86_64"}, Object: manifest.Object{SHA256: hex.EncodeToString(sum[:]), Size: int64(len(data))}}
}

func TestTheManifestMustBelongToTheObject(t *testing.T) {
	data := []byte("some object")
	for name, spoil := range map[string]func(*manifest.Manifest){
		"it names 12 bytes": func(m *manifest.Manifest) { m.Object.Size++ },
		"sha256 differs":    func(m *manifest.Manifest) { m.Object.SHA256 = strings.Repeat("0", 64) },
		"not a BPF object":  func(*manifest.Manifest) {},
	} {
		m := empty(data)
		spoil(m)
		if _, err := Parse(data, m); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("want %q, got %v", name, err)
		}
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.o")
	if _, err := Read(path); err == nil {
		t.Error("a missing object was read")
	}
	data := []byte("some object")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "x.json") {
		t.Errorf("a missing manifest: %v", err)
	}
	doc, err := json.Marshal(empty(data))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ManifestPath(path), doc, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "not a BPF object") {
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(ManifestPath(path), doc[:len(doc)/2], 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "x.json") {
		t.Errorf("a truncated manifest: %v", err)
	}
}

// What is beside an object may be anyone's: a FIFO would block, and a device may act on being opened.
func TestSpecialFilesBesideAnObject(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.o")
	if err := os.WriteFile(path, []byte("some object"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, make := range map[string]func() error{
		"FIFO":   func() error { return unix.Mkfifo(ManifestPath(path), 0o644) },
		"device": func() error { return os.Symlink("/dev/zero", ManifestPath(path)) },
	} {
		if err := make(); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); !errors.Is(err, safefile.ErrNotRegular) {
			t.Errorf("%s: %v", name, err)
		}
		os.Remove(ManifestPath(path))
	}
}

// FuzzSpec: any bytes give an object or an error. The seed is an object of the
// compiler's, so that the fuzzer begins inside of a real ELF file.
func FuzzSpec(f *testing.F) {
	seed, err := os.ReadFile("testdata/count.o")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte("\x7fELF"))
	m := &manifest.Manifest{
		Maps:     []manifest.Map{{Name: "@", Symbol: "AT_", Type: "percpu_array", KeySize: 4, ValueSize: 8, MaxEntries: 1}},
		Programs: []manifest.Program{{Name: "probe_0", Kind: "begin"}},
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		spec, err := readSpec(data)
		if err != nil {
			return
		}
		_ = checkMaps(spec, m)
		_ = checkPrograms(spec, m)
		_ = checkVariables(spec, m)
	})
}

// What the manifest says of maps and programs must be what the object holds.
func TestDisagreement(t *testing.T) {
	data, err := os.ReadFile("testdata/count.o")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("testdata/count.json")
	if err != nil {
		t.Fatal(err)
	}
	parse := func(spoil func(*manifest.Manifest)) error {
		m, err := manifest.Parse(doc)
		if err != nil {
			t.Fatal(err)
		}
		spoil(m)
		_, err = Parse(data, m)
		return err
	}
	if err := parse(func(*manifest.Manifest) {}); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*manifest.Manifest){
		"has no map nope":      func(m *manifest.Manifest) { m.Maps[0].Symbol = "nope" },
		"is a PerCPUArray":     func(m *manifest.Manifest) { m.Maps[0].Type = "array" },
		"values of 8 bytes":    func(m *manifest.Manifest) { m.Maps[0].ValueSize = 64 },
		"entries, not 5":       func(m *manifest.Manifest) { m.Maps[0].MaxEntries = 5 },
		"has no program nope":  func(m *manifest.Manifest) { m.Programs[0].Name = "nope" },
		"which a kprobe":       func(m *manifest.Manifest) { m.Programs[0].Kind = "kprobe" },
		"has no variable nope": func(m *manifest.Manifest) { m.Globals = append(m.Globals, manifest.Global{Name: "nope", Size: 4}) },
	} {
		if err := parse(spoil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	if err := parse(func(*manifest.Manifest) {}); err != nil || !bytes.HasPrefix(data, []byte("\x7fELF")) {
		t.Error(err)
	}
}

// The programs that the compiler makes for a kind of probe are of the type that
// questions about the kind are asked of (kfunc_allowed).
func TestProgramTypes(t *testing.T) {
	for kind, want := range map[string]ebpf.ProgramType{
		"test": ebpf.XDP, "bench": ebpf.XDP, "begin": ebpf.RawTracepoint, "rawtracepoint": ebpf.Tracing,
		"kprobe": ebpf.Kprobe, "usdt": ebpf.Kprobe, "interval": ebpf.PerfEvent, "nonsense": ebpf.UnspecifiedProgram,
	} {
		if got := ProgramType(kind); got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
	}
}
