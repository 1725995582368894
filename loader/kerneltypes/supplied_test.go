// SPDX-License-Identifier: Apache-2.0

package kerneltypes

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
)

// marshal encodes types as BTF.
func marshal(t *testing.T, types ...btf.Type) []byte {
	t.Helper()
	b, err := btf.NewBuilder(types, nil)
	if err != nil {
		t.Fatal(err)
	}
	blob, err := b.Marshal(nil, &btf.MarshalOptions{Order: binary.NativeEndian})
	if err != nil {
		t.Fatal(err)
	}
	return blob
}

func write(t *testing.T, path string, content []byte) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestInDir(t *testing.T) {
	const debian = "NAME=\"Debian\"\nID=debian\nVERSION_ID=\"12\"\n"
	k := &Kernel{Release: "5.4.0-1", Machine: "aarch64", System: debian}
	for _, c := range []struct {
		name   string
		files  []string
		system string
		want   string // path, or "!" and the error
	}{
		{"plain", []string{"5.4.0-1.btf", "debian/12/arm64/5.4.0-1.btf"}, debian, "5.4.0-1.btf"},
		{"own distribution first", []string{"debian/12/arm64/5.4.0-1.btf", "ubuntu/20.04/arm64/5.4.0-1.btf"}, debian, "debian/12/arm64/5.4.0-1.btf"},
		{"in a container of another distribution", []string{"ubuntu/20.04/arm64/5.4.0-1.btf"}, debian, "ubuntu/20.04/arm64/5.4.0-1.btf"},
		{"unknown system, two", []string{"rhel/8/arm64/5.4.0-1.btf", "centos/8/arm64/5.4.0-1.btf"}, "", "!several distributions have a kernel 5.4.0-1"},
		{"other architecture", []string{"debian/12/x86_64/5.4.0-1.btf"}, debian, "!no types for Linux 5.4.0-1"},
		{"other release", []string{"5.4.0-2.btf"}, debian, "!no types for Linux 5.4.0-1"},
		{"packed", []string{"debian/12/arm64/5.4.0-1.btf.tar.xz"}, debian, "!unpack it"},
	} {
		dir := t.TempDir()
		for _, f := range c.files {
			write(t, filepath.Join(dir, f), nil)
		}
		k.System = c.system
		path, err := k.InDir(dir)
		if want, refused := strings.CutPrefix(c.want, "!"); refused {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %s, error = %v, want %q", c.name, path, err, want)
			}
			if errors.Is(err, fs.ErrNotExist) != strings.Contains(want, "no types") {
				t.Errorf("%s: %v must only be fs.ErrNotExist if there is no file", c.name, err)
			}
		} else if err != nil || path != filepath.Join(dir, want) {
			t.Errorf("%s: %s, %v, want %s", c.name, path, err, want)
		}
	}
}

// elfWith returns an ELF file of a type and machine, with a single section .BTF.
func elfWith(kind, machine uint16, name string, blob []byte) []byte {
	names := "\x00" + name + "\x00.shstrtab\x00"
	var b bytes.Buffer
	le := func(v ...any) {
		for _, x := range v {
			binary.Write(&b, binary.LittleEndian, x)
		}
	}
	strings := 64 + len(blob)
	le([]byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00"), kind, machine, uint32(1), uint64(0), uint64(0), uint64(strings+len(names)))
	le(uint32(0), uint16(64), uint16(56), uint16(0), uint16(64), uint16(3), uint16(2))
	le(blob, []byte(names), make([]byte, 64))
	le(uint32(1), uint32(1), uint64(0), uint64(0), uint64(64), uint64(len(blob)), uint32(0), uint32(0), uint64(1), uint64(0))
	le(uint32(2+len(name)), uint32(3), uint64(0), uint64(0), uint64(strings), uint64(len(names)), uint32(0), uint32(0), uint64(1), uint64(0))
	return b.Bytes()
}

func TestELF(t *testing.T) {
	blob := marshal(t, &btf.Struct{Name: "a", Size: 4, Members: []btf.Member{{Name: "x", Type: &btf.Int{Name: "int", Size: 4}}}})
	dir := t.TempDir()
	small, missing, err := Subset(write(t, dir+"/vmlinux", elfWith(2, 62, ".BTF", blob)), []string{"a", "b"})
	if err != nil || !slices.Equal(missing, []string{"b"}) {
		t.Fatal(missing, err)
	}
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(small))
	var s *btf.Struct
	if err != nil || spec.TypeByName("a", &s) != nil {
		t.Errorf("no struct a in the subset: %v", err)
	}
	for want, content := range map[string][]byte{
		"without BTF":        elfWith(2, 62, ".data", blob),
		"not a kernel":       elfWith(1, 247, ".BTF", blob), // a BPF object: its offsets are not the kernel's
		"not BTF of version": []byte("no types at all, and long enough for a header"),
		"BTF":                nil,
	} {
		if _, _, err := Subset(write(t, dir+"/f", content), []string{"a"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want %q", err, want)
		}
	}
}

// moduleWith returns the BTF of a module with an empty struct whose name is in the string table of the
// kernel or of the module.
func moduleWith(t *testing.T, kernel []byte, name string) []byte {
	t.Helper()
	strs := kernel[24+order.Uint32(kernel[16:]):]
	at, own := bytes.Index(strs, append([]byte{0}, name+"\x00"...))+1, []byte{0}
	if at == 0 {
		at, own = len(strs)+1, append(own, name+"\x00"...)
	}
	b := make([]byte, 24+12)
	copy(b, kernel[:8])
	for i, w := range []uint32{0, 12, 12, uint32(len(own)), uint32(at), kindStruct << 24, 4} {
		order.PutUint32(b[8+4*i:], w)
	}
	return append(b, own...)
}

// TestModules checks that names that a module gives to types are found, even if the kernel also
// declares the type.
func TestModules(t *testing.T) {
	dir := t.TempDir()
	kernel := marshal(t, &btf.Struct{Name: "inode", Size: 4}, &btf.Fwd{Name: "xfs_mount"}, &btf.Struct{Name: "file", Size: 4})
	write(t, dir+"/vmlinux", kernel)
	write(t, dir+"/ext4", moduleWith(t, kernel, "ext4_inode_info"))
	write(t, dir+"/xfs", moduleWith(t, kernel, "xfs_mount"))
	for name, want := range map[string][]string{"inode": nil, "ext4_inode_info": {"ext4"}, "xfs_mount": {"xfs"}, "xfs": nil} {
		have, err := modules(dir, []string{name})
		if err != nil || !slices.Equal(have, want) {
			t.Errorf("%s: found %q, error = %v, want %q", name, have, err, want)
		}
	}
	write(t, dir+"/broken", []byte("?"))
	if _, err := modules(dir, []string{"inode"}); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("module with unreadable types: error = %v", err)
	}
}
