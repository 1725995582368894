// SPDX-License-Identifier: Apache-2.0

package export

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"

	"btc/internal/safefile"
)

// File is a file of an image layout.
type File struct {
	Name    string // slash-separated
	Content []byte
}

// Media types of gadgets (Inspektor Gadget's pkg/oci) and of OCI images.
const (
	gadgetArtifact = "application/vnd.gadget.v1+binary"
	gadgetProgram  = "application/vnd.gadget.ebpf.program.v1+binary"
	gadgetMetadata = "application/vnd.gadget.config.v1+yaml"
	imageIndex     = "application/vnd.oci.image.index.v1+json"
	imageManifest  = "application/vnd.oci.image.manifest.v1+json"
)

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Platform    *platform         `json:"platform,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type ociManifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	ArtifactType  string            `json:"artifactType,omitempty"`
	Config        *descriptor       `json:"config,omitempty"`
	Layers        []descriptor      `json:"layers,omitempty"`
	Manifests     []descriptor      `json:"manifests,omitempty"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

// ArchMetadata is the metadata of a gadget for an architecture, identified by its GOARCH.
type ArchMetadata struct {
	GOARCH   string
	Metadata []byte
}

// GadgetImage returns the files of an OCI image layout that contains a gadget. One object is the
// program for all architectures. ref is the full name of the image with its tag. The output depends
// on nothing but the input.
func GadgetImage(program []byte, arches []ArchMetadata, name, ref string) ([]File, error) {
	w := imageWriter{blobs: map[string]bool{}}
	annotations := map[string]string{"org.opencontainers.image.title": name}
	layer := w.blob(gadgetProgram, program)
	var index ociManifest
	index.SchemaVersion, index.MediaType, index.Annotations = 2, imageIndex, annotations
	for _, arch := range arches {
		config := w.blob(gadgetMetadata, arch.Metadata)
		config.Annotations = annotations
		d, err := w.json(imageManifest, ociManifest{
			SchemaVersion: 2, MediaType: imageManifest, ArtifactType: gadgetArtifact, Config: &config,
			Layers: []descriptor{layer}, Annotations: annotations,
		})
		if err != nil {
			return nil, err
		}
		d.Platform = &platform{Architecture: arch.GOARCH, OS: "linux"}
		index.Manifests = append(index.Manifests, d)
	}
	top, err := w.json(imageIndex, index)
	if err != nil {
		return nil, err
	}
	top.Annotations = map[string]string{"org.opencontainers.image.ref.name": ref}
	layout, err := json.Marshal(ociManifest{SchemaVersion: 2, MediaType: imageIndex, Manifests: []descriptor{top}})
	if err != nil {
		return nil, err
	}
	return append(
		[]File{{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)}, {"index.json", layout}},
		w.files...), nil
}

// imageWriter collects the blobs of an image.
type imageWriter struct {
	files []File
	blobs map[string]bool
}

func (w *imageWriter) blob(media string, content []byte) descriptor {
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	if !w.blobs[digest] {
		w.blobs[digest] = true
		w.files = append(w.files, File{"blobs/sha256/" + digest, content})
	}
	return descriptor{MediaType: media, Digest: "sha256:" + digest, Size: len(content)}
}

func (w *imageWriter) json(media string, v any) (descriptor, error) {
	text, err := json.Marshal(v)
	return w.blob(media, text), err
}

// WriteFiles writes files below a directory, which it creates.
func WriteFiles(dir string, files []File) error {
	for _, f := range files {
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		if err := safefile.Write(path, f.Content, 0o666); err != nil {
			return err
		}
	}
	return nil
}

// Tar returns files as a tar archive.
func Tar(files []File) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		err := w.WriteHeader(&tar.Header{Name: f.Name, Mode: 0o644, Size: int64(len(f.Content)), Format: tar.FormatUSTAR})
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(f.Content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
