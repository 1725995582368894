// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"btc/frontend/diag"
	"btc/internal/arch"
	"btc/internal/bundle"
	"btc/internal/objfile"
	"btc/internal/option"
	"btc/loader/object"
)

// bundler makes an executable of a script or an object.
type bundler struct {
	script      scriptFlags
	out, loader string
}

func bundleCommand() *command {
	var b bundler
	return &command{
		name: "bundle", operands: "FILE.bt | FILE.o | -e PROGRAM [-- PARAMETERS]", summary: "make an executable of a script: the loader and the object in one file", files: []string{"bt", "o"},
		about: "The executable takes the options of btrun and the script's parameters, and needs nothing else on the host. " +
			"It is for one architecture: that of --arch, by default this machine's. Running one is trusting an executable: " +
			"it can do whatever its user can. See docs/howto/bundle.md.",
		examples: []example{
			{"btc bundle biolatency.bt", "write biolatency, for hosts like this one"},
			{"btc bundle --arch arm64 biolatency.bt -o biolatency", "for hosts with arm64"},
			{"btc bundle reads.o --loader btrun-arm64", "of a compiled object, with the loader of another release"},
		},
		options: append(option.Table{
			{Name: "output", Short: "o", Value: "FILE", To: &b.out, Help: "executable to write; default: the script's or object's name without .bt or .o"},
			{Name: "loader", Value: "FILE", To: &b.loader, Help: "btrun for the architecture; default: the one in this btc, if it is of a release, else btrun next to btc"},
		}, b.script.table()...),
		run: b.run,
	}
}

func (b *bundler) run(line *option.Line) int {
	out, files, label, status, err := b.object(line)
	if err == nil && files == nil {
		return status
	}
	if err == nil {
		err = b.write(out, files, label)
	}
	if err != nil {
		return fail("%v", err)
	}
	return 0
}

// object returns the default name of the executable, the object with its signatures, and the architecture that the user has
// chosen, or "". The files are nil if the compiler has printed errors.
func (b *bundler) object(line *option.Line) (out string, files *object.Files, label string, status int, err error) {
	s := &b.script
	switch len(s.targets.arches) {
	case 0:
	case 1:
		label = s.targets.arches[0]
	default:
		return "", nil, "", 1, errors.New("--arch: an executable is for one architecture: make one for each")
	}
	if !s.isExpr && len(line.Operands) > 0 && strings.HasSuffix(line.Operands[0], ".o") {
		path := line.Operands[0]
		switch extra := slices.Concat(line.Operands[1:], line.After); {
		case len(extra) > 0:
			return "", nil, "", 1, fmt.Errorf("unexpected argument %q: %s is compiled; give parameters when it runs", extra[0], path)
		case len(s.targets.files) > 0:
			return "", nil, "", 1, fmt.Errorf("--target is for scripts: %s is compiled", path)
		}
		files, err := object.ReadFiles(path)
		if err != nil {
			return "", nil, "", 1, err
		}
		if !files.Joined() {
			if files.Data, err = joinOld(files); err != nil {
				return "", nil, "", 1, err
			}
			files.Signatures = nil // of the object without its manifest
		}
		return strings.TrimSuffix(filepath.Base(path), ".o"), files, label, 0, nil
	}
	s.words = line.After
	name, text, err := s.script(line.Operands)
	if err != nil {
		return "", nil, "", 1, err
	}
	if extra := s.extra(line.Operands); extra != "" {
		return "", nil, "", 1, fmt.Errorf("unexpected argument %q: one script at a time; parameters follow --", extra)
	}
	if name != diag.Stdin {
		out = strings.TrimSuffix(filepath.Base(name), ".bt")
	}
	o, status := s.compile(name, text)
	if o == nil {
		return "", nil, "", max(status, 1), nil
	}
	return out, object.NewFiles(out, o.Object, nil), label, status, nil
}

// joinOld returns the file of an object whose manifest is a second file.
func joinOld(files *object.Files) ([]byte, error) {
	if _, err := files.Parse(); err != nil {
		return nil, err
	}
	data, err := objfile.Join(files.Data, files.Manifest)
	if err != nil {
		return nil, fmt.Errorf("%s was compiled before December 2026, and has its manifest in a second file: compile the script again", files.Path)
	}
	return data, nil
}

