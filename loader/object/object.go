// SPDX-License-Identifier: Apache-2.0

// Package object reads a compiled object with its manifest and checks that they match.
//
// It takes file names, streams or bytes and returns a cilium/ebpf collection spec together with the validated manifest,
// which is in the object's last section, in a file next to it (objects from before December 2026), or both. All are
// hostile input: the result has every program and map that the manifest names, with the types and sizes given there.
package object

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"strings"

	"github.com/cilium/ebpf"

	"btc/internal/manifest"
	"btc/internal/objfile"
	"btc/internal/safefile"
	"btc/internal/signature"
)

// MaxBytes is the maximum size of an object.
const MaxBytes = 64 << 20

// Object is a valid object with its manifest.
type Object struct {
	Path     string
	Manifest *manifest.Manifest
	Text     []byte // the manifest's JSON; nil if the object was not read from a file or stream
	Spec     *ebpf.CollectionSpec
	files    *Files
}

// InvalidError is an error about the content of a file, which its message may quote.
type InvalidError struct {
	Path string
	Err  error
}

func (e *InvalidError) Error() string { return e.Path + ": " + e.Err.Error() }
func (e *InvalidError) Unwrap() error { return e.Err }

// ManifestPath returns the path of an object's manifest as a file of its own: x.json next to x.o.
func ManifestPath(path string) string { return strings.TrimSuffix(path, ".o") + ".json" }

// Files are an object and its manifest as bytes, which have not been checked yet.
type Files struct {
	Path         string // of the object, for messages
	Data         []byte // the object's file, with the section of the manifest if it has one
	Manifest     []byte // the manifest as a file of its own; nil if there is none
	manifestPath string
	Signatures   []signature.File // of the object's file
	unsigned     string           // what to do if there are no signatures; "": not known
}

// NewFiles returns the files of an object from elsewhere than a file at path. manifest is nil if there is only one file.
func NewFiles(path string, data, manifest []byte) *Files {
	return &Files{Path: path, Data: data, Manifest: manifest, manifestPath: ManifestPath(path)}
}

// ReadFiles reads the object at path and, if it exists, the manifest next to it.
func ReadFiles(path string) (*Files, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	data, err := readFile(path, MaxBytes)
	if err != nil {
		return nil, err
	}
	text, err := readFile(ManifestPath(path), manifest.MaxBytes)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f := NewFiles(path, data, text)
	f.Signatures, f.unsigned = readSignatures(path), "sign it: btc sign --key FILE "+path
	return f, nil
}

// Joined reports whether the object contains its manifest, so that its file is all that a loader needs.
func (f *Files) Joined() bool {
	_, _, err := objfile.Split(f.Data)
	return err == nil
}

// split returns the object without its section, and the manifest, which path names in errors.
func (f *Files) split() (object, text []byte, path string, err error) {
	if len(f.Data) > MaxBytes || len(f.Manifest) > manifest.MaxBytes {
		return nil, nil, "", fmt.Errorf("%s: larger than %d bytes", f.Path, MaxBytes)
	}
	object, text, err = objfile.Split(f.Data)
	switch {
	case err == nil && f.Manifest != nil && !bytes.Equal(text, f.Manifest):
		err = fmt.Errorf("%s differs from the manifest in the object: remove one of the two", f.manifestPath)
	case err == objfile.ErrNone && objfile.Linked(f.Data):
		err = errors.New("objects were linked (bpftool gen object), and no manifest fits the result: run each by itself")
	case err == objfile.ErrNone && f.Manifest != nil:
		return f.Data, f.Manifest, f.manifestPath, nil
	case err == objfile.ErrNone && f.Path == StreamName:
		err = ended(io.EOF, "after an object without a manifest")
	case err == objfile.ErrNone && !bytes.HasPrefix(f.Data, []byte(elf.ELFMAG)):
		err = errors.New("not a BPF object")
	case err == objfile.ErrNone && objfile.Size(f.Data) > uint64(len(f.Data)):
		err = fmt.Errorf("truncated: %d of %d bytes", len(f.Data), objfile.Size(f.Data))
	case err == objfile.ErrNone:
		err = fmt.Errorf("missing manifest: neither a section %s, which strip and objcopy remove, nor a file %s; use the object as btc compile wrote it",
			objfile.Section, f.manifestPath)
	}
	if err != nil {
		return nil, nil, "", fmt.Errorf("%s: %w", f.Path, err)
	}
	return object, text, f.Path, nil
}

// Parse checks the files and returns a new Object.
func (f *Files) Parse() (*Object, error) {
	object, text, path, err := f.split()
	if err != nil {
		return nil, err
	}
	m, err := manifest.Parse(text)
	if err != nil {
		return nil, &InvalidError{path, err}
	}
	o, err := parse(object, m)
	if err != nil {
		return nil, &InvalidError{f.Path, err}
	}
	o.Path, o.Text, o.files = f.Path, text, f
	return o, nil
}

