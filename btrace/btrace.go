// SPDX-License-Identifier: Apache-2.0

// Package btrace runs objects compiled by btc inside a Go program: a tracing agent without a compiler, a script or
// kernel headers on the host.
//
// An Object is a compiled script, an ELF file that contains its manifest, from a file, bytes or an embedded file system.
// Load checks it, sets the parameters, and loads its programs into the kernel; Session.Attach starts them.
// Session.Events then returns the script's output as typed values, and Map.Snapshot reads its maps at any time:
//
//	object, err := btrace.Open("reads.o")
//	session, err := btrace.Load(object, btrace.Options{})
//	defer session.Close()
//	err = session.Attach(ctx)
//	for event := range session.Events() { ... }
//
// LoadReport returns a session that prints what btrun prints instead: btrun reads its command line, opens its output,
// handles signals, and leaves the rest to this package.
//
// Aggregations can be merged: values from several intervals, sessions or hosts combine to the values that a single
// map would have (Hist.Merge, Snapshot.Merge). Session.Losses counts what the kernel could not deliver.
//
// The package handles no signals, writes only to what a Report names, never ends the process and has no global state: a
// process may have several sessions, and all methods may be called by several goroutines. Objects are treated as
// hostile input. Actions other than observing, such as sending signals, are refused unless Options allow them.
//
// Running needs Linux 5.10 or later, and root or the capabilities CAP_BPF, CAP_PERFMON and, for
// tracepoints, CAP_DAC_READ_SEARCH.
//
// # Processes
//
// A session starts no process, with three exceptions: Options.Command, commands of the script's system() if they are
// allowed, and resolving names of user-space functions. Files of traced programs are not trusted, so they are parsed in
// a process without privileges: it runs this program again (/proc/self/exe), but never gets past an init function of
// this package's dependencies. Options.NoHelper does without it, at a price. On hosts that do not execute files in memory, the process of Options.Command begins in
// the same way.
//
// # Compatibility
//
// The public packages are this one, promcollector and manifest. Within a major version their exported identifiers keep
// their meaning, and objects from older compilers run. All other packages may change at any time.
package btrace

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync/atomic"

	"btc/internal/signature"
	"btc/loader/object"
)

// Object is a compiled script. It is immutable, and can be loaded several times.
type Object struct {
	files          *object.Files
	parsed         atomic.Pointer[object.Object] // for the first session, which modifies it; nil: it has been used
	script, source string
	params         []Param
	probes         []string
}

// Open reads the object at path, whose name ends in .o. An object from before December 2026 has its manifest next to it
// (x.json for x.o); where both exist, they must be the same. Signatures are in x.o.minisig and x.o.sig.
func Open(path string) (*Object, error) {
	files, err := object.ReadFiles(path)
	if err != nil {
		return nil, err
	}
	return newObject(files)
}

// OpenFS is like Open, but reads from a file system such as an embed.FS.
func OpenFS(fsys fs.FS, path string) (*Object, error) {
	if !strings.HasSuffix(path, ".o") {
		return nil, fmt.Errorf("%s: the name of an object ends in .o", path)
	}
	data, err := fs.ReadFile(fsys, path)
	if err != nil {
		return nil, err
	}
	text, err := fs.ReadFile(fsys, object.ManifestPath(path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	files := object.NewFiles(path, data, text)
	for _, end := range signature.Extensions {
		text, err := fs.ReadFile(fsys, path+end)
		if !errors.Is(err, fs.ErrNotExist) {
			files.Signatures = append(files.Signatures, signature.File{Path: path + end, Text: text, Err: err})
		}
	}
	return newObject(files)
}

// Read reads an object from a stream. An object that does not contain its manifest has it before or after it in the
// stream, as in cat x.o x.json. If r is a *bufio.Reader of the default size or larger, nothing after the object, or the
// second of the two, is consumed.
func Read(r io.Reader) (*Object, error) {
	files, err := object.ReadStream(bufio.NewReader(r))
	if err != nil {
		return nil, err
	}
	return newObject(files)
}

// Parse returns an object from the content of its file. manifest is the content of the separate manifest of an object
// that does not contain it; nil if there is none.
func Parse(data, manifest []byte) (*Object, error) {
	return newObject(object.NewFiles("object", data, manifest))
}

// Named is like Read, from memory. Messages and metrics name the object like one at path.
func Named(path string, stream []byte) (*Object, error) {
	files, err := object.FromStream(path, stream)
	if err != nil {
		return nil, err
	}
	return newObject(files)
}

// ParseSigned is like Parse, for an object that contains its manifest and has signatures: the contents of signature files
// that minisign or ssh-keygen wrote.
func ParseSigned(data []byte, signatures ...[]byte) (*Object, error) {
	files := object.NewFiles("object", data, nil)
	for _, text := range signatures {
		files.Signatures = append(files.Signatures, signature.File{Path: "signature", Text: text})
	}
	return newObject(files)
}

func newObject(files *object.Files) (*Object, error) {
	x, err := files.Parse()
	if err != nil {
		return nil, err
	}
	m := x.Manifest
	o := &Object{files: files, script: m.Script.File, source: m.Script.Source}
	for _, p := range m.Params {
		o.params = append(o.params, Param{Name: p.Name, Type: p.Type, Default: p.Default, Help: p.Help})
	}
	for i := range m.Programs {
		o.probes = append(o.probes, m.Programs[i].Attach.Text)
	}
	o.parsed.Store(x)
	return o, nil
}

// read returns the parsed object, which the caller may modify.
func (o *Object) read() (*object.Object, error) {
	if x := o.parsed.Swap(nil); x != nil {
		return x, nil
	}
	return o.files.Parse()
}

// Source returns the name and the source text of the script.
func (o *Object) Source() (name, text string) { return o.script, o.source }

// Param is a load-time parameter of the object.
type Param struct {
	// Name is "$1", "$2", ... of Options.Args, or the name of one of Options.Params.
	Name string
	// Type is int, string, bool or ipv4.
	Type    string
	Default string
	Help    string
}

// Params lists the parameters. A parameter that the script uses both as a number and as a string is listed twice.
func (o *Object) Params() []Param { return slices.Clone(o.params) }

// Probes lists the attach points, as in "kprobe:vfs_read".
func (o *Object) Probes() []string { return slices.Clone(o.probes) }
