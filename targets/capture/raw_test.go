// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"archive/tar"
	"bytes"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"btc/internal/kernelfs"
	"btc/targets/targetfile"
)

// archive returns a raw capture with the given files.
func archive(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, content := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(content)), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestImport checks that the target file of a raw capture has the kernel's functions, tracepoints and
// system calls.
func TestImport(t *testing.T) {
	files := map[string]string{"arch": "x86_64\n", "release": "6.1-toy\n", "btf/vmlinux": string(kernel(t))}
	for name, file := range tracefs() {
		files["tracefs/"+name] = string(file.Data)
	}
	raw, err := Import(bytes.NewReader(archive(t, files)))
	if err != nil {
		t.Fatal(err)
	}
	f, err := targetfile.Open(raw)
	if err != nil {
		t.Fatal(err)
	}
	if f.Meta.Release != "6.1-toy" || f.Meta.Arch != "x86_64" {
		t.Errorf("release = %s, arch = %s", f.Meta.Release, f.Meta.Arch)
	}
	event, ok, err := f.Event("sched", "wake")
	if err != nil || !ok || event.Class != "trace_event_raw_wake_template" {
		t.Errorf("sched:wake = %v, %v, %v", event, ok, err)
	}
	if call, ok, err := f.Syscall("open"); err != nil || !ok || call.Nr != 2 {
		t.Errorf("open = %v, %v, %v", call, ok, err)
	}
	if fn, ok, err := f.Func("do_wake"); err != nil || !ok || !fn.Traceable || fn.Proto == nil {
		t.Errorf("do_wake = %v, %v, %v", fn, ok, err)
	}
}

// TestImportKallsyms checks that the same capture without tracefs has the functions in kallsyms.
func TestImportKallsyms(t *testing.T) {
	raw, err := Import(bytes.NewReader(archive(t, map[string]string{
		"arch": "x86_64", "release": "6.1", "btf/vmlinux": string(kernel(t)), "kallsyms": "0000000000000000 T do_wake\n",
	})))
	if err != nil {
		t.Fatal(err)
	}
	f, err := targetfile.Open(raw)
	if err != nil {
		t.Fatal(err)
	}
	if fn, ok, err := f.Func("do_wake"); err != nil || !ok || !fn.Traceable {
		t.Errorf("do_wake = %v, %v, %v", fn, ok, err)
	}
}

func TestImportRefuses(t *testing.T) {
	head := func(size string) []byte {
		b := archive(t, map[string]string{"arch": ""})
		copy(b[124:], size) // a size beyond the end of the file
		sum := 0
		copy(b[148:], "        ")
		for _, c := range b[:512] {
			sum += int(c)
		}
		copy(b[148:], []byte{byte('0' + sum>>15&7), byte('0' + sum>>12&7), byte('0' + sum>>9&7), byte('0' + sum>>6&7), byte('0' + sum>>3&7), byte('0' + sum&7), 0, ' '})
		return b
	}
	for name, c := range map[string]struct {
		raw  []byte
		want string
	}{
		"an object": {[]byte(strings.Repeat("\x7fELF", 1000)), "not a raw capture"},
		"nothing":   {nil, "no file arch"},
		"no types":  {archive(t, map[string]string{"arch": "x86_64", "release": "6.1"}), "no file btf/vmlinux"},
		"a bomb":    {head("77777777777"), "more than 512 MiB"},
		"cut off":   {head("00000010000"), "not a raw capture: arch: unexpected EOF"},
		"wrong BTF": {archive(t, map[string]string{"arch": "x86_64", "release": "6.1", "btf/vmlinux": "x"}), "BTF"},
	} {
		if _, err := Import(bytes.NewReader(c.raw)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error = %v, want %q", name, err, c.want)
		}
	}
}

// TestRawOfHost checks that the compiler reads what btrun writes on this kernel.
func TestRawOfHost(t *testing.T) {
	var raw bytes.Buffer
	err := kernelfs.WriteRaw(&raw)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		t.Skip("skipped: no BTF of the running kernel: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	imported, err := Import(&raw)
	if err != nil {
		t.Fatal(err)
	}
	direct, err := HostFile()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(imported, direct) {
		t.Errorf("different targets: %d bytes through a raw capture, %d directly", len(imported), len(direct))
	}
}

func FuzzImport(f *testing.F) {
	f.Add(archive(f, map[string]string{"arch": "x86_64", "release": "6.1", "btf/vmlinux": string(kernel(f)), "kallsyms": "0 T f\n"}))
	f.Fuzz(func(t *testing.T, b []byte) { _, _ = Import(bytes.NewReader(b)) })
}
