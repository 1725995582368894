// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// materials writes a bill of materials in the form of CycloneDX 1.5: the modules, and the
// programs with their checksums.
func (r *release) materials() error {
	type hash struct {
		Alg     string `json:"alg"`
		Content string `json:"content"`
	}
	type component struct {
		Type    string `json:"type"`
		Name    string `json:"name"`
		Version string `json:"version,omitempty"`
		PURL    string `json:"purl,omitempty"`
		Ref     string `json:"bom-ref"`
		Hashes  []hash `json:"hashes,omitempty"`
	}
	all, err := r.modules()
	if err != nil {
		return err
	}
	version, err := r.goCommand(nil, "env", "GOVERSION")
	if err != nil {
		return err
	}
	golang := string(version[len("go") : len(version)-1])
	components := []component{
		{Type: "platform", Name: "Go standard library", Version: golang, PURL: "pkg:golang/std@" + golang, Ref: "std"},
	}
	for _, m := range all {
		purl := "pkg:golang/" + m.Path + "@" + m.Version
		components = append(components,
			component{Type: "library", Name: m.Path, Version: m.Version, PURL: purl, Ref: purl})
	}
	for _, name := range slices.Sorted(maps.Keys(r.binaries)) {
		components = append(components, component{Type: "file", Name: name, Version: r.number(), Ref: "file:" + name,
			Hashes: []hash{{"SHA-256", fmt.Sprintf("%x", sha256.Sum256(r.binaries[name]))}}})
	}
	data, err := json.MarshalIndent(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
		"metadata": map[string]any{
			"timestamp": r.time.Format("2006-01-02T15:04:05Z"),
			"component": component{Type: "application", Name: "btc", Version: r.number(), Ref: "btc"},
		},
		"components": components,
	}, "", "  ")
	if err != nil {
		return err
	}
	return r.write("btc-"+r.tag()+".cdx.json", append(data, '\n'))
}
