// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"btc/cmd/btc/export"
	"btc/internal/arch"
	"btc/internal/option"
	"btc/internal/safefile"
	"btc/loader/object"
)

func exportGadget() *command {
	var out, image string
	return &command{
		name: "gadget", operands: "FILE.o", summary: "write an image with which Inspektor Gadget runs an object", files: []string{"o"},
		about: "`ig image import` accepts the image as an archive; tools such as oras copy a directory to a registry. " +
			"Without -o, the metadata (gadget.yaml) is printed. Anything that Inspektor Gadget cannot show or run is listed " +
			"on standard error. See docs/loaders.md.",
		options: option.Table{
			{Name: "output", Short: "o", Value: "FILE.tar|DIR", To: &out, Help: "image to write, in the OCI layout: an archive if the name ends in .tar, else a directory"},
			{Name: "tag", Short: "t", Value: "NAME[:TAG]", To: &image,
				Help: "name of the image; without a registry it is below ghcr.io/inspektor-gadget/gadget, as for `ig`. Default: the object's name"},
		},
		run: func(line *option.Line) int {
			operands := line.All()
			if len(operands) != 1 {
				return fail("expected one object: FILE.o from `btc compile --for gadget`")
			}
			if err := writeGadget(operands[0], out, image); err != nil {
				return fail("%v", err)
			}
			return 0
		},
	}
}

// writeGadget writes the image of an object, or prints its metadata if out is empty.
func writeGadget(path, out, image string) error {
	o, err := object.Read(path)
	if err != nil {
		return err
	}
	name, ref, err := gadgetRef(path, image)
	if err != nil {
		return err
	}
	if out == "" {
		text, err := gadgetMetadata(path, o, name, nil, map[string]bool{})
		fmt.Print(text)
		return err
	}
	var arches []export.ArchMetadata
	said := map[string]bool{}
	for _, label := range o.Manifest.Arches {
		a := arch.ByName(label)
		if a == nil {
			continue
		}
		text, err := gadgetMetadata(path, o, name, a, said)
		if err != nil {
			return err
		}
		arches = append(arches, export.ArchMetadata{GOARCH: a.GOARCH, Metadata: []byte(text)})
	}
	program, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	files, err := export.GadgetImage(program, arches, name, ref)
	if err != nil {
		return err
	}
	if !strings.HasSuffix(out, ".tar") {
		return export.WriteFiles(out, files)
	}
	archive, err := export.Tar(files)
	if err != nil {
		return err
	}
	return safefile.Write(out, archive, 0o666)
}

// gadgetMetadata returns the metadata of an object for an architecture. Each omission is reported
// once.
func gadgetMetadata(path string, o *object.Object, name string, a *arch.Arch, said map[string]bool) (string, error) {
	text, left, err := export.Gadget(o, name, a)
	for _, l := range left {
		if !said[l] {
			fmt.Fprintf(os.Stderr, "btc: omitted: %s\n", l)
		}
		said[l] = true
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return text, nil
}

// gadgetRef returns the name of a gadget, and the full name of its image including the tag.
func gadgetRef(path, image string) (name, ref string, err error) {
	if image == "" {
		image = strings.ToLower(strings.TrimSuffix(filepath.Base(path), ".o"))
	}
	ref, tag := image, "latest"
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') {
		ref, tag = image[:i], image[i+1:]
	}
	if !gadgetNames().MatchString(ref) || !gadgetTags().MatchString(tag) {
		return "", "", fmt.Errorf("%q is not a name of an image: use --tag with lower-case letters, digits, '.', '_', '-' and '/'",
			image)
	}
	name = ref[strings.LastIndexByte(ref, '/')+1:]
	if !strings.Contains(ref, "/") {
		ref = "ghcr.io/inspektor-gadget/gadget/" + ref
	}
	return name, ref + ":" + tag, nil
}

// Valid names and tags of images, as registries accept them.
var (
	gadgetNames = pattern(`^([a-zA-Z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*$`)
	gadgetTags  = pattern(`^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$`)
)
