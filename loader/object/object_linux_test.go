// SPDX-License-Identifier: Apache-2.0

package object

import (
	"encoding/json"
	"github.com/cilium/ebpf"

	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
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
			t.Errorf("error = %v, want %q", err, name)
		}
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.o")
	if _, err := Read(path); err == nil {
		t.Error("no error for a missing object")
	}
	data := []byte("some object")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "not a BPF object") {
		t.Errorf("missing manifest: error = %v", err)
	}
	doc, err := json.Marshal(empty(data))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ManifestPath(path), doc, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "not a BPF object") {
		t.Errorf("error = %v", err)
	}
	if err := os.WriteFile(ManifestPath(path), doc[:len(doc)/2], 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "x.json") {
		t.Errorf("truncated manifest: error = %v", err)
	}
}

// TestSpecialFilesBesideAnObject checks that only regular files are opened. The files next to an object
// may belong to anyone; opening a FIFO would block, and opening a device may have side effects.
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
			t.Errorf("%s: error = %v", name, err)
		}
		os.Remove(ManifestPath(path))
	}
}

// TestTypesAreCounted checks the limit on the number of types. A chain may be as long as there are
// types; each type counts, with the data after its record.
func TestTypesAreCounted(t *testing.T) {
	order := binary.LittleEndian
	section := func(types []byte) []byte {
		b := make([]byte, 24)
		order.PutUint16(b, 0xeb9f)
		order.PutUint32(b[4:], 24)
		order.PutUint32(b[12:], uint32(len(types)))
		return append(b, types...)
	}
	one := func(kind, elements, more int) []byte {
		b := make([]byte, 12+more)
		order.PutUint32(b[4:], uint32(kind<<24|elements))
		return b
	}
	// One type of each kind, with the data that follows it.
	all := bytes.Join([][]byte{one(1, 0, 4), one(2, 0, 0), one(3, 0, 12), one(4, 2, 24), one(5, 1, 12), one(6, 3, 24), one(7, 0, 0), one(8, 0, 0), one(9, 0, 0), one(10, 0, 0),
		one(11, 0, 0), one(12, 1, 0), one(13, 2, 16), one(14, 0, 4), one(15, 2, 24), one(16, 0, 0), one(17, 0, 4), one(18, 0, 0), one(19, 2, 24)}, nil)
	const kinds = 19
	fits := bytes.Repeat(all, maxTypes/kinds)
	for maxTypes%kinds > 0 && len(fits)%len(all) == 0 {
		fits = append(fits, bytes.Repeat(one(2, 0, 0), maxTypes%kinds)...)
	}
	if err := checkTypes(section(fits), nil, order, new(int)); err != nil {
		t.Errorf("%d types: error = %v", maxTypes, err)
	}
	if err := checkTypes(section(append(fits, one(2, 0, 0)...)), nil, order, new(int)); err == nil {
		t.Errorf("no error for %d types", maxTypes+1)
	}
	for n := range 64 { // truncated at any byte
		if err := checkTypes(section(all)[:n], nil, order, new(int)); err != nil {
			t.Errorf("%d bytes: error = %v", n, err)
		}
	}
}

// TestChainOfTypes checks a chain of two million types, which crashed the program: the recursion of the
// library exhausted the stack.
func TestChainOfTypes(t *testing.T) {
	b, err := os.ReadFile("testdata/count.o")
	if err != nil {
		t.Fatal(err)
	}
	order := binary.LittleEndian
	headers := order.Uint64(b[40:])
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range f.Sections {
		if s.Name != ".BTF" {
			continue
		}
		old, err := s.Data()
		if err != nil {
			t.Fatal(err)
		}
		types, words := order.Uint32(old[12:]), old[24+order.Uint32(old[16:]):]
		grown := append([]byte(nil), old[:24+types]...)
		const chain = 2_000_000
		for n := range uint32(chain) {
			grown = order.AppendUint32(grown, 0)
			grown = order.AppendUint32(grown, 2<<24)
			grown = order.AppendUint32(grown, 1+n)
		}
		order.PutUint32(grown[12:], types+12*chain)
		order.PutUint32(grown[16:], types+12*chain)
		grown = append(grown, words...)
		order.PutUint64(b[headers+uint64(64*i)+24:], uint64(len(b)))
		order.PutUint64(b[headers+uint64(64*i)+32:], uint64(len(grown)))
		b = append(b, grown...)
	}
	if _, err := readSpec(b); err == nil || !strings.Contains(err.Error(), "types") {
		t.Errorf("error = %v", err)
	}
}