// Read reads the object at path and its manifest.
func Read(path string) (*Object, error) {
	f, err := ReadFiles(path)
	if err != nil {
		return nil, err
	}
	return f.Parse()
}

// ReadManifest reads and validates the manifest of the object at path.
func ReadManifest(path string) (*manifest.Manifest, error) {
	f, err := ReadFiles(path)
	if err != nil {
		return nil, err
	}
	_, text, path, err := f.split()
	if err != nil {
		return nil, err
	}
	m, err := manifest.Parse(text)
	if err != nil {
		return nil, &InvalidError{path, err}
	}
	return m, nil
}

// checkPath reports files that are obviously not an object before anything is read.
func checkPath(path string) error {
	fi, err := os.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("cannot read the object: %w", err)
	case fi.IsDir():
		return fmt.Errorf("%s: is a directory, not an object", path)
	case !strings.HasSuffix(path, ".o"):
		return fmt.Errorf("%s: the name of an object ends in .o", path)
	}
	return nil
}

func readFile(name string, limit int64) ([]byte, error) {
	f, err := safefile.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var b bytes.Buffer
	if fi, err := f.Stat(); err == nil && fi.Mode().IsRegular() {
		b.Grow(int(min(fi.Size(), limit)) + bytes.MinRead)
	}
	if _, err := b.ReadFrom(io.LimitReader(f, limit+1)); err != nil {
		return nil, err
	}
	if int64(b.Len()) > limit {
		return nil, fmt.Errorf("%s: file too large (max %d bytes)", name, limit)
	}
	return b.Bytes(), nil
}

// Parse reads an object's file, with or without the section of the manifest, and checks it against the manifest.
func Parse(data []byte, m *manifest.Manifest) (*Object, error) {
	if object, _, err := objfile.Split(data); err == nil {
		data = object
	}
	return parse(data, m)
}

const differs = "the object is damaged, or was changed after it was compiled (strip, objcopy), or the manifest belongs to another object: "

// parse is Parse for an object without the section.
func parse(data []byte, m *manifest.Manifest) (*Object, error) {
	if int64(len(data)) != m.Object.Size {
		return nil, fmt.Errorf(differs+"it names %d bytes, this one has %d", m.Object.Size, len(data))
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != m.Object.SHA256 {
		return nil, errors.New(differs + "sha256 differs")
	}
	spec, err := readSpec(data)
	if err != nil {
		return nil, err
	}
	if err := checkMaps(spec, m); err != nil {
		return nil, err
	}
	if err := checkPrograms(spec, m); err != nil {
		return nil, err
	}
	nameVariables(spec, m)
	if err := checkVariables(spec, m); err != nil {
		return nil, err
	}
	return &Object{Manifest: m, Spec: spec}, nil
}

// readSpec turns a panic of the ELF reader into an error: the input is untrusted.
func readSpec(data []byte) (spec *ebpf.CollectionSpec, err error) {
	defer func() {
		if p := recover(); p != nil {
			spec, err = nil, fmt.Errorf("not a BPF object: %v", p)
		}
	}()
	if err := checkSections(data); err != nil {
		return nil, fmt.Errorf("not a BPF object: %w", err)
	}
	spec, err = ebpf.LoadCollectionSpecFromReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("not a BPF object: %w", err)
	}
	return spec, nil
}

// nameVariables gives the variables the names that the manifest has for them. Their symbols are unique
// for each object, so that objects can be linked.
func nameVariables(spec *ebpf.CollectionSpec, m *manifest.Manifest) {
	named := map[string]*ebpf.VariableSpec{}
	for i := range m.Globals {
		if g := &m.Globals[i]; g.Symbol != "" {
			if v := spec.Variables[g.Symbol]; v != nil {
				named[g.Name] = v
				delete(spec.Variables, g.Symbol)
			}
		}
	}
	maps.Copy(spec.Variables, named)
}

func checkVariables(spec *ebpf.CollectionSpec, m *manifest.Manifest) error {
	check := func(name string, size int) error {
		v := spec.Variables[name]
		if v == nil {
			return fmt.Errorf("the object has no variable %s, which the manifest names", name)
		}
		if int(v.Size()) != size {
			return fmt.Errorf("variable %s has %d bytes, not %d", name, v.Size(), size)
		}
		return nil
	}
	for i := range m.Globals {
		if err := check(m.Globals[i].Name, m.Globals[i].Size); err != nil {
			return err
		}
	}
	for i := range m.Params {
		if err := check(m.Params[i].Global, m.Params[i].Size); err != nil {
			return err
		}
	}
	// Otherwise losses would not be reported.
	size := 0
	if v := spec.Variables["lost"]; v != nil {
		size = int(v.Size())
	}
	if size != 8*len(m.Losses) {
		return fmt.Errorf("the object has %d bytes of loss counters, and the manifest names %d counters", size,
			len(m.Losses))
	}
	return nil
}
