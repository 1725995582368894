// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"runtime"

	"btc/internal/arch"
	"btc/internal/manifest"
	"btc/internal/option"
	"btc/targets/kernel"
)

// versionInfo is what btc version --json prints. Fields may be added.
type versionInfo struct {
	Version  string          `json:"version"`
	Go       string          `json:"go"` // Go version that btc was built with
	OS       string          `json:"os"`
	Arch     string          `json:"arch"`
	Manifest string          `json:"manifest"` // schema of the manifests that it writes
	Targets  []versionTarget `json:"targets"`  // embedded targets
}

type versionTarget struct {
	Release string `json:"release"`
	Arch    string `json:"arch"`
}

func versionCommand() *command {
	var asJSON bool
	return &command{
		name: "version", summary: "print the version",
		options: option.Table{{Name: "json", To: &asJSON, Help: "print as JSON: also the Go version, the system, the manifest's schema and the embedded targets"}},
		run:     func(line *option.Line) int { return printVersion(line, asJSON) },
	}
}

func printVersion(line *option.Line, asJSON bool) int {
	if args := line.All(); len(args) > 0 {
		return fail("unexpected argument %q", args[0])
	}
	if !asJSON {
		fmt.Println("btc", version)
		return 0
	}
	info := versionInfo{
		Version:  version,
		Go:       runtime.Version(),
		OS:       runtime.GOOS,
		Arch:     arch.HostLabel(),
		Manifest: manifest.Schema,
	}
	for _, a := range arch.All() {
		t, err := kernel.Default(a.Name)
		if err != nil {
			return fail("the embedded target of %s: %v", a.Label, err)
		}
		info.Targets = append(info.Targets, versionTarget{t.Release(), a.Label})
	}
	out, err := json.MarshalIndent(info, "", "  ")
	if err != nil {
		return fail("%v", err)
	}
	fmt.Println(string(out))
	return 0
}