// FuzzSpec checks that any input gives an object or an error. The seed is an object from the compiler,
// so that fuzzing starts with a valid ELF file.
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

// TestDisagreement checks that the maps and programs in the manifest must match the object.
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
		"wrong for a kprobe":   func(m *manifest.Manifest) { m.Programs[0].Kind = "kprobe" },
		"of loss counters":     func(m *manifest.Manifest) { m.Losses = append(m.Losses, manifest.Loss{Kind: "unused"}) },
		"has no variable nope": func(m *manifest.Manifest) { m.Globals = append(m.Globals, manifest.Global{Name: "nope", Size: 4}) },
	} {
		if err := parse(spoil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want %q", err, want)
		}
	}
	if err := parse(func(*manifest.Manifest) {}); err != nil || !bytes.HasPrefix(data, []byte("\x7fELF")) {
		t.Error(err)
	}
}

// TestProgramTypes checks that the programs that the compiler generates for a kind of probe have the
// type for which kfunc_allowed is evaluated.
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

// TestNames checks that names to which many members, symbols or sections refer are counted as often.
func TestNames(t *testing.T) {
	order := binary.LittleEndian
	const n = 1000
	table := append(append([]byte{0}, bytes.Repeat([]byte("a"), maxNames/n+1)...), 0)
	// One struct with n members, all of which have the long name.
	b := make([]byte, 24+12+12*n)
	order.PutUint32(b[4:], 24)
	order.PutUint32(b[12:], 12+12*n)
	order.PutUint32(b[16:], 12+12*n)
	order.PutUint32(b[20:], uint32(len(table)))
	order.PutUint32(b[28:], 4<<24|n)
	for i := range n {
		order.PutUint32(b[36+12*i:], 1)
	}
	left := maxNames
	if err := checkTypes(append(b, table...), nil, order, &left); err != nil || left >= 0 {
		t.Errorf("members: %d bytes left, error = %v", left, err)
	}
	// Relocations: two in one section.
	ext := make([]byte, 32+4+8+2*16)
	order.PutUint32(ext[4:], 32)
	order.PutUint32(ext[28:], 4+8+2*16)
	order.PutUint32(ext[32:], 16)
	order.PutUint32(ext[40:], 2)
	order.PutUint32(ext[44+8:], 1)
	order.PutUint32(ext[60+8:], 1)
	none := append([]byte{}, b[:24]...)
	order.PutUint32(none[12:], 0)
	order.PutUint32(none[16:], 0)
	left = maxNames
	if err := checkTypes(append(none, table...), ext, order, &left); err != nil || left != maxNames-2*(len(table)-2) {
		t.Errorf("relocations: %d bytes left, error = %v", left, err)
	}
	// An ELF file with n sections, all of which have the long name.
	file := make([]byte, 64+64*n)
	copy(file, "\x7fELF\x02\x01\x01")
	order.PutUint64(file[40:], 64)
	order.PutUint16(file[58:], 64)
	order.PutUint16(file[60:], n)
	for i := range n {
		order.PutUint32(file[64+64*i:], 1)
	}
	order.PutUint64(file[64+24:], uint64(len(file)))
	order.PutUint64(file[64+32:], uint64(len(table)))
	left = maxNames
	if err := checkHeaders(append(file, table...), &left); err == nil {
		t.Error("no error for the names of sections")
	}
	order.PutUint64(file[64+8:], 1<<11)
	left = maxNames
	if err := checkHeaders(append(file, table...), &left); err == nil || !strings.Contains(err.Error(), "compressed") {
		t.Errorf("a compressed table of names: error = %v", err)
	}
}
