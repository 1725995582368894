// SPDX-License-Identifier: Apache-2.0

// Package btrace runs objects compiled by btc inside a Go program: a tracing agent without a compiler, a script or
// kernel headers on the host.
//
// An Object is a compiled script: the ELF file and its JSON manifest, from files, bytes or an embedded file system.
// Load checks it, sets the parameters, and loads its programs into the kernel; Session.Attach starts them.
// Session.Events then returns the script's output as typed values, and Map.Snapshot reads its maps at any time:
//
//	object, err := btrace.Open("reads.o")
//	session, err := btrace.Load(object, btrace.Options{})
//	defer session.Close()
//	err = session.Attach(ctx)
//	for event := range session.Events() { ... }
//
// Aggregations can be merged: values from several intervals, sessions or hosts combine to the values that a single
// map would have (Hist.Merge, Snapshot.Merge). Session.Losses counts what the kernel could not deliver.
//
// The package handles no signals, writes no output, never ends the process and has no global state: a process may
// have several sessions, and all methods may be called by several goroutines. Objects are treated as hostile input.
// Actions other than observing, such as sending signals, are refused unless Options allow them.
//
// Running needs Linux 5.10 or later, and root or the capabilities CAP_BPF, CAP_PERFMON and, for
// tracepoints, CAP_DAC_READ_SEARCH.
//
// # Processes
//
// A session starts no process, with two exceptions: Options.Command, and resolving names of user-space functions.
// Files of traced programs are not trusted, so they are parsed in a process without privileges: it runs this program
// again (/proc/self/exe), but never gets past an init function of this package's dependencies.
//
// # Compatibility
//
// The public packages are this one, manifest and compile. Within a major version their exported identifiers keep
// their meaning, and objects from older compilers run. All other packages may change at any time.
package btrace

import (
	"fmt"
	"io/fs"
	"strings"

	"btc/internal/manifest"
	"btc/loader/object"
)

// Object is a compiled script. It is immutable, and can be loaded several times.
type Object struct {
	name           string
	data, manifest []byte
	m              *manifest.Manifest // must not be modified: each session has its own copy
}

// Open reads the object at path, whose name ends in .o, and the manifest next to it (x.json for x.o).
func Open(path string) (*Object, error) {
	data, text, err := object.Files(path)
	if err != nil {
		return nil, err
	}
	return parse(path, data, text)
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
	if err != nil {
		return nil, err
	}
	return parse(path, data, text)
}

// Parse returns an object from the contents of its two files.
func Parse(object, manifest []byte) (*Object, error) { return parse("object", object, manifest) }

func parse(name string, data, text []byte) (*Object, error) {
	o := &Object{name: name, data: data, manifest: text}
	x, err := o.read()
	if err != nil {
		return nil, err
	}
	o.m = x.Manifest
	return o, nil
}

// read parses the contents again, because a session modifies the result.
func (o *Object) read() (*object.Object, error) {
	if len(o.data) > object.MaxBytes || len(o.manifest) > manifest.MaxBytes {
		return nil, fmt.Errorf("%s: larger than %d bytes", o.name, object.MaxBytes)
	}
	m, err := manifest.Parse(o.manifest)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", object.ManifestPath(o.name), err)
	}
	x, err := object.Parse(o.data, m)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.name, err)
	}
	x.Path = o.name
	return x, nil
}

// Source returns the name and the source text of the script.
func (o *Object) Source() (name, text string) { return o.m.Script.File, o.m.Script.Source }

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
func (o *Object) Params() []Param {
	var out []Param
	for _, p := range o.m.Params {
		out = append(out, Param{Name: p.Name, Type: p.Type, Default: p.Default, Help: p.Help})
	}
	return out
}

// Probes lists the attach points, as in "kprobe:vfs_read".
func (o *Object) Probes() []string {
	var out []string
	for i := range o.m.Programs {
		out = append(out, o.m.Programs[i].Attach.Text)
	}
	return out
}
