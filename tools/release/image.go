// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
)

// descriptor names a blob of an image (OCI image specification 1.1).
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    map[string]string `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// image makes the container image of btrun for all architectures, as an archive of an OCI layout.
// It holds btrun, its license and mount points, and no user, shell or library.
func (r *release) image() error {
	var blobs []file
	add := func(mediaType string, data []byte) descriptor {
		digest := fmt.Sprintf("%x", sha256.Sum256(data))
		blobs = append(blobs, file{"blobs/sha256/" + digest, data, 0o644})
		return descriptor{MediaType: mediaType, Digest: "sha256:" + digest, Size: len(data)}
	}
	encode := func(v any) []byte {
		data, err := json.Marshal(v)
		if err != nil {
			panic("BUG: " + err.Error())
		}
		return data
	}
	labels := map[string]string{
		"org.opencontainers.image.title": "btrun", "org.opencontainers.image.version": r.tag(), "org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.description": "attaches BPF objects that btc compiled from bpftrace scripts, and reports",
	}
	created := r.time.Format("2006-01-02T15:04:05Z")
	var manifests []descriptor
	for _, p := range platforms {
		if p.os != "linux" {
			continue
		}
		files := []file{{"btrun", r.binaries["linux/"+p.arch+"/btrun"], 0o755}}
		for _, dir := range []string{"dev", "proc", "sys", "tmp", "work"} {
			files = append(files, file{dir, nil, 0o755})
		}
		for _, d := range r.docs {
			if d.name == "LICENSE" || d.name == "NOTICE" || d.name == "THIRD-PARTY-NOTICES" {
				d.name = "licenses/" + d.name
				files = append(files, d)
			}
		}
		plain, err := tarOf(r, files)
		if err != nil {
			return err
		}
		packed, err := gzipped(plain)
		if err != nil {
			return err
		}
		config := add(typeConfig, encode(map[string]any{
			"created": created, "architecture": p.arch, "os": "linux",
			"config":  map[string]any{"Entrypoint": []string{"/btrun"}, "WorkingDir": "/work", "Labels": labels},
			"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(plain))}},
			"history": []any{map[string]any{"created": created, "created_by": "make release"}},
		}))
		d := add(typeManifest, encode(map[string]any{
			"schemaVersion": 2, "mediaType": typeManifest, "config": config, "layers": []descriptor{add(typeLayer, packed)}, "annotations": labels,
		}))
		d.Platform = map[string]string{"os": "linux", "architecture": p.arch}
		manifests = append(manifests, d)
	}
	index := add(typeIndex, encode(map[string]any{"schemaVersion": 2, "mediaType": typeIndex, "manifests": manifests}))
	// A tag has no "+".
	index.Annotations = map[string]string{
		"org.opencontainers.image.ref.name": "btrun:" + strings.ReplaceAll(r.tag(), "+", "_"),
	}
	layout := append([]file{
		{"oci-layout", encode(map[string]string{"imageLayoutVersion": "1.0.0"}), 0o644},
		{"index.json", encode(map[string]any{"schemaVersion": 2, "mediaType": typeIndex, "manifests": []descriptor{index}}), 0o644},
	}, blobs...)
	data, err := tarOf(r, layout)
	if err != nil {
		return err
	}
	return r.write("btrun-"+r.tag()+"-oci.tar", data)
}