// write writes the executable.
func (b *bundler) write(out string, files *object.Files, label string) error {
	if b.out != "" {
		out = b.out
	}
	if out == "" {
		return errors.New("missing output file: use -o FILE")
	}
	o, err := object.NewFiles(out, files.Data, nil).Parse()
	if err != nil {
		return err
	}
	arches := o.Manifest.Arches
	if label == "" && len(arches) == 1 {
		label = arches[0]
	}
	if a := arch.Host(); label == "" && a != nil {
		label = a.Label
	}
	if label == "" || !slices.Contains(arches, label) {
		return fmt.Errorf("the object is for %s: choose with --arch, or compile it for %s", strings.Join(arches, " and "), arch.HostLabel())
	}
	loader, err := b.readLoader(arch.ByName(label))
	if err != nil {
		return err
	}
	c := new(bundle.Contents)
	if c.Object, err = files.Stream(); err != nil {
		return err
	}
	name := filepath.Base(out)
	for i, shell := range bundle.Shells {
		c.Completions[i] = []byte(bundleCompletion(shell, name, o.Manifest))
	}
	if err := writeFiles(newFile{out, bundle.Append(loader, c)}); err != nil {
		return err
	}
	return os.Chmod(out, 0o755)
}

// maxLoader is the maximum size of a loader in bytes.
const maxLoader = 64 << 20

// readLoader returns the loader for an architecture.
func (b *bundler) readLoader(a *arch.Arch) ([]byte, error) {
	path := b.loader
	if path == "" {
		if f, err := loaders.Open("loaders/btrun-" + a.GOARCH + ".gz"); err == nil {
			defer f.Close()
			z, err := gzip.NewReader(f)
			if err != nil {
				return nil, err
			}
			return readAll(z, "the loader in this btc", maxLoader)
		}
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		path = filepath.Join(filepath.Dir(self), "btrun")
		data, err := loaderFile(path, a)
		if err != nil {
			err = fmt.Errorf("this btc contains no loader for %s (those of a release do): use --loader FILE (%w)", a.Label, err)
		}
		return data, err
	}
	data, err := loaderFile(path, a)
	if err != nil {
		err = fmt.Errorf("--loader: %w", err)
	}
	return data, err
}

// loaderFile reads a file, and returns an error if it is not a loader for an architecture that runs bundles.
func loaderFile(path string, a *arch.Arch) ([]byte, error) {
	if fi, err := os.Stat(path); err != nil {
		return nil, err
	} else if !fi.Mode().IsRegular() { // a FIFO would wait
		return nil, fmt.Errorf("%s is not btrun", path)
	}
	data, err := readBounded(path, maxLoader)
	if err != nil {
		return nil, err
	}
	return data, checkLoader(path, data, a)
}

// checkLoader returns an error if a file is not a loader for an architecture that runs bundles.
func checkLoader(path string, data []byte, a *arch.Arch) error {
	f, err := elf.NewFile(bytes.NewReader(data))
	switch {
	case err != nil || f.Type != elf.ET_EXEC && f.Type != elf.ET_DYN || f.Class != elf.ELFCLASS64:
		return fmt.Errorf("%s is not btrun for Linux", path)
	case f.Machine != a.Machine:
		return fmt.Errorf("%s is for another architecture than %s (%v)", path, a.Label, f.Machine)
	case bytes.HasSuffix(data, []byte(bundle.Magic)):
		return fmt.Errorf("%s is itself a bundle: use btrun", path)
	}
	info, err := buildinfo.Read(bytes.NewReader(data))
	if err != nil || !strings.HasSuffix(info.Path, "cmd/btrun") { // btc contains the mark, too
		return fmt.Errorf("%s is not btrun", path)
	}
	if !bytes.Contains(data, []byte(bundle.Magic)) {
		return fmt.Errorf("%s is a btrun that is older than btc bundle", path)
	}
	return nil
}
